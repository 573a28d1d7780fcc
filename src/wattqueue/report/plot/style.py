"""Style of figures for papers: sans serif, thin rules, the colours of the report.

``RC`` holds matplotlib settings that are in force while a figure is drawn. Output is reproducible: no creation date,
ids from a fixed salt, text as text (a paper's figures can be searched and edited).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

INK, SOFT, RULE, BLUE, RED, GREY = "#1b2430", "#566171", "#e4e6e8", "#2b6ca3", "#c8461b", "#b9bfc7"
GREEN, PURPLE = "#0b7d62", "#a8558c"
SERIES = (BLUE, "#d9822b", "#1b9e77", "#c26a9d", "#6fb7e0", "#b0a018", RED, "#6b7280")
"""Colours of runs and users; told apart with any colour vision, and by their dashes."""
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)))
"""Line styles of runs: solid, dashed, dotted, dash-dotted."""
HEAT = ("#fbe3b4", "#f7b25c", "#ea7440", "#c33b4f", "#7d1f63", "#2e1245")
COOL = ("#cfe3f2", "#8fbfe0", "#4b93c6", "#1f639c", "#0b3566")
"""The page's scale of colours beside red, as in page/report.css."""
SIZES = {"gantt": (7.2, 3.9), "queue": (7.2, 3.6), "cdf": (3.5, 2.6), "cdfs": (5.2, 3.4), "density": (3.6, 3.2)}
"""Width and height in inches by kind; one column of a two-column paper is 3.5 wide."""
USUAL = (7.2, 3.0)
"""Width and height in inches of all other kinds: both columns."""

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Source Sans 3", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "axes.edgecolor": "#aeb4bc",
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,  # text stays text: TrueType, not outlines
    "svg.fonttype": "none",
    "svg.hashsalt": "wattqueue",  # element ids from the content, so that the same data gives identical files
    "path.simplify": True,
    "savefig.dpi": 220,
}
"""Settings of matplotlib while a figure is drawn."""
CLEAR: dict[Any, Any] = {"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"}
"""Settings for a figure that has the background of the page on which it stands."""
OF_THE_PAGE = {INK: 1.0, SOFT: 0.8, RC["axes.edgecolor"]: 0.5, RULE: 0.15}
"""Colours in whose place a page's text colour stands, and how opaque it is there."""


def blank(kind: str) -> Figure:
    """Return an empty figure of the size that suits the kind, in inches of a two-column paper."""
    from matplotlib.figure import Figure as Drawing

    return Drawing(figsize=SIZES.get(kind, USUAL), layout="constrained")


def heat() -> LinearSegmentedColormap:
    """Return the colour scale of watts; rising brightness in print stays rising in grey."""
    return _scale(HEAT)


def cool() -> LinearSegmentedColormap:
    """Return the colour scale of shares of a limit, above which red stands."""
    return _scale(COOL)


def _scale(colours: tuple[str, ...]) -> LinearSegmentedColormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("wattqueue", list(colours))


def legend(axes: Axes, **more: Any) -> None:
    """Put the legend above the axes in one line, where it covers nothing."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, borderaxespad=0.2, handlelength=1.6, **more)


def ends(values: NDArray[Any], last: float) -> NDArray[np.float64]:
    """Return the begins of steps with the end of the last one appended."""
    return np.append(values, last).astype(np.float64)
