"""New York ISO: customer baseline load (CBL), the five highest of the last ten weekdays, with an in-day adjustment.

Rule for weekdays, as implemented:

1. The window is ten weekdays, from two days before the event on. Holidays are left out, days with an event, the day
   before the event, and days of low use: those whose mean load in the hours of the event is below 25 % of the running
   mean of these loads. The running mean begins with the highest hourly load in these hours of the last 30 days.
2. The five days of the window with the highest mean load in the hours of the event are averaged hour by hour.
3. Adjustment: the result is multiplied by the ratio of the site's load to the CBL in the two hours that begin four
   hours before the event, limited to 0.80 and 1.20.

Rule for Saturdays and Sundays: the window is the three latest days of the same name, holidays and events among them;
the lowest is left out and the other two are averaged. The adjustment is the same.

Source: New York ISO, Manual 7, Emergency Demand Response Program Manual, version 7.2 (June 2016), section on the
calculation of the customer baseline load (average day CBL; elective weather-sensitive CBL for the adjustment).
The steps for weekdays are from memory, since only the manual's table of contents was at hand. The weekend window is
that of version 7.2: "the most recent three (3) like (Saturday or Sunday) weekend days. There are no exclusions for
Holidays or event days".

Readings: a day with gaps in the hours needed is passed over. The search ends after 60 calendar days. The first value
of the running mean stays in it as its first member.
"""

from __future__ import annotations

from datetime import date

import numpy as np

from wattqueue.errors import InputError
from wattqueue_grid.settlement.baselines.adjustment import adjusted
from wattqueue_grid.settlement.calendar import SATURDAY, days_before
from wattqueue_grid.settlement.load_history import BaselineCase, BaselineLoad, passed_over, whole

NAME = "nyiso-cbl"
WINDOW_DAYS, BASIS_DAYS = 10, 5
WEEKEND_WINDOW, WEEKEND_BASIS = 3, 2
LOW_USE = 0.25
SEED_DAYS = 30
LOOK_BACK_DAYS = 60
LIMIT = 0.20


def baseline(case: BaselineCase) -> BaselineLoad:
    """Return the baseline of an event. Raises: InputError where the history has too few days with data."""
    weekend = case.day.weekday() >= SATURDAY
    window, notes = _weekend_window(case) if weekend else _weekday_window(case)
    needed, kept = (WEEKEND_WINDOW, WEEKEND_BASIS) if weekend else (WINDOW_DAYS, BASIS_DAYS)
    if len(window) < needed:
        raise InputError(
            f"{len(window)} days with data in the {LOOK_BACK_DAYS} days before, {NAME} needs {needed}",
            where=f"event {case.event.event_id}", hint="give a longer history of the meter",
        )  # fmt: skip
    # Stable, the latest day first: of equal days the later one is kept.
    highest = sorted(window, key=lambda day: -_event_load(case, day))[:kept]
    days = sorted(highest, reverse=True)
    watts, factor, limits = adjusted(case, days, case.hours_before(4, 2), LIMIT)
    return BaselineLoad(NAME, whole(watts), tuple(days), factor, notes + limits)


def _event_load(case: BaselineCase, day: date) -> float:
    """Return the mean watts of a day in the hours of the event."""
    return float(np.nanmean(case.on(day)))


def _weekday_window(case: BaselineCase) -> tuple[list[date], tuple[str, ...]]:
    """Return the ten weekdays of the window, the latest first, and notes."""
    calendar, hours = case.history.calendar, case.hours_before(4, 2)
    level = [_seed(case)]
    window, gaps, low = list[date](), list[date](), list[date]()
    for day in list(days_before(case.day, LOOK_BACK_DAYS))[1:]:
        if not calendar.is_business(day) or day in case.event_days:
            continue
        if not case.complete(day, hours):
            gaps.append(day)
            continue
        load = _event_load(case, day)
        if load < LOW_USE * float(np.mean(level)):
            low.append(day)
            continue
        level.append(load)
        window.append(day)
        if len(window) == WINDOW_DAYS:
            break
    named = ", ".join(day.isoformat() for day in low)
    return window, passed_over(gaps, ()) + ((f"days of low use left out: {named}",) if low else ())


def _weekend_window(case: BaselineCase) -> tuple[list[date], tuple[str, ...]]:
    """Return the three latest days of the event's name, and notes."""
    alike = [day for day in days_before(case.day, LOOK_BACK_DAYS) if day.weekday() == case.day.weekday()]
    usable = [day for day in alike if case.complete(day, case.hours_before(4, 2))][:WEEKEND_WINDOW]
    return usable, passed_over([day for day in alike if not usable or day >= usable[-1]], usable)


def _seed(case: BaselineCase) -> float:
    """Return the highest hourly load in the hours of the event over the last 30 days; 0 without data."""
    per_hour = 3_600 // case.history.meter.interval_s
    highest = 0.0
    for day in days_before(case.day, SEED_DAYS):
        watts = case.on(day)
        count = len(watts) // per_hour * per_hour or len(watts)
        hours = watts[:count].reshape(-1, min(per_hour, count)).mean(axis=1)
        if np.isfinite(hours).any():
            highest = max(highest, float(np.nanmax(hours)))
    return highest
