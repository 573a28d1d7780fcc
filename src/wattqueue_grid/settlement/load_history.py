"""Interval data by local day and time of day, and an event among them: what every baseline is computed from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue_grid.meter import MeterData
from wattqueue_grid.settlement.calendar import SiteCalendar

Slot = tuple[int, int]
"""Days after the event's day, and seconds since midnight on the wall clock: where an interval of an event stands."""


@dataclass(frozen=True, slots=True)
class CalledEvent:
    """A load target that the site was called to meet, or a test of one.

    Raises: InputError for an event that does not end after it begins, or a negative commitment.
    """

    event_id: str
    """Correlation id of the load target."""
    begin_s: int
    """Unix time at which delivery begins."""
    end_s: int
    committed_w: int
    """Watts below the baseline that were promised."""
    test: bool = False

    def __post_init__(self) -> None:
        where = f"event {self.event_id}"
        if self.end_s <= self.begin_s:
            raise InputError(
                "has no interval: it does not end after it begins", where=where, hint="check start and end"
            )
        if self.committed_w < 0:
            raise InputError(f"{self.committed_w} W were committed", where=where, hint="0 W or more below the baseline")


class LoadHistory:
    """Mean watts of a meter by local day and slot of the day. Building it takes one pass over the intervals."""

    def __init__(self, meter: MeterData, calendar: SiteCalendar) -> None:
        self.meter, self.calendar = meter, calendar
        sums = defaultdict[date, defaultdict[int, list[float]]](lambda: defaultdict(list))
        for i, watts in enumerate(meter.power_w):
            day, second = calendar.local(meter.begin_s + i * meter.interval_s)
            sums[day][second].append(float(watts))
        self._watts = {day: {s: float(np.mean(w)) for s, w in slots.items()} for day, slots in sums.items()}

    def watts(self, day: date, slots: Sequence[Slot]) -> Floats:
        """Return a day's watts at some slots; NaN for a gap, and for a time that the day's clock leaves out."""
        return np.array([self._watts.get(day + timedelta(days=k), {}).get(s, np.nan) for k, s in slots])

    def slots_between(self, begin_s: int, end_s: int, day: date) -> list[Slot]:
        """Return the slots of the intervals within two instants, as places on ``day`` and the days around it."""
        found = []
        for time_s in range(begin_s, end_s, self.meter.interval_s):
            there, second = self.calendar.local(time_s)
            found.append(((there - day).days, second))
        return found


@dataclass(frozen=True, eq=False)
class BaselineCase:
    """An event, the history that its baseline may use, and the events that it may not.

    Raises: InputError for an event that does not begin and end at whole intervals.
    """

    history: LoadHistory
    event: CalledEvent
    others: tuple[CalledEvent, ...] = ()
    """All other events, tests too: their days are no ordinary days."""

    def __post_init__(self) -> None:
        step = self.history.meter.interval_s
        for name, value in (("begin", self.event.begin_s), ("end", self.event.end_s)):
            if value % step:
                raise InputError(
                    f"{name} {self.history.calendar.text(value)} is not at a whole interval of {step} s",
                    where=f"event {self.event.event_id}", hint="settle with shorter intervals, or correct the event",
                )  # fmt: skip

    @cached_property
    def day(self) -> date:
        """Return the local day on which the event begins."""
        return self.history.calendar.local(self.event.begin_s)[0]

    @cached_property
    def slots(self) -> list[Slot]:
        """Return the slots of the event's intervals."""
        return self.window(self.event.begin_s, self.event.end_s)

    @cached_property
    def event_days(self) -> frozenset[date]:
        """Return every local day on which some event, this one too, delivers."""
        local = self.history.calendar.local
        events = (self.event, *self.others)
        spans = ((local(e.begin_s)[0], local(e.end_s - 1)[0]) for e in events)
        return frozenset(first + timedelta(days=k) for first, last in spans for k in range((last - first).days + 1))

    def window(self, begin_s: int, end_s: int) -> list[Slot]:
        """Return the slots of a window around the event, such as the hours before it."""
        return self.history.slots_between(begin_s, end_s, self.day)

    def hours_before(self, first: int, count: int) -> list[Slot]:
        """Return the slots of ``count`` whole hours that begin ``first`` hours before the hour of the event."""
        begin = self.history.calendar.hour_begin(self.event.begin_s) - first * 3_600
        return self.window(begin, begin + count * 3_600)

    def hours_after(self, skipped: int, count: int) -> list[Slot]:
        """Return the slots of ``count`` whole hours that begin ``skipped`` hours after the last hour of the event."""
        begin = self.history.calendar.hour_end(self.event.end_s) + skipped * 3_600
        return self.window(begin, begin + count * 3_600)

    def disturbed(self, slots: Sequence[Slot]) -> bool:
        """Return whether another event takes place in these slots of the event's own day."""
        taken = {slot for e in self.others for slot in self.window(e.begin_s, e.end_s)}
        return not taken.isdisjoint(slots)

    def on(self, day: date, slots: Sequence[Slot] | None = None) -> Floats:
        """Return the watts of a day at the slots of the event, or at others."""
        return self.history.watts(day, self.slots if slots is None else slots)

    def complete(self, day: date, *slots: Sequence[Slot]) -> bool:
        """Return whether a day has data at every slot of the event and of other windows.

        A slot that the day's clock leaves out (the hour that summer time skips) is no gap.
        """
        asked = [s for window in (self.slots, *slots) for s in window]
        return not any(np.isnan(self.on(day, asked)) & ~self.skipped(day, asked))

    def skipped(self, day: date, slots: Sequence[Slot]) -> NDArray[np.bool_]:
        """Return which slots the clock of a day leaves out."""
        skips = self.history.calendar.skips
        return np.array([skips(day + timedelta(days=k), s) for k, s in slots], bool)


@dataclass(frozen=True, slots=True, eq=False)
class BaselineLoad:
    """The watts that a rule says the site would have drawn. Shape of ``power_w``: intervals of the event."""

    name: str
    power_w: Floats
    """In whole watts; NaN where no day has a figure."""
    days: tuple[date, ...]
    """Days that were averaged, the latest first; empty for a rule that uses the event's own day."""
    factor: float | None = None
    """Same-day adjustment that was applied; None for a rule without one."""
    notes: tuple[str, ...] = ()
    """What a reader must know: days passed over, an adjustment that was limited or left out."""


def mean_of(case: BaselineCase, days: Sequence[date], slots: Sequence[Slot]) -> Floats:
    """Return the mean of days at each slot, over the days that have a figure there. Shape (slots,)."""
    table = np.array([case.on(day, slots) for day in days])
    there = ~np.isnan(table)
    count = there.sum(axis=0)
    return np.where(count > 0, np.where(there, table, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)


def whole(watts: Floats) -> Floats:
    """Return watts rounded to whole ones, halves to even; statement and money are computed from these."""
    return np.asarray(np.round(watts), np.float64)


def passed_over(tried: Sequence[date], used: Sequence[date]) -> tuple[str, ...]:
    """Return the note that names days which were left out for gaps in their data; empty where there are none."""
    gaps = [day.isoformat() for day in tried if day not in used]
    return (f"passed over for gaps in their data: {', '.join(gaps)}",) if gaps else ()
