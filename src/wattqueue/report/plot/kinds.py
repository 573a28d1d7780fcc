"""One drawing function per kind of figure: an empty matplotlib figure and a ``Figure`` in, the drawing filled.

Colours, names and order are those of the page, so that a reader recognises the figure in a paper. ``KINDS`` maps the
kind of ``document.pictures`` to its function; figures of several runs are in ``several``.

Conventions: ``c`` are the columns of the figure, ``scale`` SI units per drawn unit. Values are divided by the scale
here and never in the columns, which are written beside the drawing as CSV.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, PolyCollection
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from wattqueue.report import words
from wattqueue.report.figure import Figure
from wattqueue.report.figures.gantt import Grid
from wattqueue.report.plot import several, style
from wattqueue.report.plot.shared import coarse, held, label_time, logarithmic

MANY = 2_000
"""With more shapes than this the axes' content is embedded as a bitmap."""


def power(drawing: Drawing, figure: Figure) -> None:
    """Draw stacked areas, the cap, and what is above it.

    The lower area are idle nodes, the upper one running jobs, both as means per bin; a pale band shows minimum to
    maximum where bins were merged. Excess is drawn as an area above the cap with a line of its own, so that a short
    one is seen.
    """
    axes, c = drawing.subplots(), coarse(figure)
    scale, end = figure.y.scale, figure.extra["end_s"] / figure.x.scale
    time = style.ends(c["time_s"] / figure.x.scale, end)
    mean, other = held(c["power_mean_w"], scale), held(c["other_mean_w"], scale)
    if not figure.extra["stacked"]:
        other = np.zeros_like(mean)
    else:
        axes.fill_between(time, 0, other, step="post", color=style.GREY, alpha=0.5, lw=0, label="idle nodes")
    axes.fill_between(time, other, mean, step="post", color=style.BLUE, alpha=0.58, lw=0, label="running jobs")
    if not figure.extra["exact"]:
        low, high = held(c["power_min_w"], scale), held(c["power_max_w"], scale)
        axes.fill_between(time, low, high, step="post", color=style.BLUE, alpha=0.2, lw=0, label="min to max")
    if "cap_w" in c:
        cap, excess = held(c["cap_w"], scale), held(c["excess_w"], scale)
        cap = np.where(np.isfinite(cap), cap, np.nan)
        if excess.any():
            axes.fill_between(
                time,
                cap,
                cap + excess,
                step="post",
                color=style.RED,
                lw=0.8,
                where=excess > 0,
                label=f"above the {figure.extra['limit']}",
            )
        axes.step(time, cap, where="post", color=style.INK, lw=1.1, ls=(0, (5, 3)), label=figure.extra["limit"])
    axes.set_ylim(bottom=0)
    label_time(axes, figure, end)
    style.legend(axes)


def gantt(drawing: Drawing, figure: Figure) -> None:
    """Draw units over time, coloured by watts where they are known.

    Few jobs are rectangles (vector graphics up to ``MANY``); a grid is one bitmap, whose opacity is the share of time
    busy. Unit 0 is at the top, as in a listing of nodes.
    """
    axes = drawing.subplots()
    end = figure.extra["end_s"] / figure.x.scale
    axes.grid(visible=False)
    label_time(axes, figure, end)
    axes.set_ylim(figure.extra["units"], 0)
    norm = Normalize(*(figure.extra["power"] or (0.0, 1.0)))
    colours = style.heat() if figure.extra["power"] else ListedColormap([style.BLUE])
    grid: Grid | None = figure.extra.get("grid")
    if grid is not None:
        pixels = colours(norm(np.nan_to_num(grid.unit_w, nan=norm.vmin or 0.0)))
        pixels[..., 3] = np.where(grid.busy > 0, 0.15 + 0.85 * grid.busy, 0.0)
        foot = grid.busy.shape[0] * grid.row_units
        axes.imshow(pixels, extent=(0, end, foot, 0), aspect="auto", interpolation="antialiased")
        axes.set_ylim(figure.extra["units"], 0)
    else:
        c = figure.columns
        shapes = _rectangles(figure, lambda k: np.nan_to_num(c["unit_w"][k]))
        shapes.set(cmap=colours, norm=norm, linewidth=0.2, edgecolor="white")
        axes.add_collection(shapes)
    if figure.extra["power"]:
        from matplotlib.cm import ScalarMappable

        bar = drawing.colorbar(ScalarMappable(norm, colours), ax=axes, pad=0.01, aspect=40)
        bar.set_label(f"mean power of one {figure.extra['unit']} (W)")
        bar.outline.set_visible(False)


def _rectangles(figure: Figure, value: Callable[[int], float]) -> PatchCollection:
    """Return the rectangles of single jobs as one collection, a bitmap where they are many.

    ``value`` gives the number that is mapped to a colour, by row. One collection instead of one patch per job:
    matplotlib draws 10,000 patches in seconds, a collection in a fraction of one.
    """
    c, s = figure.columns, figure.x.scale
    held = [
        Rectangle(
            (c["start_s"][k] / s, c["unit_first"][k]),
            (c["end_s"][k] - c["start_s"][k]) / s,
            c["unit_last"][k] + 1 - c["unit_first"][k],
        )
        for k in range(len(figure))
    ]
    shapes = PatchCollection(held, rasterized=len(held) > MANY)
    shapes.set_array(np.array([value(k) for k in range(len(figure))]))
    return shapes


def queue(drawing: Drawing, figure: Figure) -> None:
    """Draw waiting jobs above, busy units below, on one time axis."""
    top, low = drawing.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    c, end = coarse(figure), figure.extra["end_s"] / figure.x.scale
    time = style.ends(c["time_s"] / figure.x.scale, end)
    if not figure.extra["exact"]:
        least, most = held(c["waiting_min"]), held(c["waiting_max"])
        top.fill_between(time, least, most, step="post", color=style.PURPLE, alpha=0.28, lw=0)
    top.step(time, held(c["waiting_mean"]), where="post", color=style.PURPLE, lw=1)
    top.set_ylabel(figure.y.label)
    top.set_ylim(bottom=0)
    low.fill_between(time, 0, held(c["utilization"], 0.01), step="post", color=style.GREEN, alpha=0.55, lw=0)
    low.set_ylim(0, 100)
    label_time(low, figure, end)
    low.set_ylabel("busy units (%)")


def cdf(drawing: Drawing, figure: Figure) -> None:
    """Draw the share of jobs at or below a value, on a logarithmic axis from 1.

    Median, p95 and p99 are marked and named with their values, so that a printed figure can be quoted.
    """
    axes = drawing.subplots()
    column = next(name for name in figure.columns if name != "share")
    read = words.span if column.endswith("_s") else words.figures
    _curve(axes, figure.columns["share"], figure.columns[column], color=style.BLUE, lw=1.5)
    for name, value in figure.extra["marks"].items():
        if value is not None:
            share = {"median": 50, "p95": 95, "p99": 99}[name]
            axes.plot([max(value, 1.0)], [share], "o", ms=4, mfc="white", mec=style.BLUE, zorder=4)
            _name_mark(axes, f"{name} {read(value)}", max(value, 1.0), share)
    logarithmic(axes, figure, column.endswith("_s"))


MARK_ROOM = {50: 0, 95: -9, 99: 6}
"""Vertical distance of each mark's name from its point, so that p95 and p99 do not overlap. Points."""


def _name_mark(axes: Axes, text: str, value: float, share: int) -> None:
    """Write the name of a mark beside its point, on a white ground that keeps the curve away from the letters."""
    right = value > np.sqrt(axes.get_xlim()[1]) * 10
    axes.annotate(
        text,
        (value, share),
        (-6 if right else 6, MARK_ROOM[share]),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize=7,
        color=style.INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
    )


def _curve(axes: Axes, share: Any, values: Any, **look: Any) -> None:
    """Draw one cumulative distribution.

    Values below 1 are drawn at 1, the left end of the axis: a logarithm has no place for a wait of 0. Jobs without a
    value cannot occur, as distributions are taken over jobs that ran.
    """
    axes.step(np.maximum(np.nan_to_num(values, nan=1.0), 1.0), 100 * share, where="post", **look)


def density(drawing: Drawing, figure: Figure) -> None:
    """Draw predicted against true watts, one square per cell that contains jobs.

    Both axes have equal scales, so that the diagonal is the line of perfect prediction.
    """
    axes, c, s = drawing.subplots(), figure.columns, figure.x.scale
    step, low, high = (figure.extra[key] / s for key in ("step_w", "low_w", "high_w"))
    x, y = c["predicted_from_w"] / s, c["true_from_w"] / s
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * step
    cells = PolyCollection(list(np.stack((x, y), axis=1)[:, None, :] + corners), rasterized=len(x) > MANY)
    cells.set(cmap=style.heat(), norm=LogNorm(1, max(2, c["jobs"].max())), linewidth=0)
    cells.set_array(c["jobs"])
    axes.add_collection(cells)
    axes.plot([low, high], [low, high], color=style.INK, lw=0.9, ls=(0, (5, 3)))
    axes.set(xlim=(low, high), ylim=(low, high), xlabel=figure.x.label, ylabel=figure.y.label, aspect="equal")
    bar = drawing.colorbar(cells, ax=axes, pad=0.02, format=FuncFormatter(lambda v, _: words.figures(v)))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.set_label("jobs")
    bar.outline.set_visible(False)


def bars(drawing: Drawing, figure: Figure) -> None:
    """Draw one bar per user, the largest first.

    Bars begin at 0 and have their share of all energy behind them; the bar of all others is grey.
    """
    axes, c = drawing.subplots(), figure.columns
    names = [str(name) for name in c["name"]]
    colours = [style.GREY if name == "all others" else style.BLUE for name in names]
    shown = axes.barh(names, c["energy_j"] / figure.x.scale, color=colours, height=0.66)
    axes.bar_label(shown, [words.percent(round(share, 3)) for share in c["share"]], padding=3, color=style.SOFT)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set(xlabel=figure.x.label, ylabel=figure.y.label)


def domains(drawing: Drawing, figure: Figure) -> None:
    """Draw power domains over time, coloured by the share of their limits; above it in the colour of an excess."""
    axes, names = drawing.subplots(), figure.extra["names"]
    share = figure.columns["share"].reshape(len(names), -1)
    colours = style.cool().with_extremes(over=style.RED)
    span = (0.0, figure.extra["end_s"] / figure.x.scale, len(names) - 0.5, -0.5)
    cells = axes.imshow(
        np.where(share > 1.0 + 1e-9, 2.0, share), aspect="auto", interpolation="nearest", extent=span, cmap=colours,
        norm=Normalize(0.0, 1.0),
    )  # fmt: skip
    axes.grid(visible=False)
    axes.set(xlabel=figure.x.label, yticks=range(len(names)), yticklabels=names)
    bar = drawing.colorbar(cells, ax=axes, pad=0.02, extend="max", format=FuncFormatter(lambda v, _: words.percent(v)))
    bar.set_label("of the limit")
    bar.outline.set_visible(False)


KINDS: dict[str, Callable[[Drawing, Figure], None]] = {
    "power": power,
    "gantt": gantt,
    "queue": queue,
    "cdf": cdf,
    "density": density,
    "bars": bars,
    "domains": domains,
    "overlay": several.overlay,
    "cdfs": several.cdfs,
    "pareto": several.pareto,
}
"""Drawing function of each kind of figure; a new kind is a function and a line here."""
