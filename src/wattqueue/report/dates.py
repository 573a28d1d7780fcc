"""Dates on time axes: where ticks go and what they are called, for figures drawn by matplotlib.

``page/core.js`` has the same rules in JavaScript (``dateTicks``), since ticks of the page change when a reader zooms.
All dates are UTC: a trace records Unix time, and the time zone of the machine is in no input.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

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
