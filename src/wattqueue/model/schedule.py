"""Results of a run: when and where each job ran, and the machine's power as a step series.

Both are plain columns, written to a run directory and read back by reports, so nothing here refers to the engine.

Why jobs never ran, in words, and how many for which reason: ``never_ran_reasons``, ``never_ran_text``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Ints
from wattqueue.model.machine import Machine


class State(IntEnum):
    """How a job ended. The numbers are stored in files: do not renumber."""

    NOT_STARTED = 0
    COMPLETED = 1
    KILLED = 2
    REJECTED = 3


class Reason(IntEnum):
    """Why a job never ran. ``model.schedule`` has the words for each; files hold the words."""

    NONE = 0
    TOO_WIDE = 1
    """Rejected: more units than a partition has (rule 4 of docs/semantics.md)."""
    TOO_MUCH_POWER = 2
    """Rejected: the machine's own figures exceed every cap to come (rule 4)."""
    LEDGER = 3
    """Its prediction with the margin of that job alone exceeds every cap to come."""
    NEVER_FITS = 4
    """Its predicted watts exceed every cap to come."""
    QUEUED = 5
    """Still in the queue at the end of the run."""
    SUSPENDED = 6
    """Suspended, and not resumed before the end of the run."""
    SUPPLY = 7
    """Its watts exceed what power domains carry at any time to come, where nothing else runs (rule 22)."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When and where each job ran: one row per job, in the order of the job table.

    Shapes: all (n,) but ``unit_low`` and ``unit_high`` (intervals,): job j held the units
    ``unit_low[k]..unit_high[k]`` (both included, numbered over the whole machine, partition by
    partition) for k in ``unit_start[j] .. unit_start[j] + unit_count[j] - 1``. Jobs mostly hold
    a few runs of neighbouring units, so intervals are far smaller than lists of units.
    """

    state: NDArray[np.int8]
    """A ``State``."""
    reason: NDArray[np.int8]
    """A ``Reason``; NONE for jobs that ran, and where a record states none."""
    start_s: Floats
    """Last start on the trace's clock, NaN where there was none."""
    end_s: Floats
    """End on the trace's clock, NaN where the job never ran."""
    option: NDArray[np.int16]
    """The (partition, frequency) that the job started with, -1 where it never started."""
    energy_j: Floats
    """True energy of the whole job, idle share included."""
    predicted_w: Floats
    """Watts that the ledger counted for the whole job when it started."""
    unit_start: NDArray[np.int64]
    """First interval of each job."""
    unit_count: NDArray[np.int32]
    """Number of intervals of each job."""
    unit_low: NDArray[np.int32]
    unit_high: NDArray[np.int32]
    parked_s: Floats | None = None
    """Seconds for which each job was suspended, part of its run time; None where none was."""
    margin_w: Floats | None = None
    """Watts that the ledger would keep free at least for a job of reason ``LEDGER`` alone, NaN for others; None where
    there is no such job, or no record of it."""

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Return which jobs ran to an end, killed ones included. Shape (n,)."""
        ended: NDArray[np.bool_] = (self.state == State.COMPLETED) | (self.state == State.KILLED)
        return ended

    def take(self, rows: NDArray[np.int64]) -> Schedule:
        """Return the schedule of some jobs, in the order of ``rows`` (k,)."""
        from wattqueue.model.codec import take

        return take(self, rows, "unit_low", "unit_high")


@dataclass(frozen=True, slots=True, eq=False)
class HeldUnits:
    """Units that jobs held: job ``job[k]`` (a row of the job table) held ``low[k]..high[k]``, both included.

    Shapes (m,).
    """

    job: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, schedule: Schedule) -> HeldUnits:
        """Return the intervals of a schedule, those of one job in sequence."""
        from wattqueue.model.ranges import ranges

        count = schedule.unit_count.astype(np.int64)
        job = np.repeat(np.arange(len(count), dtype=np.int32), count)
        where = ranges(schedule.unit_start, count)
        return cls(job, schedule.unit_low[where], schedule.unit_high[where])

    def groups(self, number: Ints, jobs: int) -> NDArray[np.int64]:
        """Return of how many groups of neighbouring units each job holds some. Shape (jobs,).

        ``number`` (U,): the group of each unit, rising by at most one from unit to unit.
        """
        low, high = number[self.low].astype(np.int64), number[self.high].astype(np.int64)
        same = np.zeros(len(low), np.int64)  # an interval begins in the group in which the one before it ended
        same[1:] = (self.job[1:] == self.job[:-1]) & (low[1:] == high[:-1])
        return np.bincount(self.job, high - low + 1 - same, jobs).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PowerSeries:
    """The machine's true power: a value holds from its time to the next. Shapes (k,).

    The last row is the end of the last job. True power is not floored at idle watts, unlike the ledger (rule 14).
    """

    time_s: Floats
    jobs_w: Floats
    """Watts of running jobs, idle share included."""
    other_w: Floats
    """Watts of all other units: idle, booting, shutting down or off."""
    busy_idle_w: Floats
    """Idle watts of the units that jobs hold: part of ``jobs_w``."""
    busy_units: NDArray[np.int32]
    """Units that jobs hold."""

    @property
    def machine_w(self) -> Floats:
        """Return the watts of every unit, busy or not. Shape (k,)."""
        return self.jobs_w + self.other_w

    def from_start(self, machine: Machine, begin_s: float) -> PowerSeries:
        """Return the series with a row of the idle machine at ``begin_s`` before it, where it begins later."""
        if len(self.time_s) and self.time_s[0] <= begin_s:
            return self
        first: tuple[float, ...] = (begin_s, 0.0, machine.idle_w, 0.0, 0)
        columns: tuple[NDArray[Any], ...] = (self.time_s, self.jobs_w, self.other_w, self.busy_idle_w, self.busy_units)
        return PowerSeries(*(np.insert(c, 0, v) for c, v in zip(columns, first, strict=True)))

    def scope_w(self, cap_scope: str) -> Floats:
        """Return the watts in the scope of a cap: machine, dynamic or jobs (rule 14 of docs/semantics.md)."""
        if cap_scope == "machine":
            return self.machine_w
        if cap_scope == "dynamic":
            return self.jobs_w - self.busy_idle_w
        return self.jobs_w


REASONS: dict[Reason, str] = {
    Reason.NONE: "",
    Reason.TOO_WIDE: "too wide",
    Reason.TOO_MUCH_POWER: "too much power",
    Reason.LEDGER: "cannot start under this ledger",
    Reason.NEVER_FITS: "never fits under the cap",
    Reason.QUEUED: "still queued at the end",
    Reason.SUSPENDED: "suspended, never resumed",
    Reason.SUPPLY: "never fits under its power domains",
}
"""``reason`` of a job in jobs.csv: one for each job that never ran, empty for all others."""
MARGIN = ": margin "
"""Stands between that reason and the watts of the margin, in jobs.csv and live: ``reason_of``."""
NOT_RECORDED = "reason not recorded"
"""Stands for a reason that a file of an earlier version, or a recording, does not state."""
REJECTED = (Reason.TOO_WIDE, Reason.TOO_MUCH_POWER)
"""Reasons of a rejection: the machine's own figures (rule 4 of docs/semantics.md)."""
ROW = "never_ran_reasons"
"""Column of tables with a row per run (``results.parquet``, ``whatif.csv``): the text of ``reasons_text``."""


def reason_of(reason: Reason, margin_w: float) -> str:
    """Return why a job never ran: ``cannot start under this ledger: margin 900 W``; NaN for a margin not known."""
    return REASONS[reason] + (f"{MARGIN}{margin_w:.0f} W" if reason == Reason.LEDGER and margin_w >= 0.0 else "")


def never_ran_reasons(schedule: Schedule, ran: NDArray[np.bool_] | None = None) -> dict[str, int]:
    """Return how many jobs never ran for each reason, the most frequent reason first; empty where all ran.

    ``ran`` says which jobs did, where another rule counts than that of the schedule. Shape (n,).
    """
    never = ~(schedule.ran if ran is None else ran)
    found = np.bincount(schedule.reason[never], minlength=len(Reason))
    counts = {REASONS[why] or NOT_RECORDED: int(found[why]) for why in Reason if found[why]}
    return dict(sorted(counts.items(), key=lambda entry: -entry[1]))


def reasons_text(reasons: Mapping[str, int]) -> str:
    """Return reasons with their numbers as one text: ``still queued at the end: 22,016; too wide: 1``."""
    return "; ".join(f"{why}: {count:,}" for why, count in reasons.items())


def reasons_of_text(text: str) -> dict[str, int]:
    """Return the numbers that ``reasons_text`` wrote."""
    pairs = (part.rpartition(": ") for part in text.split("; ") if part)
    return {why: int(count.replace(",", "")) for why, _, count in pairs}


def never_ran_text(jobs: int, never_ran: int, reasons: str) -> str:
    """Return ``22,016 of 28,481 jobs never ran (still queued at the end)``; empty where all jobs ran.

    ``reasons`` is the text of ``reasons_text``. The number of a single reason is that of the jobs, and left out.
    """
    if not never_ran:
        return ""
    why = reasons if ";" in reasons else reasons.rpartition(": ")[0] or reasons
    return f"{never_ran:,} of {jobs:,} jobs never ran{f' ({why})' if why else ''}"
