"""Show a finished run at an instant as the page shows a controller: the same sections, of the files of the run.

What a run records says when each job waited and ran, on which units, with which watts. Not in it is why a job waited
at an instant: it counts as waiting for watts where free units of the partition in which it started later would have
been enough for it and the watts left under the limit would not. *Counted* are the watts that the ledger counted for a
job when it started, and the true watts of units without jobs; *measured* are the true watts of the simulation. The
order of the queue is that of submission. Times are those of the trace.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.live.files.liveness import Liveness
from wattqueue.live.files.page_files import DAY_S, MOST, ROW_S, domain_rows, finite, kilowatts, limits_ahead, whole
from wattqueue.live.reports.waits import Waits
from wattqueue.model.domain_load import added_w, domain_loads
from wattqueue.model.jobs import Floats
from wattqueue.model.schedule import REASONS, PowerSeries, Reason, State
from wattqueue.model.steps import Steps, rows_at
from wattqueue.page.feed import Feed
from wattqueue.page.live import SHOWN_EVENTS, Sections, Shown

SHOWN_FEEDS = 8
"""Instants that are kept as they were shown last."""


@dataclass
class RecordedRun:
    """A finished run, shown at any instant."""

    record: RunRecord
    name: str
    """What the page calls it."""
    _feeds: dict[float, Feed] = field(default_factory=dict)

    def feed(self, asked: str | None) -> Feed:
        """Return what is shown at an instant, in seconds on the clock of the trace; by default of the highest power.

        An instant outside the run is its begin or end, one that is no number the default.
        """
        at_s = self.instant(asked)
        if at_s not in self._feeds:
            while len(self._feeds) >= SHOWN_FEEDS:
                self._feeds.pop(next(iter(self._feeds)), None)
            sections = self.sections(at_s)
            self._feeds[at_s] = Feed(lambda _now_s: sections, at_s=at_s)
        return self._feeds[at_s]

    def instant(self, asked: str | None) -> float:
        """Return the second that is meant."""
        try:
            at_s = float(asked) if asked is not None else math.nan
        except ValueError:
            at_s = math.nan
        begin_s, end_s = self.span
        if math.isnan(at_s):
            at_s = float(self.counted.time_s[int(np.argmax(self.counted.value))])
        return float(math.floor(min(max(at_s, begin_s), end_s)))

    @cached_property
    def span(self) -> tuple[float, float]:
        """Begin and end of the run, in whole seconds."""
        first, power = float(self.record.jobs.submit_s.min()), self.record.power.time_s
        return math.floor(first), math.ceil(max(first, float(power[-1]) if len(power) else first))

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Rows of the jobs that stood in the queue, in the order of their submission."""
        rows: NDArray[np.int64] = np.argsort(self.record.jobs.submit_s, kind="stable")
        return np.asarray(rows[self.record.schedule.state[rows] != State.REJECTED], np.int64)

    @cached_property
    def power(self) -> PowerSeries:
        """True watts, from the begin of the run on."""
        return self.record.power.from_start(self.record.machine, self.span[0])

    @cached_property
    def idle_w(self) -> Floats:
        """Idle watts of the units of each job. Shape (n,)."""
        idle = np.array([*(p.idle_w for p in self.record.machine.partitions), 0.0])
        return np.asarray(idle[self.partition] * self.record.jobs.nodes, np.float64)

    @cached_property
    def partition(self) -> NDArray[np.int64]:
        """Partition in which each job started, -1 for none. Shape (n,)."""
        return np.append(self.record.machine.option_partition, -1)[self.record.schedule.option].astype(np.int64)

    @cached_property
    def job_w(self) -> Floats:
        """Watts that each job counts of the cap, 0 where that is not known. Shape (n,)."""
        watts = np.nan_to_num(self.record.schedule.predicted_w)
        return np.maximum(watts - self.idle_w, 0.0) if self.record.machine.cap_scope == "dynamic" else watts

    @cached_property
    def counted(self) -> Steps:
        """Watts that counted of the cap."""
        run, power = self.record, self.power
        ran = run.schedule.start_s < run.schedule.end_s  # False for a job without a start
        time_s = np.concatenate(([-np.inf], run.schedule.start_s[ran], run.schedule.end_s[ran]))
        jobs = Steps.of_changes(time_s, np.concatenate(([0.0], self.job_w[ran], -self.job_w[ran])))
        others = power.other_w if run.machine.cap_scope == "machine" else 0.0
        return Steps(power.time_s, np.maximum(jobs.at(power.time_s), 0.0) + others)

    @cached_property
    def drawn(self) -> Steps:
        """True watts in the scope of the cap."""
        return Steps(self.power.time_s, self.power.scope_w(self.record.machine.cap_scope))

    @cached_property
    def domains(self) -> dict[str, Steps]:
        """Counted input of each power domain that has a limit; of none where the watts of a job are not known."""
        run = self.record
        watts = np.where(run.schedule.ran, run.schedule.predicted_w / run.jobs.nodes, 0.0)
        if not run.machine.supply or np.isnan(watts).any():
            return {}
        least_w = np.array([one.least_limit_w for one in run.machine.supply_tree.domains])
        ran_s, net = (run.schedule.start_s, run.schedule.end_s), added_w(run.machine, run.schedule, watts)
        loads = domain_loads(run.machine, run.schedule, least_w)
        return {load.name: load.input_w(self.span[0], ran_s, net) for load in loads}

    # -- one instant ------------------------------------------------------------------------------
    def sections(self, at_s: float) -> tuple[Sections, Sections]:
        """Return what is shown at an instant, without names and with them."""
        moment = _Moment(self, at_s)
        rows, about = moment.history(), {"begin_s": self.span[0], "end_s": self.span[1], "at_s": at_s}
        found = Liveness("works", "")
        made = []
        for names in (False, True):
            shown = _ShownRun(moment.status(), moment.page(), moment.waits(), rows, at_s, names, {}, time.gmtime)
            made.append({"run": about, **shown.sections(found, moment.events(), self._about())})
        return made[0], made[1]

    def _about(self) -> list[list[str]]:
        """Return what a reader should know about the run, as the health of a controller is shown."""
        run, work = self.record, self.record.work
        rows = [["workload", "ok", f"{len(run.jobs):,} {run.jobs.origin} jobs"]]
        never = int((~run.schedule.ran).sum())
        rows.append(["jobs that ran", "warn" if never else "ok", work.text or "all of them"])
        killed = int((run.schedule.state == State.KILLED).sum())
        if killed:
            rows.append(["time limits", "warn", f"{killed:,} jobs were ended at theirs"])
        if len(run.unusable):
            rows.append(["rows of the trace", "warn", f"{len(run.unusable):,} could not be used"])
        return rows


class _ShownRun(Shown):
    """The sections of a run: jobs that never ran stand behind those that did."""

    def others(self) -> Iterator[tuple[str, str, Callable[[], str]]]:
        """Yield the jobs that wait and never ran."""
        for name, reason in self.page["never"]:
            yield name, reason, str


class _Moment:
    """A run at one instant."""

    def __init__(self, shown: RecordedRun, at_s: float) -> None:
        self.shown, self.run, self.at_s = shown, shown.record, at_s
        jobs, schedule = self.run.jobs, self.run.schedule
        rows = shown.order
        rows = rows[jobs.submit_s[rows] <= at_s]
        start_s = schedule.start_s[rows]
        later = start_s > at_s
        self.waiting = rows[later]
        self.never = rows[np.isnan(start_s)]
        self.running = rows[~later & (schedule.end_s[rows] > at_s)]
        self.partition = shown.partition
        self.busy = self._busy()

    def _busy(self) -> list[int]:
        """Return the units of each partition that jobs hold."""
        edges = self.run.machine.unit_start
        units = np.bincount(
            self.partition[self.running], self.run.jobs.nodes[self.running], len(self.run.machine.partitions)
        )
        return [min(int(n), int(m)) for n, m in zip(units, np.diff(edges), strict=True)]

    def status(self) -> Mapping[str, Any]:
        """Return the figures of the instant, as a controller's status has them."""
        limit_w, cap = self.run.cap.in_force_w(self.at_s), self.run.cap.alone.in_force_w(self.at_s)
        counted_w, drawn_w = (float(s.at(np.array([self.at_s]))[0]) for s in (self.shown.counted, self.shown.drawn))
        jobs = {"waiting": len(self.waiting) + len(self.never), "running": len(self.running)}
        return {
            "mode": "simulation", "cap_w": finite(cap), "limit_w": finite(limit_w), "counted_w": counted_w,
            "measured_w": drawn_w, "jobs": jobs, "time_s": self.at_s,
        }  # fmt: skip

    def page(self) -> dict[str, Any]:
        """Return names and nodes, as a controller writes them for its page."""
        machine, schedule = self.run.machine, self.run.schedule
        nodes = {}
        for p, busy, units in zip(machine.partitions, self.busy, np.diff(machine.unit_start).tolist(), strict=True):
            nodes[p.name] = {"allocated": busy, "idle or off": units - busy}
        task = self.run.facts.get("task")
        policy = task.get("policy", "") if isinstance(task, Mapping) else ""
        running = [
            [name, nodes, self._partition(row), round(float(self.shown.job_w[row])),
             int(schedule.start_s[row]), math.ceil(schedule.end_s[row]), user, app]
            for row in self.running[:MOST].tolist() for name, nodes, _, _, user, app in [self._named(row)]
        ]  # fmt: skip
        never = [
            (str(self.run.jobs.job_id[row]), f"never ran: {REASONS[Reason(int(schedule.reason[row]))] or 'no reason'}")
            for row in self.never.tolist()
        ]
        waiting = [self._named(row) for row in (*self.waiting[:MOST].tolist(), *self.never[:MOST].tolist())]
        return {
            "machine": self.shown.name, "policy": str(policy), "nodes": nodes, "waiting": waiting, "running": running,
            "ahead": limits_ahead(self.run.cap, self.at_s), "domains": self._domains(), "never": never,
            "time_s": self.at_s,
        }  # fmt: skip

    def _domains(self) -> list[list[Any]]:
        """Return the power domains as a controller writes them."""
        limits = {one.name: one.limit_at(self.at_s) for one in self.run.machine.supply}
        at = np.array([self.at_s])
        watts = {name: (float(steps.at(at)[0]), limits[name]) for name, steps in self.shown.domains.items()}
        return domain_rows(
            {name: pair for name, pair in watts.items() if math.isfinite(pair[1])}, self.run.machine.supply
        )

    def _named(self, row: int) -> list[Any]:
        """Return name, units, partition, submission, user and application of a job."""
        jobs = self.run.jobs
        user, app = (
            column.names[int(column.codes[row])] if column.codes[row] >= 0 else "" for column in (jobs.user, jobs.app)
        )
        submit_s = int(jobs.submit_s[row])
        return [str(jobs.job_id[row]), int(jobs.nodes[row]), self._partition(row), submit_s, user, app[:80]]

    def _partition(self, row: int) -> str:
        p = int(self.partition[row])
        return self.run.machine.partitions[p].name if p >= 0 else ""

    def waits(self) -> Waits:
        """Return the jobs that wait and start later, with their starts."""
        schedule, jobs, rows = self.run.schedule, self.run.jobs, self.waiting
        sizes = np.diff(self.run.machine.unit_start)
        free = [int(n) - busy for n, busy in zip(sizes, self.busy, strict=True)]
        status = self.status()
        limit_w = status["limit_w"]
        free_w = None if limit_w is None else max(0, int(limit_w - status["counted_w"]))
        nodes, partition = jobs.nodes[rows].astype(np.int64), self.partition[rows]
        more = self._added_w(rows)
        enough = nodes <= np.append(free, 0)[partition]
        short = np.zeros(len(rows), np.bool_) if free_w is None else enough & (more > free_w)
        order = np.argsort(schedule.end_s[self.running], kind="stable")
        ends = self.running[order]
        return Waits(
            jobs.job_id[rows].astype(np.str_).tolist(), nodes, partition,
            self.shown.job_w[rows].astype(np.int64), schedule.start_s[rows], short, free, free_w,
            (schedule.end_s[ends], np.cumsum(self._added_w(ends)).astype(np.int64)),
        )  # fmt: skip

    def _added_w(self, rows: NDArray[np.int64]) -> Floats:
        """Return what each job adds to what its units count without it: idle watts, where the cap is the machine's."""
        idle = self.shown.idle_w[rows] if self.run.machine.cap_scope == "machine" else 0.0
        return np.asarray(np.maximum(self.shown.job_w[rows] - idle, 0.0), np.float64)

    def history(self) -> list[list[int | None]]:
        """Return a row a minute of the last day: the greatest watts and the lowest limits in it."""
        first = max(self.shown.span[0], self.at_s - DAY_S)
        minutes = np.arange(math.ceil(first / ROW_S), math.floor(self.at_s / ROW_S) + 1)
        edges = np.asarray(minutes * ROW_S, np.float64)
        if len(edges) < 2:
            return []
        caps = [c.minima(edges) for c in (self.run.cap.alone, self.run.cap)]
        watts = [s.maxima(edges) for s in (self.shown.counted, self.shown.drawn)]
        columns = (edges[:-1].tolist(), *(c.tolist() for c in (*caps, *watts)))
        return [[int(t), *map(whole, figures), None, None] for t, *figures in zip(*columns, strict=True)]

    def events(self) -> list[list[Any]]:
        """Return the last changes of the cap and of load targets before the instant, the newest first."""
        cap = self.run.cap
        last = int(rows_at(cap.time_s, self.at_s)) + 1
        rows = range(max(0, last - SHOWN_EVENTS - 1), last)
        found = []
        for before, row in pairwise(rows):
            alone, limit = cap.alone.cap_w, cap.cap_w
            kind, values = ("cap", alone) if alone[before] != alone[row] else ("target", limit)
            if values[before] != values[row]:
                texts = (kilowatts(float(values[k])) for k in (before, row))
                what = "the cap" if kind == "cap" else "the limit of load targets"
                found.append([int(cap.time_s[row]), kind, f"{what} changes from {' to '.join(texts)}"])
        return found[::-1]
