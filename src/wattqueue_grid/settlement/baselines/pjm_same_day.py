"""PJM Same Day (3+2): the mean of hours before and after the event on its own day.

Rule: the three whole hours that end one hour before the event and the two that begin one hour after it are averaged;
this one figure is the baseline of every hour of the event.

Source: PJM Market Implementation Committee, manual 11 changes on customer baselines, as reported by RTO Insider,
"Improved DR Baseline Processes OKd": "the average of three hours before event (after skipping one hour) and two hours
after event (after skipping one hour). For an event occurring in hours ending 13-17, for example, PJM would average
hours ending 9-11 and 19-20." This example is a test.

Readings: hours are whole hours of the site's clock. A gap in one of the five hours is an error, since nothing else
could take its place. Another event in these hours is named in a note.
"""

from __future__ import annotations

import numpy as np

from wattqueue.errors import InputError
from wattqueue_grid.settlement.load_history import BaselineCase, BaselineLoad, whole

NAME = "pjm-same-day"


def baseline(case: BaselineCase) -> BaselineLoad:
    """Return the baseline of an event. Raises: InputError for a gap in the hours around it."""
    window = [*case.hours_before(4, 3), *case.hours_after(1, 2)]
    watts = case.on(case.day, window)
    if np.isnan(watts[~case.skipped(case.day, window)]).any():
        raise InputError(
            f"a gap in the five hours that {NAME} averages", where=f"event {case.event.event_id}",
            hint="complete the meter's data, or settle with another baseline",
        )  # fmt: skip
    notes = ("another event lies in the hours averaged",) if case.disturbed(window) else ()
    level = float(np.nanmean(watts))
    return BaselineLoad(NAME, whole(np.full(len(case.slots), level)), (), None, notes)
