"""One function a kind of picture: an empty drawing and a figure in, the drawing filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, PolyCollection
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from wattqueue.report import words
from wattqueue.report.figure import Figure
from wattqueue.report.figures.gantt import Grid
from wattqueue.report.plot import style

PAPER_BINS = 1_500
MANY = 2_000
"""Above so many shapes the picture inside the axes is a bitmap."""
SPANS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 36_000: "10 h", 86_400: "1 d", 864_000: "10 d"}


def power(drawing: Drawing, figure: Figure) -> None:
    """Stacked areas, the cap, what is above it."""
    axes, c = drawing.subplots(), coarse(figure)
    scale, end = figure.y.scale, figure.extra["end_s"] / figure.x.scale
    time = style.ends(c["time_s"] / figure.x.scale, end)
    mean, other = _held(c["power_mean_w"], scale), _held(c["other_mean_w"], scale)
    if not figure.extra["stacked"]:
        other = np.zeros_like(mean)
    else:
        axes.fill_between(time, 0, other, step="post", color=style.GREY, alpha=0.5, lw=0, label="units without a job")
    axes.fill_between(time, other, mean, step="post", color=style.BLUE, alpha=0.58, lw=0, label="running jobs")
    if not figure.extra["exact"]:
        low, high = _held(c["power_min_w"], scale), _held(c["power_max_w"], scale)
        axes.fill_between(time, low, high, step="post", color=style.BLUE, alpha=0.2, lw=0, label="least to greatest")
    if "cap_w" in c:
        cap, excess = _held(c["cap_w"], scale), _held(c["excess_w"], scale)
        cap = np.where(np.isfinite(cap), cap, np.nan)
        if excess.any():
            axes.fill_between(
                time, cap, cap + excess, step="post", color=style.RED, lw=0.8, where=excess > 0, label="above the cap"
            )
        axes.step(time, cap, where="post", color=style.INK, lw=1.1, ls=(0, (5, 3)), label="cap")
    axes.set_ylim(bottom=0)
    _label(axes, figure, end)
    style.legend(axes)


def gantt(drawing: Drawing, figure: Figure) -> None:
    """Units by time, coloured by watts where they are known."""
    axes = drawing.subplots()
    end = figure.extra["end_s"] / figure.x.scale
    axes.grid(visible=False)
    _label(axes, figure, end)
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
    """Jobs that wait above, busy units below."""
    top, low = drawing.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    c, end = coarse(figure), figure.extra["end_s"] / figure.x.scale
    time = style.ends(c["time_s"] / figure.x.scale, end)
    if not figure.extra["exact"]:
        least, most = _held(c["waiting_min"]), _held(c["waiting_max"])
        top.fill_between(time, least, most, step="post", color=style.PURPLE, alpha=0.28, lw=0)
    top.step(time, _held(c["waiting_mean"]), where="post", color=style.PURPLE, lw=1)
    top.set_ylabel(figure.y.label)
    top.set_ylim(bottom=0)
    low.fill_between(time, 0, _held(c["utilization"], 0.01), step="post", color=style.GREEN, alpha=0.55, lw=0)
    low.set_ylabel("busy units (%)")
    low.set_ylim(0, 100)
    low.set_xlabel(figure.x.label)
    low.set_xlim(0, end)


def cdf(drawing: Drawing, figure: Figure) -> None:
    """Share of jobs at or below a value, on a logarithmic axis from 1."""
    axes = drawing.subplots()
    column = next(name for name in figure.columns if name != "share")
    _curve(axes, figure.columns["share"], figure.columns[column], color=style.BLUE, lw=1.5)
    for name, value in figure.extra["marks"].items():
        if value is not None:
            share = {"median": 50, "p95": 95, "p99": 99}[name]
            axes.plot([max(value, 1.0)], [share], "o", ms=4, mfc="white", mec=style.BLUE, label=name)
    _logarithmic(axes, figure, column.endswith("_s"))


def _curve(axes: Axes, share: Any, values: Any, **look: Any) -> None:
    axes.step(np.maximum(np.nan_to_num(values, nan=1.0), 1.0), 100 * share, where="post", **look)


def _logarithmic(axes: Axes, figure: Figure, time: bool) -> None:
    axes.set_xscale("log")
    axes.set_xlim(left=1)
    if time:
        last = axes.get_xlim()[1]
        ticks = [s for s in SPANS if s <= last]
        axes.set_xticks(ticks, [SPANS[s] for s in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.tick_params(axis="x", labelsize=7)
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: words.figures(v)))
    axes.set_ylim(0, 101)
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(figure.y.label)


def density(drawing: Drawing, figure: Figure) -> None:
    """Predicted against true, a square for each cell that holds jobs."""
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
    """Energy, a bar a user, most first."""
    axes, c = drawing.subplots(), figure.columns
    names = [str(name) for name in c["name"]]
    colours = [style.GREY if name == "all others" else style.BLUE for name in names]
    shown = axes.barh(names, c["energy_j"] / figure.x.scale, color=colours, height=0.66)
    axes.bar_label(shown, [words.percent(round(share, 3)) for share in c["share"]], padding=3, color=style.SOFT)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set(xlabel=figure.x.label, ylabel=figure.y.label)


def coarse(figure: Figure, most: int = PAPER_BINS) -> dict[str, Any]:
    """The columns of a figure over time in bins that paper can show; steps that are few stay as they are."""
    group = len(figure) // most
    if figure.extra["exact"] or group < 2:
        return figure.columns
    reduce = {"min": np.min, "max": np.max, "excess": np.max, "cap": np.min}
    out: dict[str, Any] = {}
    for name, column in figure.columns.items():
        blocks = column[: len(column) // group * group].reshape(-1, group)
        how = next((f for word, f in reduce.items() if word in name.split("_")), np.mean)
        out[name] = blocks[:, 0] if name == "time_s" else how(blocks, axis=1)
    return out


def _held(values: Any, scale: float = 1.0) -> Any:
    return np.append(values, values[-1:]) / scale


def _label(axes: Axes, figure: Figure, end: float) -> None:
    axes.set_xlim(0, end)
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(figure.y.label)


KINDS: dict[str, Callable[[Drawing, Figure], None]] = {
    "power": power,
    "gantt": gantt,
    "queue": queue,
    "cdf": cdf,
    "density": density,
    "bars": bars,
}
