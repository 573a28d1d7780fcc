"""Warm windows: pieces of a trace that begin with a queue and a past, laid where every worker sees them.

What waits and what has ended at an instant is told by a replay of the whole trace (workload/windows.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.source import Source
from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.past import Past
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.workload.cycle import DAY_S
from wattqueue.workload.windows import Window, busy_begins, cut

REPLAY = "easy"
"""The row by which a trace is replayed, without a cap."""


@dataclass(frozen=True, slots=True)
class Before:
    """What had ended by ``begin_s``: names in Shared of a trace's jobs in order of their ends, and of those ends."""

    ended: str
    ends: str
    begin_s: float

    def past(self, shared: Shared) -> Past:
        """The past, its columns mapped into memory."""
        return _past(shared, self)


@lru_cache(2)
def _past(shared: Shared, before: Before) -> Past:
    ends = shared.arrays(before.ends)["end_s"]
    rows = slice(int(np.searchsorted(ends, before.begin_s, side="right")))
    return Past(shared.jobs(before.ended).take(rows), ends[rows])


@dataclass(frozen=True, slots=True)
class Trace:
    """A long trace in a shared folder: its jobs in order of their ends, those ends, and its windows' jobs."""

    ended: str
    ends: str
    windows: tuple[str, ...]
    begins_s: tuple[float, ...]

    def before(self, number: int) -> Before:
        """What had ended at the begin of a window."""
        return Before(self.ended, self.ends, self.begins_s[number])

    def opened(self, shared: Shared, number: int) -> Window:
        """A window with its past, its columns mapped into memory."""
        return Window(self.begins_s[number], shared.jobs(self.windows[number]), self.before(number).past(shared))


def put_windows(shared: Shared, jobs: Jobs, end_s: Floats, begins_s: Sequence[float], days: float) -> Trace:
    """Cut windows of ``days`` days and save them. ``end_s`` (n,): ends in the trace's own replay, NaN for never.

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
    """How windows are found: ``count`` busy full hours by ``seed``, or the ``begins_s`` that are given.

    All times but ``length_s`` and ``apart_s`` count from the first submission. ``busy``: how many times the
    machine's units jobs in the system ask for; ``warm_s``: the earliest begin.
    """

    length_s: float
    count: int
    begins_s: tuple[float, ...] = ()
    seed: int = 1
    warm_s: float = 0.0
    apart_s: float = 0.0
    busy: float = 1.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """A workload of a campaign as a cell: replayed on ``machine``, cut into windows, shared.

    Jobs that could never run on the machine are left out, and counted with the unusable rows.
    """

    source: Source
    machine: Machine
    draw: Draw

    def __str__(self) -> str:
        return str(self.source)

    @property
    def pieces(self) -> int:
        """How many workloads it gives."""
        return self.draw.count

    def identity(self) -> Mapping[str, object]:
        """All that goes in."""
        return {"source": self.source.identity(), "machine": asdict(self.machine), "draw": asdict(self.draw)}

    def perform(self, shared: Shared) -> Row:
        """Save the windows; the row names them. Raises: InputError for a trace that is too short or never busy."""
        jobs, unusable = self.source.read()
        schedule = simulate(jobs, self.machine, load_policy(REPLAY)).schedule
        never = int((~schedule.ran).sum())
        jobs, end_s = jobs.take(schedule.ran), schedule.end_s[schedule.ran]
        if not len(jobs):
            raise InputError(f"no job of it can run on {self.machine.name}", where=self.source.trace)
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
        draw = self.draw
        span, earliest = float(jobs.submit_s.max()) - first_s, max(draw.begins_s, default=draw.warm_s)
        if earliest + draw.length_s > span:
            raise InputError(
                f"its submissions span {span / DAY_S:.4g} d, a window of {draw.length_s / DAY_S:.4g} d that begins at"
                f" {earliest / DAY_S:.4g} d needs {(earliest + draw.length_s) / DAY_S:.4g} d",
                where=self.source.trace,
                mend="shorten the windows, begin earlier, or take a longer trace",
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
class Piece:
    """A workload that runs take: its jobs' name in Shared, what it is called beyond its trace, what had ended."""

    table: str
    called: str = ""
    before: Before | None = None


def saved_names(row: Row) -> list[str]:
    """All that a source's row names in Shared."""
    return [name for key in ("table", "ended", "ends") for name in str(row.get(key, "")).split()]


def pieces_of(row: Row, length: str) -> list[Piece]:
    """The workloads that a source's row names; ``length`` is the windows' as the file writes it."""
    tables, begins, since = str(row["table"]).split(), row.get("begins_s"), row.get("since_s")
    if not isinstance(begins, list) or not isinstance(since, list):
        return [Piece(table) for table in tables]
    trace = Trace(str(row["ended"]), str(row["ends"]), tuple(tables), tuple(begins))
    called = [f" [{s / DAY_S:.6g}d, {length}, warm]" for s in since]
    return [Piece(table, called[i], trace.before(i)) for i, table in enumerate(tables)]
