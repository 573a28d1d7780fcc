"""Durations, and the windows in time that the intervals of an event stand for.

Points that the documents leave open, and what is done here:

- A year is 365 days and a month 30: durations have no date to count from. 9,999 years or more are without end.
- A start of ``0001-01-01`` ("now") is the moment at which the VTN last changed the event: the same for every client,
  and after a restart. A duration of 0 with it is how an event is cancelled (user guide, 7.9): it leaves no window.
- With ``now`` and an endless duration the event has begun whenever it is read.
- ``randomizeStart`` shifts an event by an amount that depends on its id and on the name of the VEN alone, so that it
  does not move between two readings.

Reference: OpenADR 3.1.0, schemas ``duration``, ``intervalPeriod``, ``interval``; user guide, 7.3 and 7.4.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from wattqueue.errors import InputError
from wattqueue_grid.openadr.objects import EventInterval, IntervalPeriod, VtnEvent

DURATION = re.compile(
    r"(-?)P(?=[0-9]|T[0-9])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)([DW]))?"
    r"(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?",
    re.ASCII,
)
"""The pattern of the OpenAPI document."""
DAY_S = 86_400.0
ENDLESS_YEARS = 9_999
MOST_WINDOWS = 10_000
"""Most windows of one event; a year of hours has 8,760."""


class EventWindow(NamedTuple):
    """One interval of an event in time: seconds since the epoch, ``end_s`` may be infinite."""

    begin_s: float
    end_s: float
    interval: EventInterval


def duration_in_s(text: str) -> float:
    """Return the seconds of an ISO 8601 duration; infinity for 9,999 years or more. Raises: InputError."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise InputError(f"{text[:40]!r} is not an ISO 8601 duration", hint="such as PT15M")
    sign, years, months, days, unit, hours, minutes, seconds = found.groups()
    # floats: digits may be so many that no integer is read from them
    whole = (_count(years) * 365 + _count(months) * 30 + _count(days) * (7 if unit == "W" else 1)) * DAY_S
    whole += _count(hours) * 3600.0 + _count(minutes) * 60.0 + _count(seconds)
    if whole >= ENDLESS_YEARS * 365 * DAY_S:
        whole = math.inf
    return -whole if sign else whole


def _count(digits: str | None) -> float:
    """Return the number of some digits, 0 for none."""
    return float(digits or 0)


def duration_text(seconds: float) -> str:
    """Return a duration of seconds, to the millisecond."""
    return f"PT{round(seconds, 3):.15g}S"


def instant_s(text: str) -> float | None:
    """Return the seconds since the epoch of a date, None for ``0001-01-01`` ("now").

    Raises: InputError for text that is no date, and for a date without an offset from UTC.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{text[:40]!r} is not a date of RFC 3339", hint="such as 2026-01-31T16:00:00Z") from error
    if moment.year == 1:
        return None
    if moment.tzinfo is None:
        raise InputError(f"{text[:40]!r} has no offset from UTC", hint="such as 2026-01-31T16:00:00Z")
    return moment.timestamp()


def windows(event: VtnEvent, ven_name: str, now_s: float, ahead_s: float) -> list[EventWindow]:
    """Return the windows of an event's intervals in order, without those of no length.

    Intervals that repeat (``event.duration`` beyond their sum) are returned from the repetition that holds at ``now_s``
    until ``ahead_s`` after it.

    Raises: InputError for intervals without start or duration, and for more than ``MOST_WINDOWS``.
    """
    found = list(_resolved(event))
    if len(found) > MOST_WINDOWS:
        raise InputError(f"{len(found)} intervals", hint=f"at most {MOST_WINDOWS}")
    lifespan = None if event.duration is None else duration_in_s(event.duration)
    if found and lifespan:  # a duration of 0 is its default
        found = list(_within(found, lifespan, now_s, ahead_s))
    shift_s = shift(event, ven_name)
    return [EventWindow(w.begin_s + shift_s, w.end_s + shift_s, w.interval) for w in found if w.end_s > w.begin_s]


def shift(event: VtnEvent, ven_name: str) -> float:
    """Return the seconds by which an event's start is shifted: uniform within plus and minus ``randomizeStart``."""
    text = event.period.randomize_start if event.period is not None else None
    if text is None and event.intervals and event.intervals[0].period is not None:
        text = event.intervals[0].period.randomize_start
    most = 0.0 if text is None else abs(duration_in_s(text))
    if not math.isfinite(most):
        raise InputError("randomizeStart is without end", hint="such as PT5M")
    drawn = hashlib.sha256(f"{event.id}\n{ven_name}".encode()).digest()
    return most * (int.from_bytes(drawn[:6]) / 2**47 - 1.0)


def changed_s(event: VtnEvent) -> float:
    """Return when the VTN last changed an event. Raises: InputError where that is no date."""
    moment = instant_s(event.modified)
    if moment is None:
        raise InputError("modificationDateTime is not a date", hint="the VTN must state when it changed the event")
    return moment


def first_start_s(event: VtnEvent) -> float | None:
    """Return the default start of an event's intervals; None where it has none. Raises: InputError."""
    if event.period is None or event.period.start is None:
        return None
    start_s = instant_s(event.period.start)
    return changed_s(event) if start_s is None else start_s


def _resolved(event: VtnEvent) -> Iterator[EventWindow]:
    """Yield the windows of the intervals: each follows the one before it unless it states a start."""
    standard = event.period or IntervalPeriod()
    before_s = first_start_s(event)
    for interval in event.intervals or ():
        own = interval.period or IntervalPeriod()
        where = f"interval {interval.id}"
        start_s = None if own.start is None else instant_s(own.start)
        if start_s is None:
            start_s = changed_s(event) if before_s is None and own.start is not None else before_s
        if start_s is None:
            raise InputError(
                f"{where} has no start", hint="state intervalPeriod.start, of the event or of the interval"
            )
        duration = own.duration if own.duration is not None else standard.duration
        if duration is None:
            raise InputError(f"{where} has no duration", hint="state intervalPeriod.duration")
        length_s = duration_in_s(duration)
        if length_s < 0:
            raise InputError(f"{where} has a negative duration {duration[:40]}", hint="such as PT1H")
        before_s = start_s + length_s
        yield EventWindow(start_s, before_s, interval)


def _within(found: list[EventWindow], lifespan_s: float, now_s: float, ahead_s: float) -> Iterator[EventWindow]:
    """Yield windows cut to the event's own duration, or repeated until it is over."""
    begin_s = min(w.begin_s for w in found)
    round_s = max(w.end_s for w in found) - begin_s
    end_s = begin_s + lifespan_s
    if round_s <= 0 or lifespan_s < 0:
        return
    last_s = min(end_s, now_s + ahead_s)
    first = max(0, math.floor((now_s - begin_s) / round_s)) if math.isfinite(round_s) else 0
    count = 1 if not math.isfinite(round_s) else math.ceil((last_s - begin_s) / round_s) - first
    if (count := max(count, 1)) * len(found) > MOST_WINDOWS:
        raise InputError(f"intervals repeat {count} times", hint=f"at most {MOST_WINDOWS} intervals in all")
    for turn in range(first, first + count):
        for window in found:
            moved = 0.0 if turn == 0 else turn * round_s
            yield EventWindow(window.begin_s + moved, min(window.end_s + moved, end_s), window.interval)
