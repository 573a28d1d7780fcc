"""How figures for papers look: sans serif, thin rules, the colours of the report."""

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
HEAT = ("#fbe3b4", "#f7b25c", "#ea7440", "#c33b4f", "#7d1f63", "#2e1245")
SIZES = {"gantt": (7.2, 3.9), "queue": (7.2, 3.6), "cdf": (3.5, 2.6), "cdfs": (5.2, 3.4), "density": (3.6, 3.2)}
USUAL = (7.2, 3.0)

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
    "pdf.fonttype": 42,  # letters stay letters
    "svg.fonttype": "none",
    "svg.hashsalt": "wattqueue",  # the same bytes each time
    "path.simplify": True,
    "savefig.dpi": 220,
}


def blank(kind: str) -> Figure:
    """An empty figure of the size that suits the kind."""
    from matplotlib.figure import Figure as Drawing

    return Drawing(figsize=SIZES.get(kind, USUAL), layout="constrained")


def heat() -> LinearSegmentedColormap:
    """The colour scale of watts."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("wattqueue", list(HEAT))


def legend(axes: Axes, **more: Any) -> None:
    """Above the plot, in one line, where nothing is covered."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, borderaxespad=0.2, handlelength=1.6, **more)


def ends(values: NDArray[Any], last: float) -> NDArray[np.float64]:
    """Values of steps with the end of the last one behind them."""
    return np.append(values, last).astype(np.float64)
