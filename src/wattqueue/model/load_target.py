"""Load targets: the watts that a machine is asked to keep below for some time, and how it learns of them.

A target is what an operator of the grid, or a contract with one, asks for (demand response): from ``start_s`` to
``end_s`` the machine is to draw at most so many watts in the scope of its cap. It is known from its notice on; after
its end the watts allowed may rise at a limited rate, so that the work that was held back makes no new peak.

A target limits like a cap, and the lower of both is in force (``signals.capped``): so the pass, reservations and
metrics need no second limit. What sets it apart is the notice, before which no part of a policy may know it, and that
controls may slow down or park jobs whose users consent (``model.consent``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError, MachineError
from wattqueue.model import bounds
from wattqueue.model.bounds import Bound
from wattqueue.model.machine import Machine
from wattqueue.model.steps import Steps, rows_at

Floats = NDArray[np.float64]

WATTS, OF_MAXIMUM, OF_CAP = "W", "% of maximum", "% of cap"
"""Units of a limit: watts; percent of the sum of unit maxima in the cap's scope; percent of the cap in force at the
start of the target."""
UNITS = (WATTS, OF_MAXIMUM, OF_CAP)
PERCENT = Bound(0, 100, "%", "a share of the machine's maximum, or of the cap")
NOTICE_S = Bound(0, bounds.DURATION_S.high, "s", "seconds between the notice and the start of a target")
RAMP = Bound(1e-3, bounds.CAP_W.high, "W/s", "watts by which the limit may rise in a second after a target")


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """One load target, as stated."""

    start_s: float
    end_s: float
    limit: float
    """In ``unit``."""
    unit: str = WATTS
    notice_s: float = 0.0
    """Seconds before the start at which the target becomes known; inf: from the beginning."""
    ramp_w_per_s: float = np.inf
    """Watts a second by which the limit may rise after the end; inf: at once."""
    correlation_id: str = ""
    """What its sender calls it: the id of an event, or of a contract's call."""
    domain: str = ""
    """The power domain that it limits (``model.domain_targets``); empty for the whole machine."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadTargets:
    """A table of load targets in order of their starts. Shapes (k,), k >= 0. Times on the clock of the jobs.

    What looks at several targets at once is for those of one limit, of the machine or a domain (``take``); only
    ``require_whole``, ``require_reachable`` and ``require_rise`` are for all.

    Raises: InputError with the row in ``where`` for a target that ends before it starts, overlaps the one before it of
    the same domain, has a limit outside its range or a unit that is none.
    """

    start_s: Floats
    end_s: Floats
    limit: Floats
    unit: tuple[str, ...]
    notice_s: Floats
    ramp_w_per_s: Floats
    correlation_id: tuple[str, ...]
    domain: tuple[str, ...]

    @classmethod
    def of(cls, *targets: LoadTarget) -> Self:
        """Return the table of some targets, sorted by their starts."""
        rows = sorted(targets, key=lambda target: target.start_s)
        columns: dict[str, list[Any]] = {f.name: [getattr(row, f.name) for row in rows] for f in fields(LoadTarget)}
        words = {"unit", "correlation_id", "domain"}
        table: dict[str, Any] = {k: tuple(v) if k in words else _floats(v) for k, v in columns.items()}
        return cls(**table)

    @classmethod
    def none(cls) -> Self:
        """Return the table without a target."""
        return cls.of()

    def __post_init__(self) -> None:
        for row in range(len(self)):
            _check(self, row)

    def __len__(self) -> int:
        return len(self.start_s)

    def row(self, row: int) -> LoadTarget:
        """Return one target."""
        values: dict[str, Any] = {f.name: getattr(self, f.name)[row] for f in fields(LoadTarget)}
        plain: dict[str, Any] = {k: v if isinstance(v, str) else float(v) for k, v in values.items()}
        return LoadTarget(**plain)

    def place(self, row: int) -> str:
        """Return how an error names a target."""
        name = self.correlation_id[row]
        return f"load target {row + 1}" + (f" ({name[:40]})" if name else "")

    def require_whole(self, where: str | Path) -> None:
        """Raise InputError for a target of a domain, where only the machine as a whole can be limited."""
        row = next((k for k, name in enumerate(self.domain) if name), None)
        if row is not None:
            hint = "leave domain empty: only runs limit single power domains"
            raise InputError(f"{self.place(row)} limits {self.domain[row]!r}", where=where, hint=hint)

    @property
    def of_machine(self) -> NDArray[np.int64]:
        """Return the rows of targets of the whole machine."""
        return np.flatnonzero([not name for name in self.domain])

    @property
    def announced_s(self) -> Floats:
        """Return when each target becomes known. Shape (k,)."""
        return self.start_s - self.notice_s

    def take(self, index: NDArray[Any] | slice) -> LoadTargets:
        """Return the rows of ``index``, in that order, which must be rising."""
        return LoadTargets.of(*(self.row(int(row)) for row in np.arange(len(self))[index]))

    def known_at(self, now_s: float) -> LoadTargets:
        """Return the targets that have been announced by an instant and are not over."""
        return self.take((self.announced_s <= now_s) & (self.end_s > now_s))

    def in_force(self, now_s: float) -> int:
        """Return the row of the target in force at an instant, -1 for none."""
        row = int(self.begun_at(np.array([now_s]))[0])
        return row if row >= 0 and now_s < self.end_s[row] else -1

    def in_force_at(self, time_s: Floats) -> NDArray[np.bool_]:
        """Return whether a target is in force at each time. Shape as ``time_s``."""
        if not len(self):
            return np.zeros(len(time_s), np.bool_)
        row = self.begun_at(time_s)
        return np.asarray((row >= 0) & (time_s < self.end_s[row]), np.bool_)

    def begun_at(self, time_s: Floats) -> NDArray[np.int64]:
        """Return the row of the latest target that has begun at each time, -1 for none. Shape as ``time_s``."""
        return np.searchsorted(self.start_s, time_s, side="right") - 1

    def watts(self, machine: Machine, cap: Steps) -> Floats:
        """Return the limit of each target in watts of the machine's cap scope. Shape (k,).

        Raises: MachineError for a percentage of maxima that are not stated, or of a cap where there is none.
        """
        unit = np.array(self.unit, object)
        base = np.full(len(self), 100.0)
        if (unit == OF_MAXIMUM).any():
            most = machine.scope_max_w()
            if most is None:
                raise MachineError(
                    "a load target in per cent needs the maximum watts of each node",
                    where=machine.name,
                    hint="state max_w of every partition, or give the target in watts",
                )
            base[unit == OF_MAXIMUM] = most
        if (unit == OF_CAP).any():
            base[unit == OF_CAP] = cap.at(self.start_s[unit == OF_CAP])
            if not np.isfinite(base).all():
                raise MachineError(
                    "a load target is a share of the cap, and none is in force at its start",
                    where=machine.name,
                    hint="give a cap, or the target in watts",
                )
        return np.asarray(self.limit * base / 100.0, np.float64)

    def in_watts(self, machine: Machine, cap: Steps) -> LoadTargets:
        """Return the same targets with every limit in watts. Raises: MachineError as ``watts`` and ``require_rise``."""
        self.require_rise(machine, cap)
        return replace(self, limit=self.watts(machine, cap), unit=(WATTS,) * len(self))

    def require_reachable(self, machine: Machine, cap: Steps) -> None:
        """Raise MachineError for a target of the machine below what it draws idle in the scope of its cap."""
        rows, idle = self.of_machine, machine.scope_idle_w()
        watts = self.take(rows).watts(machine, cap)
        low = watts < idle
        if low.any():
            k = int(np.argmax(low))
            raise MachineError(
                f"{watts[k]:,.15g} W is below the {idle:,.15g} W that {machine.name} draws idle",
                where=self.place(int(rows[k])),
                hint="raise the target; what nodes save that are switched off counts against a target, not for it",
            )

    def require_rise(self, machine: Machine, cap: Steps) -> None:
        """Raise MachineError for a target of the machine whose ramp has neither a cap nor a maximum to rise to."""
        if machine.scope_max_w() is not None:
            return
        for row in self.of_machine[np.isfinite(self.ramp_w_per_s[self.of_machine])]:
            if not np.isfinite(cap.value[int(rows_at(cap.time_s, self.end_s[row])) :]).all():
                raise MachineError(
                    f"a ramp without a cap rises to the maximum of {machine.name}, which states none",
                    where=self.place(int(row)),
                    hint="state max_w of every partition, give a cap, or leave ramp_w_per_s out",
                )


def _check(targets: LoadTargets, row: int) -> None:
    """Raise InputError for a row that no target can have."""
    target, where = targets.row(row), targets.place(row)
    bounds.TIME_S.require(target.start_s, "start_s", where=where)
    bounds.TIME_S.require(target.end_s, "end_s", where=where)
    if target.end_s <= target.start_s:
        raise InputError(
            f"ends at {target.end_s:.15g} s, not after its start at {target.start_s:.15g} s",
            where=where,
            hint="end_s is an instant on the clock of start_s, not a duration",
        )
    if target.unit not in UNITS:
        raise InputError(f"unit {target.unit!r} of a load target", where=where, hint=f"write {', '.join(UNITS)}")
    (bounds.CAP_W if target.unit == WATTS else PERCENT).require(target.limit, "limit", where=where)
    if target.notice_s != np.inf:
        NOTICE_S.require(target.notice_s, "notice_s", where=where)
    if target.ramp_w_per_s != np.inf:
        RAMP.require(target.ramp_w_per_s, "ramp_w_per_s", where=where)
    before = next((k for k in reversed(range(row)) if targets.domain[k] == target.domain), -1)
    if before >= 0 and target.start_s < targets.end_s[before]:
        raise InputError(
            f"starts at {target.start_s:.15g} s, before the one of {targets.start_s[before]:.15g} s ends",
            where=where,
            hint="targets must not overlap: send one for each stretch of time",
        )


def _floats(values: ArrayLike) -> Floats:
    """Return a column of numbers."""
    return np.asarray(values, np.float64)
