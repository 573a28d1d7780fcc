"""Signals from outside on the trace's clock: the power cap, load targets, prices, carbon intensity."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.steps import Steps, rows_at

RAMP_STEPS = 64
"""Most steps in which a limit rises back; a rise that needs fewer takes one step for each ``RAMP_STEP_S``."""
RAMP_STEP_S = 10.0
"""Least seconds of a step of a rise."""


@dataclass(frozen=True, slots=True, eq=False)
class Cap(Steps):
    """A power cap in watts of the machine's cap scope; ``inf`` means no cap. A constant cap starts at -inf.

    Raises: InputError for times that do not rise, or watts that are negative or NaN.
    """

    def __post_init__(self) -> None:
        _require_rising(self, "cap")
        bounds.CAP_W.require_column(self.cap_w[self.cap_w != np.inf], "cap_w", where="cap")

    @classmethod
    def constant(cls, cap_w: float) -> Cap:
        """Return a cap of one value for all time."""
        return cls(np.array([-np.inf]), np.array([cap_w], np.float64))

    @classmethod
    def none(cls) -> Cap:
        """Return the cap that limits nothing."""
        return cls.constant(np.inf)

    @property
    def cap_w(self) -> Floats:
        """Return the watts of each row. Shape (k,)."""
        return self.value

    def in_force_w(self, now_s: float) -> float:
        """Return the watts at one instant; inf for no cap."""
        return float(self.at(np.array([now_s]))[0])

    @property
    def limited(self) -> bool:
        """Return whether any value is finite."""
        return bool(np.isfinite(self.cap_w).any())

    def highest_from(self, time_s: Floats) -> Floats:
        """Return the highest watts in force at or after each time. Shape as ``time_s``.

        A job that exceeds them can never run under this cap (rule 4).
        """
        rest: NDArray[np.float64] = np.maximum.accumulate(self.cap_w[::-1])[::-1]
        return rest[rows_at(self.time_s, time_s)]


@dataclass(frozen=True, slots=True, eq=False)
class Series(Steps):
    """Any other signal, in its own unit (EUR/MWh, gCO2/kWh).

    Raises: InputError for times that do not rise, or figures that are not finite.
    """

    def __post_init__(self) -> None:
        _require_rising(self, "series")
        bounds.SIGNAL.require_column(self.value, "value", where="series")


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """What has been announced from outside, on the clock of the jobs: rows of the future among them.

    The rows of a cap are announced together: in a simulation before it begins, live when the cap's file is read. A load
    target is announced by its notice; the table has the later ones, too, and the methods leave them out.
    """

    cap: Cap
    """The cap, in watts of the machine's cap scope."""
    targets: LoadTargets = field(default_factory=LoadTargets.none)
    """Load targets, in watts of that scope."""

    def caps_after(self, now_s: float) -> tuple[Floats, Floats]:
        """Return the caps that come into force after an instant: when, in seconds, and their watts. Shapes (k,)."""
        limit = self.limit(now_s)
        first = int(np.searchsorted(limit.time_s, now_s, side="right"))
        return limit.time_s[first:], limit.cap_w[first:]

    def limit(self, now_s: float = np.inf) -> Cap:
        """Return the cap with the targets in it that have been announced by an instant."""
        if not len(self.targets):
            return self.cap
        return capped(self.cap, self.targets.take(self.targets.announced_s <= now_s))

    def from_time(self, now_s: float) -> Signals:
        """Return what is in force at an instant and what comes after it."""
        row = int(rows_at(self.cap.time_s, np.array([now_s]))[0])
        return self if row == 0 else Signals(Cap(self.cap.time_s[row:], self.cap.cap_w[row:]), self.targets)


def next_target(signals: Signals, time_s: Floats) -> tuple[Floats, Floats]:
    """Return the next load target that has been announced by each time and begins after it. Shapes as ``time_s``.

    When it begins, inf for none, and its watts: the lower of target and cap.
    """
    targets = signals.targets
    begin_s, limit_w = np.full(len(time_s), np.inf), np.full(len(time_s), np.inf)
    for row in range(len(targets) - 1, -1, -1):  # the earliest is written last
        start = targets.start_s[row]
        known = (targets.announced_s[row] <= time_s) & (time_s < start)
        begin_s[known], limit_w[known] = start, min(targets.limit[row], signals.cap.in_force_w(float(start)))
    return begin_s, limit_w


def ramp_after(signals: Signals, time_s: Floats) -> Floats:
    """Return the watts a second by which power may rise at each time after a load target; inf for any. As ``time_s``.

    The ramp of the latest target that has begun; inf while it lasts, before the first, and where there is no cap to
    rise to.
    """
    targets = signals.targets
    row = np.searchsorted(targets.start_s, time_s, side="right") - 1
    if not len(targets):
        return np.full(len(time_s), np.inf)
    over = (row >= 0) & (time_s >= targets.end_s[row]) & np.isfinite(signals.cap.at(time_s))
    return np.where(over, targets.ramp_w_per_s[row], np.inf)


def capped(cap: Cap, targets: LoadTargets) -> Cap:
    """Return a cap with targets in it: during a target the lower of both; after its end, the rise that is allowed.

    The targets are in watts (``LoadTargets.in_watts``). The limit rises in steps that never lead the stated rate: each
    step has the value that the rate allows at its beginning, and the last one is the cap. The cap has a row at each
    notice, too, since a notice is an event.
    """
    if not len(targets):
        return cap
    rises = [_rise(cap, targets, row) for row in range(len(targets))]
    known = targets.announced_s[np.isfinite(targets.announced_s)]
    time = np.unique(np.concatenate((cap.time_s, targets.start_s, targets.end_s, known, *(r.time_s for r in rises))))
    lowest = cap.at(time).astype(np.float64)
    for row, rise in enumerate(rises):
        inside = (time >= targets.start_s[row]) & (time < targets.end_s[row])
        lowest[inside] = np.minimum(lowest[inside], targets.limit[row])
        after = (time >= targets.end_s[row]) & (time < rise.time_s[-1])
        lowest[after] = np.minimum(lowest[after], rise.at(time[after]))
    if targets.start_s[0] == time[0]:
        # The first value of a cap holds before its time, too, and no target does.
        time, lowest = np.insert(time, 0, -np.inf), np.insert(lowest, 0, cap.cap_w[0])
    return Cap(time, lowest)


def _rise(cap: Cap, targets: LoadTargets, row: int) -> Steps:
    """Return what is allowed from the end of a target on: its last row is where nothing is limited any more."""
    end, ramp, limit = (float(column[row]) for column in (targets.end_s, targets.ramp_w_per_s, targets.limit))
    later = cap.cap_w[int(rows_at(cap.time_s, end)) :]
    finite = later[np.isfinite(later)]
    if not np.isfinite(ramp) or not len(finite):
        # Without a cap there is nothing to rise to.
        return Steps(np.array([end]), np.array([np.inf]))
    length = max(float(finite.max()) - limit, 0.0) / ramp
    steps = int(np.clip(np.ceil(length / RAMP_STEP_S), 1, RAMP_STEPS))
    time = end + np.arange(steps + 1) * (length / steps)
    allowed = np.append(limit + ramp * (time[:-1] - end), np.inf)
    return Steps(*(column[np.append(np.diff(time) > 0, True)] for column in (time, allowed)))


def _require_rising(steps: Steps, where: str) -> None:
    """Raise InputError unless there are rows, each later than the one before."""
    if len(steps.time_s) == 0 or len(steps.time_s) != len(steps.value):
        raise InputError("needs at least one row and equal columns", where=where)
    # The first row of a cap may begin at minus infinity: a constant cap has no start.
    first = 1 if isinstance(steps, Cap) and steps.time_s[0] == -np.inf else 0
    bounds.TIME_S.require_column(steps.time_s[first:], "time_s", where=where)
    if (np.diff(steps.time_s) <= 0).any():
        raise InputError("times must rise from row to row", where=where, hint="sort the rows, each time once")


NO_SIGNALS = Signals(Cap.none())
"""No cap, and none announced."""
