"""Announced limits as kernels take them, for passes that look ahead (``kernels/announced.py``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import state
from wattqueue.kernels.arrays import microwatts_of
from wattqueue.kernels.fresh import limits_of
from wattqueue.model.signals import Signals, next_targets

Ints = NDArray[np.int64]


class AnnouncedRows(NamedTuple):
    """What is announced over a run."""

    limits: state.AnnouncedLimits
    first: Ints
    end: Ints
    """Rows that are announced at each of the times asked for. Shapes (k,)."""


def announced_at(signals: Signals, time_s: NDArray[Any], *, everything: bool, rises: bool) -> AnnouncedRows:
    """Return what a pass looks ahead to at each time: all limits, or the begin of the next load target. Shapes (k,).

    ``rises``: with all limits those, too, that are higher than the one before.
    """
    return all_limits(signals, time_s, rises=rises) if everything else next_begins(signals, time_s)


def next_begins(signals: Signals, time_s: NDArray[Any]) -> AnnouncedRows:
    """Return the begin of the next load target that is announced at each time, with the lower of target and cap."""
    targets, row = signals.targets, next_targets(signals.targets, time_s)
    watts = np.minimum(targets.limit, signals.cap.at(targets.start_s))
    uw = microwatts_of(np.asarray(watts, np.float64))
    first = np.maximum(row, 0)
    end = np.where(row >= 0, first + 1, first)
    return AnnouncedRows(limits_of(targets.start_s.astype(np.float64), uw, np.ones(len(uw), np.int8), 1), first, end)


def all_limits(signals: Signals, time_s: NDArray[Any], *, rises: bool) -> AnnouncedRows:
    """Return the limits, of cap and load targets together, that are announced at each time for later."""
    notice = np.append(-np.inf, np.unique(signals.targets.announced_s))
    parts = [_later(signals, float(at), rises=rises) for at in notice]
    ends = np.cumsum([0, *(len(limit) for _, limit, _ in parts)]).astype(np.int64)
    time, uw, inside = (np.concatenate(side) for side in zip(*parts, strict=True))
    epoch = np.searchsorted(notice, time_s, side="right") - 1
    limits = limits_of(time, uw, inside.astype(np.int8), int(np.diff(ends).max()))
    return AnnouncedRows(limits, ends[epoch], ends[epoch + 1])


def _later(signals: Signals, now_s: float, *, rises: bool) -> tuple[NDArray[Any], Ints, NDArray[Any]]:
    """Return when the limit changes after an instant as it is announced then, to what, and whether for a target."""
    known = signals.limit(now_s)
    before = np.append(known.cap_w[0], known.cap_w[:-1])
    changes = known.cap_w != before if rises else known.cap_w < before
    kept = changes & (known.time_s > now_s)
    return known.time_s[kept], microwatts_of(known.cap_w[kept]), known.cap_w[kept] < known.alone.cap_w[kept]


def with_announced(view: state.KernelView, found: AnnouncedRows) -> state.KernelView:
    """Return a view with announced limits, as they are at the first of the times asked for."""
    view.now.ahead_row, view.now.ahead_end = int(found.first[0]), int(found.end[0])
    return view._replace(ahead=found.limits)
