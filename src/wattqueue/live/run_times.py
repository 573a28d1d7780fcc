"""Planned times of a controller's jobs: predicted once for each, corrected while it runs, learned when it has ended.

A prediction decides which job may start beside a reservation, and nothing else: a job's limit in Slurm is what its user
requested, nodes and licences are free when it is released, and the pool holds the cap however long it runs. A plan that
was wrong therefore delays a reservation, and breaks no limit.

Rule 3 of docs/semantics.md, with rounds in the place of events. What a running job is planned for now follows from its
prediction and from how long it has run (``policy.run_times.planned_after``), so nothing has to be kept for it. How long
a job ran is seen from round to round: it ended between the last round that showed it running and the one that does not.
A job is left out of what is learned where that is too inexact (``KNOWN_WITHIN``), where it was requeued, and where it
was suspended.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wattqueue.live.cluster import JobKey
from wattqueue.live.requests import JobRequest, request_table
from wattqueue.live.table import LiveJobs, Slots, Stage
from wattqueue.live.world import NO_LIMIT_S
from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import FinishedRuns
from wattqueue.policy.run_times import planned_after
from wattqueue.policy.session import Session

KNOWN_WITHIN = 0.1
"""Share of its run time within which the end of a job must be known, or within a minute."""
MINUTE_S = 60.0


class EndedRun(NamedTuple):
    """A job that ended, and how long it ran."""

    request: JobRequest
    end_s: float
    """Seconds since the epoch."""
    run_s: float
    """At reference speed."""


class RunningRecord(NamedTuple):
    """A job that ran in the last round."""

    request: JobRequest
    start_s: float
    seen_s: float
    """Time of the last round that showed it running."""
    factor: float
    """Run time at its option over that at reference speed."""
    paused: bool
    """Whether it was ever seen to stand still."""
    end_s: float
    """When it was first seen completing; inf before. Its nodes are held until its epilog has ended."""


@dataclass
class RunTimes:
    """Predictions by job, and the ended jobs that they are learned from.

    As with watts, a batch of new jobs is asked about on a table of its own, taught from the beginning, so that the
    answers depend on the database alone, and a job keeps the prediction of its submission.
    """

    session: Session
    machine: Machine
    most: int = 20_000
    """Ended jobs that are remembered: bounds the memory, and the time to learn them again."""
    ended: deque[EndedRun] = field(default_factory=deque)
    _seconds: dict[JobKey, float] = field(default_factory=dict)
    _running: dict[JobKey, RunningRecord] = field(default_factory=dict)
    _keep_most: int = 10_000

    def learn(self, runs: Iterable[EndedRun]) -> None:
        """Remember jobs that ended. They influence predictions from the next new job on."""
        self.ended.extend(runs)
        while len(self.ended) > self.most:
            self.ended.popleft()

    def predict(self, jobs: Sequence[JobRequest], now_s: float, known: Container[JobKey] = ()) -> list[float]:
        """Predict jobs that have no prediction yet; return their planned seconds.

        ``known`` holds the keys of all jobs that still exist; predictions of others may be dropped.
        """
        if not jobs:
            return []
        before = sorted(self.ended, key=lambda one: one.end_s)
        count = len(before)
        table = request_table([*(one.request for one in before), *jobs])
        finished = FinishedRuns(
            np.arange(count, dtype=np.int32),
            np.array([one.end_s for one in before], np.float64),
            np.array([one.run_s for one in before], np.float64),
        )
        rows = np.arange(count, len(table), dtype=np.int32)
        planned: list[float] = self.session.plan_batch(table, self.machine, finished, rows, now_s).tolist()
        if len(self._seconds) > self._keep_most:
            self._seconds = {key: value for key, value in self._seconds.items() if key in known}
            self._keep_most = 2 * len(self._seconds) + 10_000
        self._seconds |= {job.key: seconds for job, seconds in zip(jobs, planned, strict=True)}
        return planned

    def waiting_s(self, keys: Sequence[JobKey], walltime_s: Floats) -> Floats:
        """Return the planned seconds of jobs that wait, at most their walltimes, which users may change. Shape (n,)."""
        return np.minimum([self._seconds.get(key, math.inf) for key in keys], walltime_s)

    def expect(self, jobs: LiveJobs, slots: Slots, factors: Floats, now_s: float) -> Floats:
        """Set the expected ends of jobs that hold units; return the planned seconds behind these at reference speed.

        Their ends so far are those of their limits. What was added to a limit (a slower option, a pause, an
        administrator) is added to the plan. ``factors``: run time over that at reference speed, (b,). A job that is
        stopped keeps its end.
        """
        rows, requests = jobs.row[slots], jobs.request[slots]
        requested = [math.inf if request is None else request.walltime_s for request in requests]
        walltime_s = np.minimum(np.array(requested, np.float64), NO_LIMIT_S)
        predicted_s = np.minimum([self._seconds.get(row.key, math.inf) for row in rows], walltime_s)
        limit_s, end_s = walltime_s * np.maximum(1.0, factors), jobs.end_s[slots]
        ran_s = np.maximum(now_s - (end_s - limit_s), 0.0) / factors
        planned_s = planned_after(predicted_s, walltime_s, ran_s, self.session.needs.correction)
        sooner = np.where(planned_s < walltime_s, limit_s - planned_s * factors, 0.0)
        jobs.end_s[slots] = end_s - np.where(np.isfinite(end_s), sooner, 0.0)
        return planned_s

    def saw(self, jobs: LiveJobs, slots: Slots, factors: Floats, now_s: float) -> None:
        """Note the jobs that run in this round."""
        for slot, factor in zip(slots.tolist(), factors.tolist(), strict=True):
            row, request, found = jobs.row[slot], jobs.request[slot], jobs.stage[slot]
            if not row.active or request is None:
                continue
            before = self._running.get(row.key)
            still = found in (Stage.PARKED, Stage.SUSPENDED)
            end_s = math.inf if before is None else before.end_s
            if found == Stage.COMPLETING:
                end_s = min(end_s, now_s)
            paused = still or (before is not None and before.paused)
            self._running[row.key] = RunningRecord(request, row.start_s, now_s, factor, paused, end_s)

    def gone(self, running: Container[JobKey], there: Collection[str], now_s: float) -> list[EndedRun]:
        """Return the jobs that have ended since the last round, in order of their ends, as far as these are known.

        ``running`` are the jobs that run now; ``there`` the names of all jobs of the cluster: a job whose name is still
        there was requeued, or completes.
        """
        found = []
        for key in [key for key in self._running if key not in running]:
            seen = self._running.pop(key)
            end_s = min(now_s, seen.end_s)
            ran_s = end_s - seen.start_s
            exact = end_s - seen.seen_s <= max(MINUTE_S, KNOWN_WITHIN * ran_s)
            if key.name not in there and exact and not seen.paused and ran_s > 0:
                run_s = min(ran_s / seen.factor, seen.request.walltime_s)
                found.append(EndedRun(seen.request, end_s, run_s))
        return sorted(found, key=lambda one: (one.end_s, one.request.key))
