"""Signals from outside on the trace's clock: the power cap, load targets, prices, carbon intensity."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.steps import Steps, rows_at

RISE_STEP_S = 60.0
"""Most seconds of a step in which a limit rises back after a target."""
RISE_STEP_SHARE = 0.01
"""Most height of such a step, of the machine's stated maximum; the step of the largest node may be higher."""
LEAST_STEP_S = 1e-6
"""Least seconds of such a step: a clock that counts from 1970 has no shorter ones."""
MOST_STEPS = 44_640
"""Most steps of a rise, 31 days of the longest ones: those of a rise that lasts longer are longer."""


@dataclass(frozen=True, slots=True)
class RiseScale:
    """The figures of a machine by which a limit rises after a load target (rule 13 of docs/semantics.md)."""

    most_w: float = np.inf
    """Its stated maximum in the cap's scope, where a rise ends at the latest; inf where it is not known."""
    node_w: float = 0.0
    """The stated maximum of its largest node in that scope."""

    @classmethod
    def of(cls, machine: Machine) -> Self:
        """Return the scale of a machine."""
        most_w = machine.scope_max_w()
        return cls() if most_w is None else cls(most_w, machine.scope_node_max_w())

    def top_w(self, cap_w: Floats) -> Floats:
        """Return where a rise ends: the cap, at the latest the maximum; inf where neither is known. Shape as given."""
        return np.minimum(cap_w, self.most_w)

    def step_s(self, ramp_w_per_s: Floats, top_w: Floats) -> Floats:
        """Return the most seconds of a step. Where no maximum is stated, the cap to which it rises stands for it.

        Shapes (k,), watts a second and watts; both finite.
        """
        most_w = top_w if np.isinf(self.most_w) else self.most_w
        height_w = np.maximum(RISE_STEP_SHARE * most_w, self.node_w)
        return np.clip(height_w / ramp_w_per_s, LEAST_STEP_S, RISE_STEP_S)


@dataclass(frozen=True, slots=True, eq=False)
class Cap(Steps):
    """A power cap in watts of the machine's cap scope; ``inf`` means no cap. A constant cap starts at -inf.

    Raises: InputError for times that do not rise, or watts that are negative or NaN.
    """

    alone_w: Floats | None = None
    """Where load targets are in it (``capped``): the watts of each row without them. Shape (k,)."""

    def __post_init__(self) -> None:
        _require_rising(self, "cap")
        bounds.CAP_W.require_column(self.cap_w[self.cap_w != np.inf], "cap_w", where="cap")

    @property
    def alone(self) -> Cap:
        """Return the cap without load targets."""
        return self if self.alone_w is None else Cap(self.time_s, self.alone_w)

    @property
    def of_targets(self) -> Cap:
        """Return the limit where load targets, or the rises after them, make it lower than the cap; else infinite."""
        if self.alone_w is None:
            return Cap.none()
        return Cap(self.time_s, np.where(self.cap_w < self.alone_w, self.cap_w, np.inf))

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

    def highest_in_target_w(self, targets: LoadTargets, now_s: float) -> float:
        """Return the highest watts at or after an instant while a load target is in force; -inf where none will be."""
        time_s = np.append(now_s, self.time_s[self.time_s > now_s])
        return float(self.at(time_s)[targets.in_force_at(time_s)].max(initial=-np.inf))


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
    scale: RiseScale = RiseScale()
    """How the limit rises after them."""

    def caps_after(self, now_s: float) -> tuple[Floats, Floats]:
        """Return the caps that come into force after an instant: when, in seconds, and their watts. Shapes (k,)."""
        limit = self.limit(now_s)
        first = int(np.searchsorted(limit.time_s, now_s, side="right"))
        return limit.time_s[first:], limit.cap_w[first:]

    def limit(self, now_s: float = np.inf) -> Cap:
        """Return the cap with the targets in it that have been announced by an instant."""
        if not len(self.targets):
            return self.cap
        return capped(self.cap, self.targets.take(self.targets.announced_s <= now_s), self.scale)

    def from_time(self, now_s: float) -> Signals:
        """Return what is in force at an instant and what comes after it."""
        row = int(rows_at(self.cap.time_s, np.array([now_s]))[0])
        return self if row == 0 else replace(self, cap=Cap(self.cap.time_s[row:], self.cap.cap_w[row:]))


def next_targets(targets: LoadTargets, time_s: Floats) -> NDArray[np.int64]:
    """Return the row of the next target that has been announced by each time and begins after it, -1 for none. (k,)."""
    found = np.full(len(time_s), -1, np.int64)
    for row in range(len(targets) - 1, -1, -1):  # the earliest is written last
        found[(targets.announced_s[row] <= time_s) & (time_s < targets.start_s[row])] = row
    return found


class RampAfter(NamedTuple):
    """How power may rise at each time after a load target. Shapes (k,)."""

    ramp_w_per_s: Floats
    """Of the latest target that has begun; inf while it lasts, before the first, and with nothing to rise to."""
    top_w: Floats
    """Where the rise ends."""
    step_s: Floats
    """The most seconds of a step; inf where the ramp is."""


def ramp_after(signals: Signals, time_s: Floats) -> RampAfter:
    """Return how power may rise at each of ``time_s`` (k,)."""
    targets, top_w = signals.targets, signals.scale.top_w(signals.cap.at(time_s))
    ramp, step_s = np.full(len(time_s), np.inf), np.full(len(time_s), np.inf)
    if len(targets):
        row = targets.begun_at(time_s)
        over = (row >= 0) & (time_s >= targets.end_s[row]) & np.isfinite(top_w)
        ramp[over] = targets.ramp_w_per_s[row[over]]
    rises = np.isfinite(ramp)
    step_s[rises] = signals.scale.step_s(ramp[rises], top_w[rises])
    return RampAfter(ramp, top_w, step_s)


def capped(cap: Cap, targets: LoadTargets, scale: RiseScale) -> Cap:
    """Return a cap with targets in it: during a target the lower of both; after its end, the rise that is allowed.

    The targets are in watts (``LoadTargets.in_watts``), ``scale`` is the machine's. The limit rises in steps that never
    lead the stated rate: each step has the value that the rate allows at its beginning, and the last one is the cap.
    The cap has a row at each notice, too, since a notice is an event.
    """
    if not len(targets):
        return cap
    rises = [_rise(cap, targets, row, scale) for row in range(len(targets))]
    known = targets.announced_s[np.isfinite(targets.announced_s)]
    time = np.unique(np.concatenate((cap.time_s, targets.start_s, targets.end_s, known, *(r.time_s for r in rises))))
    alone = cap.at(time).astype(np.float64)
    lowest = alone.copy()
    for row, rise in enumerate(rises):
        inside = (time >= targets.start_s[row]) & (time < targets.end_s[row])
        lowest[inside] = np.minimum(lowest[inside], targets.limit[row])
        after = (time >= targets.end_s[row]) & (time < rise.time_s[-1])
        lowest[after] = np.minimum(lowest[after], rise.at(time[after]))
    if targets.start_s[0] == time[0]:
        # The first value of a cap holds before its time, too, and no target does.
        first = float(cap.cap_w[0])
        time, lowest, alone = (np.insert(c, 0, v) for c, v in ((time, -np.inf), (lowest, first), (alone, first)))
    return Cap(time, lowest, alone)


def _rise(cap: Cap, targets: LoadTargets, row: int, scale: RiseScale) -> Steps:
    """Return what is allowed from the end of a target on: its last row is where nothing is limited any more."""
    end, ramp, limit = (float(column[row]) for column in (targets.end_s, targets.ramp_w_per_s, targets.limit))
    top = _top_w(cap, end, scale)
    if not np.isfinite(ramp) or not np.isfinite(top):
        return Steps(np.array([end]), np.array([np.inf]))
    length = max(top - limit, 0.0) / ramp
    (step_s,) = scale.step_s(np.array([ramp]), np.array([top]))
    step_s = max(float(step_s), length / MOST_STEPS)
    time = end + np.append(np.arange(max(np.ceil(length / step_s), 1.0)) * step_s, length)
    allowed = np.append(limit + ramp * (time[:-1] - end), np.inf)
    return Steps(*(column[np.append(np.diff(time) > 0, True)] for column in (time, allowed)))


def _top_w(cap: Cap, end_s: float, scale: RiseScale) -> float:
    """Return where the rise after a target that ends at ``end_s`` ends at the latest; -inf where nothing is known."""
    top_w = scale.top_w(cap.cap_w[int(rows_at(cap.time_s, end_s)) :])
    return float(top_w[np.isfinite(top_w)].max(initial=-np.inf))


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
