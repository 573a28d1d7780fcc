"""The multiplicative same-day adjustment that two markets share, with other hours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_grid.settlement.load_history import BaselineCase, Slot, mean_of


def adjusted(
    case: BaselineCase, days: Sequence[date], window: Sequence[Slot], limit: float
) -> tuple[Floats, float | None, tuple[str, ...]]:
    """Return the mean of some days at the event, adjusted to the event's own day; the factor, and notes.

    The factor is the load of the event's day in ``window`` over the mean of ``days`` there, within 1 +- ``limit``.
    It stays away, with a note, where the event's day has a gap in the window, another event takes place in it, or
    the mean is 0: published rules do not say what to do then.
    """
    plain = mean_of(case, days, case.slots)
    own, usual = case.on(case.day, window), mean_of(case, days, window)
    gap = np.isnan(own) & ~case.skipped(case.day, window)
    if gap.any():
        return plain, None, ("no same-day adjustment: gaps in the hours before the event",)
    if case.disturbed(window):
        return plain, None, ("no same-day adjustment: another event in the hours before",)
    there = ~np.isnan(own) & ~np.isnan(usual)
    if not there.any() or usual[there].sum() <= 0:
        return plain, None, ("no same-day adjustment: no load in the hours before the event on the days averaged",)
    raw = float(own[there].sum() / usual[there].sum())
    factor = min(max(raw, 1 - limit), 1 + limit)
    notes = () if factor == raw else (f"same-day adjustment of {raw:.4f} limited to {factor:.2f}",)
    return plain * factor, factor, notes
