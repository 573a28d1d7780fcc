"""Helpers of all drawing functions: bins that paper can resolve, steps, time axes with dates, logarithmic axes.

Dates on time axes: where ticks go and what they are called, for figures drawn by matplotlib.

``page/core.js`` has the same rules in JavaScript (``dateTicks``), since ticks of the page change when a reader zooms.
All dates are UTC: a trace records Unix time, and the time zone of the machine is in no input.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from wattqueue.report import words
from wattqueue.report.figure import Figure

PAPER_BINS = 1_500
"""Bins over time that a page of paper can resolve."""
DATE_TICKS = 8
"""Ticks with dates that fit under a figure of the usual width."""
SPANS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 36_000: "10 h", 86_400: "1 d", 864_000: "10 d"}
"""Ticks of a logarithmic axis of durations."""


def coarse(figure: Figure, most: int = PAPER_BINS) -> dict[str, Any]:
    """Return the columns of a figure over time in bins that paper can resolve; few steps stay as they are.

    Columns are reduced by what their names say: minima and caps by the minimum, maxima and excesses by the maximum,
    everything else by the mean.
    """
    group = len(figure) // most
    if figure.extra["exact"] or group < 2:
        return figure.columns
    reduce = {"min": np.min, "low": np.min, "max": np.max, "high": np.max, "excess": np.max, "cap": np.min}
    out: dict[str, Any] = {}
    for name, column in figure.columns.items():
        blocks = column[: len(column) // group * group].reshape(-1, group)
        how = next((f for word, f in reduce.items() if word in name.split("_")), np.mean)
        out[name] = blocks[:, 0] if name == "time_s" else how(blocks, axis=1)
    return out


def held(values: Any, scale: float = 1.0) -> Any:
    """Return values of steps with the last one repeated, as ``step="post"`` needs them.

    A step series has one value per interval; matplotlib wants one per edge. ``scale`` are SI units per drawn unit.
    """
    return np.append(values, values[-1:]) / scale


def label_time(axes: Axes, figure: Figure, end: float) -> None:
    """Set limits and labels of a figure over time.

    Ticks are dates where the trace has them (``date_ticks``), else those of matplotlib in the unit of the axis.
    ``end`` is the end of the axis in that unit.
    """
    axes.set_xlim(0, end)
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(figure.y.label)
    epoch = figure.extra.get("epoch_s")
    if epoch is not None:
        ticks = date_ticks(epoch, epoch + figure.extra["end_s"], DATE_TICKS)
        axes.set_xticks([(t - epoch) / figure.x.scale for t, _ in ticks], [text for _, text in ticks])


def logarithmic(axes: Axes, figure: Figure, time: bool) -> None:
    """Set up the axes of a cumulative distribution: values from 1 on a logarithmic axis, shares from 0 to 100 %."""
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


MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
STEPS = (
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14)),
)
"""Distances of ticks shorter than a month."""
MONTHS = (1, 2, 3, 6, 12)
"""Distances of ticks in months, where days would be too many."""
MONDAY = 4 * DAY
"""Unix time of a Monday, 00:00: steps of whole weeks are counted from here."""


def date_ticks(begin_s: float, end_s: float, most: int) -> list[tuple[float, str]]:
    """Return at most about ``most`` ticks as (Unix time, text) in a span of Unix time.

    Ticks within a day are clock times, midnights are dates. If no midnight is in view the first tick has the date too.
    """
    step = next((s for s in STEPS if (end_s - begin_s) / s <= most), None)
    if step is None:
        return list(_months(begin_s, end_s, most))
    offset = MONDAY if step > 2 * DAY else 0.0
    first = -int(-(begin_s - offset) // step)
    last = int((end_s - offset) // step)
    times = [offset + step * k for k in range(first, last + 1)]
    dated = any(t % DAY == 0 for t in times)
    return [(t, _tick_text(t, with_date=not dated and k == 0)) for k, t in enumerate(times)]


def _tick_text(time_s: float, *, with_date: bool) -> str:
    """Return a tick's text: the date at midnight, else the time of day."""
    moment = datetime.fromtimestamp(time_s, UTC)
    date, clock = f"{moment.day} {moment:%b}", f"{moment:%H:%M}"
    return date if time_s % DAY == 0 else f"{date}, {clock}" if with_date else clock


def _months(begin_s: float, end_s: float, most: int) -> Iterator[tuple[float, str]]:
    """Yield the first days of months; January bears its year."""
    step = next((n for n in MONTHS if (end_s - begin_s) / (30.4 * DAY * n) <= most), MONTHS[-1])
    first, last = (datetime.fromtimestamp(t, UTC) for t in (begin_s, end_s))
    for number in range(first.year * 12, last.year * 12 + 12, step):
        moment = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        if begin_s <= moment.timestamp() <= end_s:
            yield moment.timestamp(), f"{moment:%b %Y}" if moment.month == 1 else f"{moment:%b}"
