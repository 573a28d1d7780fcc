"""Warm windows of a campaign: parts of a trace that begin with a queue and a past, saved where every worker sees them.

Which jobs wait and which have ended at an instant is computed by a replay of the whole trace without a cap
(``workload/windows.py``). The past of all windows is one table, the trace in order of ends: the past of a window is a
prefix of it, found by a search, so thirty windows store the trace once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.source import WorkloadSource
from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.workload.cycle import DAY_S
from wattqueue.workload.windows import TraceWindow, busy_begins, cut

REPLAY = "easy"
"""The row by which a trace is replayed, without a cap."""


@dataclass(frozen=True, slots=True)
class Before:
    """The jobs of a trace that had ended by an instant, by names in Shared."""

    ended: str
    """Jobs of the trace in order of their ends."""
    ends: str
    """Those ends."""
    begin_s: float
    """The instant; jobs that end at it count as ended."""

    def past(self, shared: Shared) -> Past:
        """Return the past, its columns mapped into memory."""
        return _past(shared, self)


@lru_cache(2)
def _past(shared: Shared, before: Before) -> Past:
    """Return the prefix of the trace that had ended; cached, as all policies run on one window in turn."""
    ends = shared.arrays(before.ends)["end_s"]
    rows = slice(int(np.searchsorted(ends, before.begin_s, side="right")))
    return Past(shared.jobs(before.ended).take(rows), ends[rows])


@dataclass(frozen=True, slots=True)
class Trace:
    """A long trace in a shared folder, cut into windows; names refer to Shared."""

    ended: str
    """Jobs of the trace in order of their ends."""
    ends: str
    """Those ends."""
    windows: tuple[str, ...]
    """Jobs of each window."""
    begins_s: tuple[float, ...]
    """Beginning of each window, seconds on the trace's clock."""

    def before(self, number: int) -> Before:
        """Return what had ended at the beginning of a window."""
        return Before(self.ended, self.ends, self.begins_s[number])

    def opened(self, shared: Shared, number: int) -> TraceWindow:
        """Open a window with its past, its columns mapped into memory."""
        return TraceWindow(self.begins_s[number], shared.jobs(self.windows[number]), self.before(number).past(shared))


def put_windows(shared: Shared, jobs: Jobs, end_s: Floats, begins_s: Sequence[float], days: float) -> Trace:
    """Cut windows and save them with the trace's past.

    Args:
        shared: Where to save.
        jobs: The trace.
        end_s: Ends in the trace's own replay, NaN for never. Shape (n,).
        begins_s: Beginnings on the trace's clock.
        days: Length of each window.

    Power profiles of the past are dropped: estimators learn from mean and maximum, and profiles are large.

    Raises: InputError for a window that reaches past the trace's end; OutputError.
    """
    order = np.argsort(end_s, kind="stable")
    ended = replace(jobs, profiles=None).take(order)
    return Trace(
        shared.put_jobs(ended),
        shared.put_arrays({"end_s": end_s[order]}),
        tuple(shared.put_jobs(cut(jobs, end_s, begin, days).jobs) for begin in begins_s),
        tuple(begins_s),
    )


@dataclass(frozen=True, slots=True)
class Draw:
    """How windows are found: busy full hours drawn at random, or given beginnings."""

    length_s: float
    """Length of a window."""
    count: int
    """Number of windows."""
    begins_s: tuple[float, ...] = ()
    """Given beginnings after the first submission; empty: drawn."""
    seed: int = 1
    """Seed of the draw."""
    warm_s: float = 0.0
    """Earliest drawn beginning after the first submission."""
    apart_s: float = 0.0
    """Least distance of two drawn beginnings."""
    busy: float = 1.0
    """Units that jobs in the system request at a drawn beginning, as a multiple of the machine's, at least."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A workload of a campaign as a cell: replayed on a machine, cut into windows, saved.

    Jobs that could never run on the machine are left out, and counted with the unusable rows.
    """

    source: WorkloadSource
    """The trace."""
    machine: Machine
    """Machine of the replay."""
    draw: Draw
    """How windows are found."""
    physics: Physics | None = None
    """What files say of the truth."""

    def __str__(self) -> str:
        """Return the trace's name, for errors."""
        return str(self.source)

    @property
    def workloads(self) -> int:
        """Return how many workloads it gives."""
        return self.draw.count

    def identity(self) -> Mapping[str, object]:
        """Return all inputs."""
        physics = None if self.physics is None else self.physics.digest()
        return {
            "source": self.source.identity(),
            "machine": asdict(self.machine),
            "draw": asdict(self.draw),
            "physics": physics,
        }

    def perform(self, shared: Shared) -> Row:
        """Replay the trace, save its windows and return a row with their names.

        Raises: InputError for a trace that is too short or never busy.
        """
        jobs, unusable = self.source.read()
        schedule = simulate(jobs, self.machine, load_policy(REPLAY), actual=self.physics).schedule
        never = int((~schedule.ran).sum())
        jobs, end_s = jobs.take(schedule.ran), schedule.end_s[schedule.ran]
        if not len(jobs):
            raise InputError(
                f"none of its jobs can run on {self.machine.name}", where=self.source.trace, hint="take a wider machine"
            )
        first_s = float(jobs.submit_s.min())
        trace = put_windows(shared, jobs, end_s, self._begins(jobs, end_s, first_s), self.draw.length_s / DAY_S)
        return {
            "table": " ".join(trace.windows),
            "ended": trace.ended,
            "ends": trace.ends,
            "begins_s": list(trace.begins_s),
            "since_s": [begin - first_s for begin in trace.begins_s],
            "rows_unusable": len(unusable) + never,
        }

    def _begins(self, jobs: Jobs, end_s: Floats, first_s: float) -> list[float]:
        """Return the beginnings on the trace's clock. Raises: InputError as ``perform``."""
        draw = self.draw
        span, earliest = float(jobs.submit_s.max()) - first_s, max(draw.begins_s, default=draw.warm_s)
        if earliest + draw.length_s > span:
            raise InputError(
                f"its submissions span {span / DAY_S:.4g} d, a window of {draw.length_s / DAY_S:.4g} d that begins at"
                f" {earliest / DAY_S:.4g} d needs {(earliest + draw.length_s) / DAY_S:.4g} d",
                where=self.source.trace,
                hint="shorten the windows, begin earlier, or take a longer trace",
            )
        if draw.begins_s:
            return [first_s + begin for begin in draw.begins_s]
        rng = np.random.default_rng(draw.seed)
        found: list[float] = busy_begins(
            rng, jobs, end_s, count=draw.count, nodes=draw.busy * self.machine.units, days=draw.length_s / DAY_S,
            warm_days=draw.warm_s / DAY_S, apart_days=draw.apart_s / DAY_S,
        ).tolist()  # fmt: skip
        return found


@dataclass(frozen=True, slots=True)
class WindowWorkload:
    """A workload as runs take it."""

    table: str
    """Name of its jobs in Shared."""
    called: str = ""
    """Addition to the trace's name in the table."""
    before: Before | None = None
    """Jobs that had ended at its beginning; None for a cold one."""


def saved_names(row: Row) -> list[str]:
    """Return all names in Shared that a source's row holds."""
    return [name for key in ("table", "ended", "ends") for name in str(row.get(key, "")).split()]


def workloads_of(row: Row, length: str) -> list[WindowWorkload]:
    """Return the workloads that a source's row names; ``length`` is that of the windows as the file writes it."""
    tables, begins, since = str(row["table"]).split(), row.get("begins_s"), row.get("since_s")
    if not isinstance(begins, list) or not isinstance(since, list):
        return [WindowWorkload(table) for table in tables]
    trace = Trace(str(row["ended"]), str(row["ends"]), tuple(tables), tuple(begins))
    called = [f" [{s / DAY_S:.6g}d, {length}, warm]" for s in since]
    return [WindowWorkload(table, called[i], trace.before(i)) for i, table in enumerate(tables)]
