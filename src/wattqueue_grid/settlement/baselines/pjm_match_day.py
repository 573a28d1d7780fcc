"""PJM Match Day (3-day average): the mean of the three days whose load was nearest to that of the event's day.

Rule: the days are compared by their load outside the event; the hours of the event, the hour before it and the hour
after it are not compared. The three non-event days with the most similar load are averaged hour by hour.

Source: PJM Market Implementation Committee, manual 11 changes on customer baselines, as reported by RTO Insider,
"Improved DR Baseline Processes OKd": "an average of the three non-event days with the most similar load to the
non-event hours on the event day. The hour before and after the event are excluded from the non-event hours."

Readings, since the report does not say: similar is the least sum of squared differences over the local day; of equal
days the later one counts. Days are of the kind of the event's day (weekday, Saturday, Sunday or holiday) and at most
45 calendar days before it, the look-back of PJM's standard baseline. A day with gaps is passed over.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from wattqueue.errors import InputError
from wattqueue_grid.settlement.calendar import days_before
from wattqueue_grid.settlement.load_history import BaselineCase, BaselineLoad, Slot, mean_of, passed_over, whole

NAME = "pjm-match-day"
DAYS = 3
LOOK_BACK_DAYS = 45


def baseline(case: BaselineCase) -> BaselineLoad:
    """Return the baseline of an event. Raises: InputError where fewer than three days can be compared."""
    calendar = case.history.calendar
    compared = _compared(case)
    kind = calendar.kind(case.day)
    alike = [
        day
        for day in days_before(case.day, LOOK_BACK_DAYS)
        if calendar.kind(day) == kind and day not in case.event_days
    ]
    usable = [day for day in alike if case.complete(day, compared)]
    if len(usable) < DAYS:
        raise InputError(
            f"{len(usable)} days of its kind with data in the {LOOK_BACK_DAYS} days before, {NAME} needs {DAYS}",
            where=f"event {case.event.event_id}", hint="give a longer history of the meter",
        )  # fmt: skip
    own = case.on(case.day, compared)
    # nanmean: a gap of the event's day, or an hour that a clock leaves out, is not compared. sorted() is stable, and
    # the latest day comes first.
    distance = {day: float(np.nanmean((case.on(day, compared) - own) ** 2)) for day in usable}
    days = sorted(sorted(usable, key=lambda day: distance[day])[:DAYS], reverse=True)
    notes = passed_over(alike, usable)
    return BaselineLoad(NAME, whole(mean_of(case, days, case.slots)), tuple(days), None, notes)


def _compared(case: BaselineCase) -> list[Slot]:
    """Return the slots of the event's local day without the event, the hour before it and the hour after it."""
    calendar, step = case.history.calendar, case.history.meter.interval_s
    first = calendar.hour_begin(case.event.begin_s) - 3_600
    last = calendar.hour_end(case.event.end_s) + 3_600
    left_out = set(case.window(first, last))
    others = {slot for e in case.others for slot in case.window(e.begin_s, e.end_s)}
    whole_day = [(0, second) for second in range(0, 86_400, step)]
    found = [slot for slot in whole_day if slot not in left_out | others]
    own = case.on(case.day, found)
    if np.isnan(own).all():
        raise InputError(
            f"no data on {case.day} outside the event", where=f"event {case.event.event_id}",
            hint=f"give the meter's data of the whole day; {case.day - timedelta(days=1)} is not compared",
        )  # fmt: skip
    return found
