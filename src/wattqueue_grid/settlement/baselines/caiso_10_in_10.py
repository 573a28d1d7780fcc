"""California ISO: ten of the last ten days, with a same-day adjustment of at most 20 %.

Rule, as implemented:

1. On a business day the ten latest business days before the event are used, on another day the four latest
   non-business days. Days with an event are left out. The search goes back 45 calendar days.
2. Where fewer than five business days (four others) are found, event days fill up to that number: those with the
   highest load in the hours of the event come first.
3. The baseline of an hour is the mean of these days at that hour.
4. It is multiplied by the ratio of the site's load to this mean in the three hours that end one hour before the event
   (the second, third and fourth hour before it), limited to 0.80 and 1.20.

Source: California ISO, tariff section 4.13.4.1 ("ten-in-ten methodology"), as summarised in California ISO Baseline
Accuracy Work Group, draft proposal of 4 April 2017, section 1: "a 10 of 10 baseline with a 20% same day adjustment".
From memory, since the tariff's text was not at hand: the four non-business days, the limit of 45 days, step 2, and
which three hours adjust (step 4).

Readings: a day with gaps in the hours that the rule needs is passed over and named in a note. Hours are whole hours of
the site's clock; an event that begins within an hour counts from that hour's begin.
"""

from __future__ import annotations

from datetime import date

import numpy as np

from wattqueue.errors import InputError
from wattqueue_grid.settlement.baselines.adjustment import adjusted
from wattqueue_grid.settlement.calendar import days_before
from wattqueue_grid.settlement.load_history import BaselineCase, BaselineLoad, passed_over, whole

NAME = "caiso-10-in-10"
BUSINESS_DAYS, OTHER_DAYS = 10, 4
LEAST_BUSINESS_DAYS, LEAST_OTHER_DAYS = 5, 4
LOOK_BACK_DAYS = 45
LIMIT = 0.20
"""Greatest same-day adjustment, up or down."""


def baseline(case: BaselineCase) -> BaselineLoad:
    """Return the baseline of an event.

    Raises: InputError where the history has too few days with data.
    """
    window = case.hours_before(4, 3)
    calendar = case.history.calendar
    business = calendar.is_business(case.day)
    most, least = (BUSINESS_DAYS, LEAST_BUSINESS_DAYS) if business else (OTHER_DAYS, LEAST_OTHER_DAYS)
    alike = [day for day in days_before(case.day, LOOK_BACK_DAYS) if calendar.is_business(day) == business]
    ordinary = [day for day in alike if day not in case.event_days]
    usable = [day for day in ordinary if case.complete(day, window)]
    days = usable[:most]
    tried = [day for day in ordinary if len(days) < most or day >= days[-1]]
    notes = passed_over(tried, days)
    if len(days) < least:
        days, note = _filled(case, days, [day for day in alike if day in case.event_days], least)
        notes += (note,)
    elif len(days) < most:
        notes += (f"{len(days)} days instead of {most} within {LOOK_BACK_DAYS} days",)
    watts, factor, limits = adjusted(case, days, window, LIMIT)
    return BaselineLoad(NAME, whole(watts), tuple(days), factor, notes + limits)


def _filled(case: BaselineCase, days: list[date], events: list[date], least: int) -> tuple[list[date], str]:
    """Return the days with event days of the highest load among them, and the note that says so.

    Raises: InputError where they do not suffice either.
    """
    complete = [day for day in events if case.complete(day, case.hours_before(4, 3))]
    highest = sorted(complete, key=lambda day: -float(np.nansum(case.on(day))))
    found = sorted([*days, *highest[: least - len(days)]], reverse=True)
    if len(found) < least:
        raise InputError(
            f"{len(found)} days with data in the {LOOK_BACK_DAYS} days before, {NAME} needs {least}",
            where=f"event {case.event.event_id}", hint="give a longer history of the meter",
        )  # fmt: skip
    return found, f"event days among the days averaged, since only {len(days)} others have data"
