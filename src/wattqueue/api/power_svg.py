"""The power of a run against its cap as inline SVG, for notebooks.

It needs neither matplotlib nor a script, so that a notebook shows it wherever it is opened. A notebook's theme is not
known here (JupyterLab, VS Code and exported pages name their colours differently), so text, axes and the cap are drawn
in ``currentColor``, the theme's own text colour, and areas in colours of medium lightness with opacity, which are
readable on white and on black.

The picture is drawn in a view box of fixed size, which the page scales to the width of the cell. Power and cap are
step series: a value holds from one edge to the next, so paths consist of horizontal and vertical lines (``H`` and
``V`` of SVG) and no value is drawn between two steps. From bottom to top the layers are idle nodes, running jobs on
top of them, the band from minimum to maximum where a column stands for many steps, the excess, and the cap.

The data are the columns of ``report.figures.power``, the same that the HTML report and ``plot`` draw.
"""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.steps import Steps
from wattqueue.report import words
from wattqueue.report.figure import Bins, Figure

WIDTH, HEIGHT = 720.0, 210.0
"""Size of the view box; a unit is a pixel where the cell is as wide."""
LEFT, RIGHT, TOP, BOTTOM = 52.0, 8.0, 26.0, 34.0
"""Margins for axis labels and the legend, in the units of the view box."""
COLUMNS = 360
"""Steps that are drawn; more than that do not fit the width."""
JOBS, IDLE, OVER = "#4c93d0", "#8d97a3", "#dc5630"
"""Fill colours of running jobs, idle nodes, and power above the cap."""


def power_svg(figure: Figure) -> str:
    """Return the power figure of a run (``report.figures.power``) as an SVG element.

    Its sentence (peak, mean, how the cap was kept) becomes title and label, for readers who do not see the picture.
    """
    # A run without any duration still needs a scale, as one without any power does below.
    end = float(figure.extra["end_s"]) or 1.0
    edge, c = coarse(figure.columns, end)
    stacked = bool(figure.extra["stacked"])
    capped = "cap_w" in c
    finite = np.isfinite(c["cap_w"]) if capped else np.zeros(len(edge) - 1, np.bool_)
    highest = float(max(c["power_max_w"].max(initial=0.0), c["cap_w"][finite].max(initial=0.0) if capped else 0.0))
    top = highest * 1.05 or 1.0  # some room above the highest value, so that the cap is not on the edge
    x = LEFT + edge / end * (WIDTH - LEFT - RIGHT)

    def y(watts: Floats) -> Floats:
        scaled: Floats = TOP + (1.0 - watts / top) * (HEIGHT - TOP - BOTTOM)
        return scaled

    base = c["other_mean_w"] if stacked else np.zeros(len(edge) - 1)
    ground = y(np.zeros(len(edge) - 1))
    shapes = [_area(x, ground, y(base), IDLE, 0.5)] if stacked else []
    shapes.append(_area(x, y(base), y(c["power_mean_w"]), JOBS, 0.75))
    # Columns that stand for several steps have a range; short peaks would be invisible in their mean.
    if not figure.extra["exact"] or len(edge) - 1 < len(figure):
        shapes.append(_area(x, y(c["power_min_w"]), y(c["power_max_w"]), JOBS, 0.3))
    if capped:
        over = c["excess_w"] > 0
        low = np.where(finite, c["cap_w"], 0.0)  # while there is no cap the excess is 0, and no area is drawn
        shapes.append(_area(x, y(low), y(low + np.where(over, c["excess_w"], 0.0)), OVER, 0.95))
        shapes.append(_cap_line(x, y(low), finite))
    names = [("running jobs", JOBS), *([("idle nodes", IDLE)] if stacked else [])]
    names += [(f"above the {figure.extra['limit']}", OVER)] if capped and (c["excess_w"] > 0).any() else []
    body = "".join([*shapes, _axes(figure, end, top), _legend(names, figure.extra["limit"])])
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(figure.says)}" '
        'style="width:100%;max-width:760px;height:auto;display:block;color:inherit" '
        f'font-family="inherit" font-size="11"><title>{escape(figure.says)}</title>{body}</svg>'
    )


def coarse(columns: dict[str, NDArray[np.float64]], end_s: float) -> tuple[Floats, dict[str, Floats]]:
    """Return edges and columns with at most COLUMNS bins; maxima stay maxima, means are weighted by time.

    The figure has up to 6,000 bins, for zooming in a report; a cell of a notebook shows a tenth of them, and a notebook
    stores every output as text. Shapes: edges (b + 1,), columns (b,).
    """
    time = columns["time_s"]
    edge = Bins.of(time, 0.0, end_s, COLUMNS).edge_s
    reduce = {"power_min_w": Steps.minima, "power_max_w": Steps.maxima, "excess_w": Steps.maxima, "cap_w": Steps.minima}
    every = {name: Steps(time, column) for name, column in columns.items() if name != "time_s"}
    return edge, {name: reduce.get(name, Steps.means)(steps, edge) for name, steps in every.items()}


def _area(x: Floats, low: Floats, high: Floats, fill: str, opacity: float) -> str:
    """Return the area between two step series. Shapes: x (b + 1,), low and high (b,).

    The outline runs along ``high`` from left to right, and back along ``low``.
    """
    forth = "".join(f"H{a:.1f}V{v:.1f}H{b:.1f}" for a, b, v in zip(x[:-1], x[1:], high, strict=True))
    back = "".join(
        f"H{b:.1f}V{v:.1f}H{a:.1f}" for a, b, v in zip(x[-2::-1], x[:0:-1], low[::-1], strict=True)
    )  # from right to left
    return f'<path d="M{x[0]:.1f},{low[0]:.1f}{forth}{back}Z" fill="{fill}" fill-opacity="{opacity:g}"/>'


def _cap_line(x: Floats, y: Floats, there: NDArray[np.bool_]) -> str:
    """Return the cap as a dashed line, broken where there is none."""
    moves = []
    for k in range(len(y)):
        if there[k]:
            joined = k > 0 and there[k - 1]
            moves.append(f"{'V' if joined else f'M{x[k]:.1f},'}{y[k]:.1f}H{x[k + 1]:.1f}")
    path = "".join(moves)
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.4" stroke-dasharray="5 3"/>'


def _axes(figure: Figure, end_s: float, top_w: float) -> str:
    """Return grid lines, tick labels and axis labels."""
    foot = HEIGHT - BOTTOM
    parts = [f'<path d="M{LEFT:g},{foot:g}H{WIDTH - RIGHT:g}" stroke="currentColor" stroke-opacity=".5"/>']
    for value in ticks(top_w / figure.y.scale):
        at = TOP + (1.0 - value * figure.y.scale / top_w) * (foot - TOP)
        line = f'<path d="M{LEFT:g},{at:.1f}H{WIDTH - RIGHT:g}" stroke="currentColor" stroke-opacity=".14"/>'
        parts += [line, _text(LEFT - 6, at + 4, words.figures(value), "end")]
    for value in ticks(end_s / figure.x.scale, 8):
        at = LEFT + value * figure.x.scale / end_s * (WIDTH - LEFT - RIGHT)
        parts.append(_text(at, foot + 14, words.figures(value), "middle"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 4, figure.x.label, "end"))
    parts.append(_text(0, 12, figure.y.label, "start"))
    return "".join(parts)


def _legend(names: list[tuple[str, str]], limit: str) -> str:
    """Return the legend, from right to left along the top.

    The width of a text is not known without its font: six units a letter are enough for any sans serif of size 11.
    """
    at, parts = WIDTH - RIGHT, []
    if limit:
        dash = 'stroke="currentColor" stroke-width="1.4" stroke-dasharray="5 3"'
        wide = 6.1 * len(limit)
        parts.append(_text(at, 12, limit, "end") + f'<path d="M{at - wide - 24:g},8h18" {dash}/>')
        at -= wide + 40
    for name, colour in names:
        wide = 6.1 * len(name)
        box = f'<rect x="{at - wide - 16:g}" y="3" width="10" height="10" rx="2" fill="{colour}"/>'
        parts.append(_text(at, 12, name, "end") + box)
        at -= wide + 32
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    """Return a label in the theme's text colour."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="currentColor" fill-opacity=".8">{escape(text)}</text>'


def ticks(last: float, most: int = 5) -> list[float]:
    """Return round values from 0 to at most ``last``: multiples of 1, 2 or 5 times a power of ten."""
    if last <= 0:
        return [0.0]
    # The largest power of ten with at least ``most`` steps, enlarged until at most ``most`` remain.
    step = 10.0 ** np.floor(np.log10(last / most))
    step = next(step * k for k in (1, 2, 5, 10) if last / (step * k) <= most)
    return [float(step * k) for k in range(int(last / step + 1e-9) + 1)]
