"""Announced limits as kernels take them, for passes that look ahead (``kernels/announced.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.arrays import microwatts_of
from wattqueue.kernels.fresh import domains_ahead, limits_of
from wattqueue.model.signals import Signals, next_targets
from wattqueue.model.supply import SupplyDomain

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


def lower_limits(domains: Sequence[SupplyDomain]) -> state.SupplyAhead:
    """Return when limits of domains fall, and to what, as it is known from each time on at which more is known."""
    notices = {known for one in domains for known in one.known_s}
    epochs = [-np.inf, *sorted(notices)]
    parts = [_falls(domains, at_s) for at_s in epochs]
    ends = np.cumsum([0, *(len(time_s) for time_s, _ in parts)]).astype(np.int64)
    time_s, limit_uw = (np.concatenate(side) for side in zip(*parts, strict=True))
    return domains_ahead(np.array(epochs), ends, time_s, limit_uw)


def _falls(domains: Sequence[SupplyDomain], at_s: float) -> tuple[NDArray[Any], Ints]:
    """Return when limits fall after a time, by what is known then: times (k,), limits (k, G), NO_CAP where none."""
    found = []
    for one in domains:
        times_s, watts = one.known_at(at_s)
        fell = (np.diff(watts) < 0) & (times_s[1:] > at_s)
        found.append((times_s[1:][fell], microwatts_of(watts[1:][fell])))
    time_s = np.unique(np.concatenate([times_s for times_s, _ in found]))
    limit_uw = np.full((len(time_s), len(domains)), codes.NO_CAP, np.int64)
    for k, (times_s, uw) in enumerate(found):
        limit_uw[np.searchsorted(time_s, times_s), k] = uw
    return time_s, limit_uw


def with_announced(view: state.KernelView, found: AnnouncedRows) -> state.KernelView:
    """Return a view with announced limits, as they are at the first of the times asked for."""
    view.now.ahead_row, view.now.ahead_end = int(found.first[0]), int(found.end[0])
    return view._replace(ahead=found.limits)
