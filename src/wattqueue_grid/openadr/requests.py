"""Which reports an event asks for, and when each is due.

A ``reportDescriptor`` counts in intervals of its event. The user guide explains it by drawings, which its text and the
OpenAPI document do not settle in every case; read here as:

- historical: a report is due at the end of interval ``startInterval`` (-1: the last one), and covers the
  ``numIntervals`` (-1: all) intervals that end with it;
- a forecast (``historical`` false): due when interval ``startInterval`` (-1: the first one) begins, and covers as
  many from there on;
- ``frequency`` intervals later (-1: ``numIntervals``) comes the next, ``repeat`` of them in all (-1: as long as the
  event lasts);
- an event without intervals whose default period has a duration has intervals of that length without end ("implied",
  8.7); one without such a period, or ``frequency`` 0, lets the VEN choose: then a report comes when something changed,
  and each quarter of an hour.

Reports that were due before the event was known are left out, but for the last (user guide, 7.5, "do it now").

Reference: OpenADR 3.1.0, schema ``reportDescriptor``; user guide, 7.5, 8.3, 8.7 and 8.8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from wattqueue_grid.openadr.objects import ReportRequest, VtnEvent
from wattqueue_grid.openadr.reading import AHEAD_S, KEPT_S
from wattqueue_grid.openadr.times import duration_in_s, first_start_s, windows

CHOSEN_S = 900.0
"""Time between reports whose time the VEN chooses."""
MOST_REPORTED = 2_000
"""Most intervals of one report."""


class ReportInterval(NamedTuple):
    """An interval of a report: seconds since the epoch, and the id of the event's interval."""

    begin_s: float
    end_s: float
    id: int


class DueReport(NamedTuple):
    """A report that is to be sent. ``key`` tells it from all others, ``of`` is the request's own.

    The VEN chose the time of an ``open`` one.
    """

    key: str
    of: str
    due_s: float
    request: ReportRequest
    intervals: tuple[ReportInterval, ...]
    open: bool = False


def due_reports(event: VtnEvent, ven_name: str, known_s: float, now_s: float) -> list[DueReport]:
    """Return the reports of an event that are due by ``now_s``, in order. Raises: InputError as ``times.windows``."""
    found: list[DueReport] = []
    for number, request in enumerate(event.requests or ()):
        key = f"{event.id}:{number}"
        due = sorted(_due(event, ven_name, request, key, now_s), key=lambda one: one.due_s)
        late = [one for one in due if one.due_s < known_s]
        found += [*late[-1:], *due[len(late) :]]
    return found


def _due(event: VtnEvent, ven_name: str, request: ReportRequest, key: str, now_s: float) -> Iterator[DueReport]:
    """Yield the reports of one request that are due and may not have been sent."""
    period = event.period
    step_s = 0.0 if period is None or period.duration is None else duration_in_s(period.duration)
    if event.intervals and request.frequency != 0:
        rows = _all(event, ven_name, now_s)
        size = len(event.intervals)
        for turn in range(0, len(rows), size):  # a repetition of the intervals is reported like an event
            yield from _of_intervals(rows[turn : turn + size], request, key, now_s)
    elif not event.intervals and request.frequency != 0 and 0 < step_s < math.inf:
        yield from _of_implied(first_start_s(event) or now_s, step_s, request, key, now_s)
    else:
        slot_s = math.floor(now_s / CHOSEN_S) * CHOSEN_S
        rows = [ReportInterval(slot_s - CHOSEN_S, slot_s, 0)]
        if request.payload_type == "OPERATING_STATE":
            rows = [ReportInterval(now_s, now_s, 0)]
        yield DueReport(f"{key}:{slot_s:.0f}", key, slot_s, request, tuple(rows), open=True)


def _all(event: VtnEvent, ven_name: str, now_s: float) -> list[ReportInterval]:
    """Return the intervals of an event, those of the last hour included."""
    found = windows(event, ven_name, now_s - KEPT_S, AHEAD_S)
    return [ReportInterval(w.begin_s, w.end_s, w.interval.id) for w in found]


def _of_intervals(
    rows: Sequence[ReportInterval], request: ReportRequest, key: str, now_s: float
) -> Iterator[DueReport]:
    """Yield the reports on intervals that are stated."""
    many = len(rows) if request.num_intervals < 0 else request.num_intervals
    step = (many if request.frequency < 0 else request.frequency) or len(rows)
    last = len(rows) - 1 if request.historical else 0
    at = last if request.start_interval < 0 else request.start_interval
    left = len(rows) if request.repeat < 0 else request.repeat
    while at < len(rows) and left > 0 and many > 0:
        part = rows[max(at - many + 1, 0) : at + 1] if request.historical else rows[at : at + many]
        due_s = rows[at].end_s if request.historical else rows[at].begin_s
        if due_s <= now_s:
            yield DueReport(f"{key}:{due_s:.0f}", key, due_s, request, tuple(part[:MOST_REPORTED]))
        at, left = at + step, left - 1


def _of_implied(begin_s: float, step_s: float, request: ReportRequest, key: str, now_s: float) -> Iterator[DueReport]:
    """Yield the reports on implied intervals that fell due within the last hour, and the last one before."""
    # -1 stands for the default of OpenADR: one interval, and a report as often as its intervals are full
    many = min(1 if request.num_intervals < 0 else request.num_intervals, MOST_REPORTED)
    step = (many if request.frequency < 0 else request.frequency) or 1
    first_s = begin_s + (max(request.start_interval, 0) + (1 if request.historical else 0)) * step_s
    newest = math.floor((now_s - first_s) / (step * step_s))
    if request.repeat >= 0:
        newest = min(newest, request.repeat - 1)
    oldest = max(0, min(newest, math.ceil((now_s - KEPT_S - first_s) / (step * step_s))), newest - MOST_REPORTED)
    # a report that fell due longer ago is of no use to anybody, but the newest is sent however old it is
    for turn in range(oldest, newest + 1):
        due_s = first_s + turn * step * step_s
        from_s = due_s - many * step_s if request.historical else due_s
        edges = [from_s + i * step_s for i in range(many + 1)]
        part = tuple(ReportInterval(a, b, i) for i, (a, b) in enumerate(pairwise(edges)))
        yield DueReport(f"{key}:{due_s:.0f}", key, due_s, request, part)
