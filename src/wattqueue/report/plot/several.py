"""Drawing functions for figures of several runs: curves over time, distributions, energy against turnaround.

Groups keep colour and dash from figure to figure, so that a reader learns them once. Equal curves are named in the
figure's sentence; here the later one is drawn on top with its own dashes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from wattqueue.report.figure import Figure
from wattqueue.report.plot import style
from wattqueue.report.plot.shared import coarse, held, label_time, logarithmic


def look(k: int) -> dict[str, Any]:
    """Return colour and dash of group ``k``; both change, so that a figure printed in grey can be read."""
    return {"color": style.SERIES[k % len(style.SERIES)], "ls": style.DASHES[k % len(style.DASHES)]}


def overlay(drawing: Drawing, figure: Figure) -> None:
    """Draw one curve per group over time, a band from min to max over its seeds, and the caps.

    Shares end at 100 %; all other axes begin at 0 and end where the data do. Caps that groups share are one line.
    """
    axes, c = drawing.subplots(), coarse(figure)
    scale, end = figure.y.scale, figure.extra["end_s"] / figure.x.scale
    time = style.ends(c["time_s"] / figure.x.scale, end)
    for k, group in enumerate(figure.extra["groups"]):
        if f"low_{k}" in c:
            low, high = held(c[f"low_{k}"], scale), held(c[f"high_{k}"], scale)
            axes.fill_between(time, low, high, step="post", color=look(k)["color"], alpha=0.15, lw=0)
        axes.step(time, held(c[f"mean_{k}"], scale), where="post", lw=1.1, label=group["label"], **look(k))
    caps = {group["cap"] for group in figure.extra["groups"]} - {None}
    for n, name in enumerate(sorted(caps)):
        cap = np.where(np.isfinite(c[name]), c[name], np.nan)
        label = None if n else "cap"
        axes.step(time, held(cap, scale), where="post", color=style.INK, lw=1.1, ls=(0, (5, 3)), label=label)
    axes.set_ylim(bottom=0, top=100 if figure.y.unit == "%" else None)
    label_time(axes, figure, end)
    style.legend(axes)


def cdfs(drawing: Drawing, figure: Figure) -> None:
    """Draw one cumulative distribution per group, on a logarithmic axis from 1.

    Seeds of a group are pooled. The legend is inside, at the lower right, where distributions have no values.
    """
    axes = drawing.subplots()
    column = figure.extra["column"]
    for k, label in enumerate(figure.extra["labels"]):
        values = np.maximum(np.nan_to_num(figure.columns[f"{column}_{k}"], nan=1.0), 1.0)
        axes.step(values, 100 * figure.columns["share"], where="post", lw=1.5, label=label, **look(k))
    logarithmic(axes, figure, column.endswith("_s"))
    axes.legend(loc="lower right")


def pareto(drawing: Drawing, figure: Figure) -> None:
    """Draw energy against turnaround: one point per group with its intervals, and the front."""
    axes, c = drawing.subplots(), figure.columns
    x, y = c["turnaround_s"] / figure.x.scale, c["machine_energy_j"] / figure.y.scale
    dx, dy = c["turnaround_half_s"] / figure.x.scale, c["machine_energy_half_j"] / figure.y.scale
    front = np.flatnonzero(c["undominated"])
    front = front[np.argsort(x[front])]
    axes.plot(x[front], y[front], color=style.GREY, lw=0.9, ls=(0, (5, 3)), zorder=1)
    for k, label in enumerate(c["group"]):
        axes.errorbar(x[k], y[k], yerr=dy[k], xerr=dx[k], fmt="o", ms=6, color=look(k)["color"], label=str(label))
    axes.margins(0.16)
    amount_foot(axes, y - dy, y + dy)
    axes.set(xlabel=figure.x.label, ylabel=figure.y.label + beginning(axes))
    style.legend(axes)


def amount_foot(axes: Axes, low: Any, high: Any) -> None:
    """Begin an axis of energy at 0 unless all values lie within the top quarter and differ (as ``charts.js`` does)."""
    least, most = float(np.min(low)), float(np.max(high))
    if 0 <= least < 0.75 * most or most - least < 0.002 * most:
        axes.set_ylim(bottom=0)


def beginning(axes: Axes) -> str:
    """Return what the label of an axis adds where the axis does not begin at 0."""
    bottom = axes.get_ylim()[0]
    return "" if bottom == 0 else f"\naxis begins at {bottom:.4g}"
