"""The bound on what running jobs may draw, which every write passes (SEMANTICS rule 15, docs/adr/0019).

A licence is a number. What counts for the bound of a job is w:

- its licence, where nothing says that it may draw more: it is the maximum of its nodes, or the watts with which the
  row's estimator started it;
- its licence, and a lower one that it is given, where limits in force that were read back, or a row's promise, bound
  what jobs draw together (``HeldWatts.follows``);
- else, where its licence was lowered to what was measured, the licence with which it started (``start_w``).

The *uncovered* watts are the sum of what w is above the licences. The resource manager starts jobs by licences alone,
also while the controller is away, so the bound

    sum of w over running jobs and jobs under way  <=  pool + accepted overshoot

holds for whatever it starts if the licences that are open, and the uncovered watts, sum to no more than the pool and
the overshoot. Two functions keep that: ``licences.lower_licences`` decides in each round how far licences may be
lowered, and which of them have to be raised again; ``WattBound`` is asked before each write, and refuses one that would
break the bound.

A write that can only reduce what jobs may draw, or what the resource manager may start, is never refused. So what comes
from a cap that fell is reported, and not refused: nothing starts until the sum is within the bound again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from wattqueue.live.cluster import (
    ChangeJob,
    ContinueJob,
    Job,
    JobKey,
    Pool,
    ReleaseJob,
    SetPool,
    StopJob,
    Write,
)

ABOVE = "jobs could draw more than the pool and the accepted overshoot"
"""Why a write is refused."""


class AcceptedOvershoot(NamedTuple):
    """Watts by which a site accepts that jobs may exceed the cap: a figure, or a share of the cap in force."""

    watts: float = 0.0
    share: float = 0.0

    def of(self, cap_w: float) -> float:
        """Return it in watts; 0 without a cap."""
        return self.watts + self.share * cap_w if math.isfinite(cap_w) else 0.0

    def __str__(self) -> str:
        """Return it as a person writes it."""
        return f"{self.watts:,.0f} W" if self.watts else f"{100.0 * self.share:g} % of the cap"


NO_OVERSHOOT = AcceptedOvershoot()


class HeldWatts(NamedTuple):
    """What one job holds."""

    counted_w: int
    """Its licence, as far as the resource manager counts it: 0 for a job without one, and for a suspended one."""
    bound_w: int
    """What counts for the bound: w."""
    resumes_w: int | None = None
    """What counts once it goes on, of a job that stands still; None for any other."""
    follows: bool = False
    """Whether its licence counts as it is, also a lower one: limits in force, or a promise, bound what it draws."""

    @property
    def uncovered_w(self) -> int:
        """Return by how much it may exceed its licence."""
        return max(0, self.bound_w - self.counted_w)

    def resumed(self) -> HeldWatts:
        """Return what it holds once it goes on."""
        return HeldWatts(self.counted_w, max(self.counted_w, self.resumes_w or 0))


class WattBound:
    """What the jobs of a snapshot hold, write after write; ``refusal`` is asked before each write, ``note`` told after.

    Jobs that wait hold nothing. A job that is released holds its watts from then on, whether it runs or not.
    """

    def __init__(
        self,
        limit_w: float,
        open_w: int,
        rows: Mapping[JobKey, Job],
        held: Callable[[], dict[JobKey, HeldWatts]],
        other_w: int = 0,
    ) -> None:
        """Begin with a snapshot.

        ``limit_w``: pool and accepted overshoot, inf for no bound. ``open_w``: licences that the resource manager
        leaves open to jobs. ``held`` returns what running jobs and jobs under way hold; it is called once, at the
        first write.
        ``other_w``: watts that the resource manager counts for jobs that are not shown.
        """
        self.limit_w, self.open_w, self.rows = limit_w, open_w, rows
        self._load, self._other_w = held, other_w
        self._given: dict[JobKey, int] = {}
        """Watts that waiting jobs were given since the snapshot."""
        self._sums_w = (other_w, 0)
        """Sum of w, and of the uncovered watts, of ``held``."""

    @classmethod
    def none(cls) -> WattBound:
        """Return a bound that refuses nothing."""
        return cls(math.inf, 0, {}, dict)

    @cached_property
    def held(self) -> dict[JobKey, HeldWatts]:
        """Return what each job holds."""
        held = self._load()
        self._sums_w = (
            sum([one.bound_w for one in held.values()]) + self._other_w,
            sum([one.uncovered_w for one in held.values()]),
        )
        return held

    @property
    def sum_w(self) -> int:
        """Return the sum of w."""
        return self._sums_w[0] if "held" in self.__dict__ or self.held else self._other_w

    @property
    def uncovered_w(self) -> int:
        """Return by how much jobs may exceed their licences."""
        return self._sums_w[1] if "held" in self.__dict__ or self.held else 0

    def refusal(self, write: Write) -> str:
        """Return why a write is not carried out; empty where it may be."""
        match write:
            case SetPool():
                exceeds = write.open_w > self.open_w and write.open_w + self.uncovered_w > self.limit_w
            case ReleaseJob():
                exceeds = (watts := self._started_w(write)) > 0 and self.sum_w + watts > self.limit_w
            case ContinueJob():
                exceeds = self._resumes_above(write)
            case ChangeJob():
                exceeds = self._uncovers(write)
            case _:
                exceeds = False
        return ABOVE if exceeds else ""

    def note(self, write: Write, error: str) -> None:
        """Take over a write that was tried. One that failed may have been carried out, so it frees nothing."""
        key, held = write.key, self.held
        match write:
            case SetPool():
                self.open_w = max(self.open_w, write.open_w) if error else write.open_w
            case ReleaseJob() if key is not None and key not in held:
                self._put(key, HeldWatts(self._started_w(write), self._started_w(write)))
            case StopJob() if key in held and not error:
                one = held[key]
                self._put(key, HeldWatts(one.counted_w, one.counted_w, max(one.bound_w, one.resumes_w or 0)))
            case ContinueJob() if key in held and held[key].resumes_w is not None:
                self._put(key, held[key].resumed())
            case ChangeJob() if key is not None and write.fields.watts is not None:
                self._changed(key, max(write.fields.watts, 0), failed=bool(error))
            case _:
                pass

    def _changed(self, key: JobKey, watts: int, *, failed: bool) -> None:
        """Take over a job's new watts."""
        before = self.held.get(key)
        if before is None:
            self._given[key] = max(watts, self._given.get(key, 0)) if failed else watts
        elif failed:
            new = before._replace(counted_w=min(before.counted_w, watts), bound_w=max(before.bound_w, watts))
            self._put(key, new)
        elif before.resumes_w is not None:
            self._put(key, HeldWatts(watts, watts, max(before.resumes_w, watts)))
        else:
            self._put(
                key, HeldWatts(watts, watts if before.follows else max(before.bound_w, watts), None, before.follows)
            )

    def _put(self, key: JobKey, new: HeldWatts) -> None:
        """Replace what a job holds."""
        old = self.held.get(key, HeldWatts(0, 0))
        self.held[key] = new
        total_w, uncovered_w = self._sums_w
        self._sums_w = (total_w + new.bound_w - old.bound_w, uncovered_w + new.uncovered_w - old.uncovered_w)

    def _uncovers(self, write: ChangeJob) -> bool:
        """Whether a lower licence would leave more uncovered than the bound allows."""
        held, watts = self.held.get(write.key) if write.key is not None else None, write.fields.watts
        if held is None or watts is None or held.resumes_w is not None or held.follows or watts >= held.counted_w:
            return False
        more_w = held._replace(counted_w=max(watts, 0)).uncovered_w - held.uncovered_w
        return more_w > 0 and self.open_w + self.uncovered_w + more_w > self.limit_w

    def _resumes_above(self, write: ContinueJob) -> bool:
        """Whether a job that stands still would draw too much if it went on."""
        held = self.held.get(write.key) if write.key is not None else None
        if held is None or held.resumes_w is None:
            return False
        new = held.resumed()
        more_w = new.uncovered_w - held.uncovered_w
        above = self.sum_w + new.bound_w - held.bound_w > self.limit_w
        return above or (more_w > 0 and self.open_w + self.uncovered_w + more_w > self.limit_w)

    def _started_w(self, write: ReleaseJob) -> int:
        """Return the watts with which a release starts a job, of all its components where it has several."""
        row = self.rows.get(write.key) if write.key is not None else None
        rows = [row] if row is not None else []
        if row is not None and row.whole:
            rows = [one for one in self.rows.values() if one.whole == row.whole and one.pending]
        return sum([self._given.get(one.key, max(one.watts, 0)) for one in rows])


def limit_w(room_w: float, overshoot_w: float) -> float:
    """Return the watts that jobs may draw together; inf for no bound."""
    return math.floor(room_w + 1e-6) + overshoot_w if math.isfinite(room_w) else math.inf


def open_w(pool: Pool | None) -> int:
    """Return the licences that are open to jobs; 0 where there is no pool."""
    return 0 if pool is None else pool.open_w
