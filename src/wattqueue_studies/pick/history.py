"""The history of a queue up to an instant, what it would do under a row, and what it did.

A forecast knows what a scheduler knows: run times and watts are the mean of the user's last two jobs that have ended,
the run time at most the limit (Tsafrir, Etsion and Feitelson 2007); jobs to come are those of an earlier week's day.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import State
from wattqueue.model.signals import Cap
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents

Rows = NDArray[np.int64]
DAY_S, WEEK_DAYS = 86_400.0, 7
WEEKS = 4
"""Weeks back from which a day of arrivals is drawn."""
MEMORY_S = 60 * DAY_S
"""How far back parts that learn are taught."""
STARTED = (codes.RUNNING_NOW, State.COMPLETED, State.KILLED)
"""States of jobs that have started, in a run."""
BEFORE_S = 1.0
"""Seconds before the instant at which jobs that run already are started again."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Jobs to come: rows of the table, and seconds from the instant to their submissions. Shapes (k,)."""

    rows: Rows
    after_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class QueueHistory:
    """Jobs with the starts and ends that they had, inf for none; the two arrays are written by ``advance``.

    Attributes:
        jobs: Jobs in order of submission.
        machine: The machine.
        cap: The cap.
        start_s: Starts. Shape (n,).
        end_s: Ends. Shape (n,).
    """

    jobs: Jobs
    machine: Machine
    cap: Cap
    start_s: Floats
    end_s: Floats

    @classmethod
    def empty(cls, jobs: Jobs, machine: Machine, cap: Cap) -> QueueHistory:
        """Return the history before the first job."""
        return cls(jobs, machine, cap, np.full(len(jobs), np.inf), np.full(len(jobs), np.inf))

    def running(self, now_s: float) -> Rows:
        """Return the jobs that run."""
        return np.flatnonzero((self.start_s < now_s) & (self.end_s > now_s))

    def waiting(self, now_s: float) -> Rows:
        """Return the jobs that wait."""
        return np.flatnonzero((self.jobs.submit_s < now_s) & (self.start_s >= now_s))

    def drawn(self, now_s: float, rng: np.random.Generator) -> Arrivals:
        """Return the arrivals of the same weekday some weeks before; none where the history is shorter."""
        first = float(self.jobs.submit_s[0])
        weeks = min(WEEKS, int((now_s - first) // (WEEK_DAYS * DAY_S)))
        if not weeks:
            return Arrivals(np.zeros(0, np.int64), np.zeros(0))
        begin_s = now_s - WEEK_DAYS * DAY_S * int(rng.integers(1, weeks + 1))
        low, high = np.searchsorted(self.jobs.submit_s, [begin_s, begin_s + DAY_S])
        rows = np.arange(low, high)
        return Arrivals(rows, self.jobs.submit_s[rows] - begin_s)

    def predicted(self, now_s: float) -> Jobs:
        """Return the table with run times and watts as they are known at an instant: outcomes of ended jobs only."""
        jobs = self.jobs
        run, watts = jobs.walltime_s.copy(), np.full(len(jobs), np.nan)
        power = jobs.mean_power_w if jobs.mean_power_w is not None else watts
        ended = np.flatnonzero((self.end_s <= now_s) & (self.end_s > now_s - MEMORY_S))
        run[ended], watts[ended] = np.minimum(jobs.runtime_s, jobs.walltime_s)[ended], power[ended]
        last: dict[int, list[int]] = defaultdict(list)
        for row in ended[np.argsort(self.end_s[ended], kind="stable")].tolist():
            last[int(jobs.user.codes[row])].append(row)
        for row in (*self.running(now_s).tolist(), *self.waiting(now_s).tolist()):
            two = last.get(int(jobs.user.codes[row]), [])[-2:]
            if two:  # of one alone, the mean of it with itself
                run[row] = min((run[two[0]] + run[two[-1]]) / 2.0, run[row])
                watts[row] = (watts[two[0]] + watts[two[-1]]) / 2.0
        return replace(jobs, runtime_s=run, mean_power_w=None if np.isnan(watts).all() else watts, max_power_w=None)

    def forecast(self, policy: Policy, now_s: float, known: Jobs, past: Past, arrivals: Arrivals) -> float:
        """Return the mean wait, in seconds of the next day, of the jobs that wait and those to come.

        ``known`` and ``past`` are what ``predicted`` and ``past`` return for the instant.

        A job that has not started by its end has waited until then. Raises: PolicyError for a row of parts that are
        not compiled.
        """
        waiting = self.waiting(now_s)
        rows = np.concatenate((waiting, arrivals.rows))
        if not len(rows):
            return 0.0
        submit = np.concatenate((np.full(len(waiting), now_s), now_s + arrivals.after_s))
        start = self._starts(policy, now_s, known, past, rows, submit)
        return float((np.minimum(start, now_s + DAY_S) - submit).mean())

    def advance(self, policy: Policy, now_s: float) -> float:
        """Let the queue go on for a day under a row, and return the seconds that jobs waited in it."""
        until_s = now_s + DAY_S
        rows = np.flatnonzero((self.jobs.submit_s < until_s) & (self.start_s >= now_s))
        if not len(rows):
            return 0.0
        submit = np.maximum(self.jobs.submit_s[rows], now_s)
        start = self._starts(policy, now_s, self.jobs, self.past(now_s), rows, submit)
        work = np.minimum(self.jobs.runtime_s, self.jobs.walltime_s)[rows]
        begun = start < until_s
        self.start_s[rows[begun]], self.end_s[rows[begun]] = start[begun], (start + work)[begun]
        return float((np.minimum(start, until_s) - submit).sum())

    def _starts(
        self, policy: Policy, now_s: float, table: Jobs, past: Past, rows: Rows, submit_s: Floats
    ) -> Floats:  # fmt: skip
        """Return when jobs start within the next day, inf for later ones. Shape as ``rows``."""
        run = self.running(now_s)
        both, k = table.take(np.concatenate((run, rows))), len(run)
        submit = np.concatenate((np.full(k, now_s - BEFORE_S), submit_s))
        work, limit = both.runtime_s.copy(), both.walltime_s.copy()
        for column in (work, limit):
            column[:k] = np.maximum(column[:k] - (now_s - self.start_s[run]), BEFORE_S) + BEFORE_S
        jobs = replace(both, submit_s=submit, runtime_s=work, walltime_s=limit, start_s=None)
        simulation = Simulation(jobs, self.machine, policy, self.cap, None, NodeEvents.none(), past=past)
        if simulation.session.needs.controls or simulation.session.needs.pass_in_python:
            raise PolicyError("has parts that are not compiled", where=policy.name)
        simulation.go(until_s=now_s + DAY_S)
        log = simulation.log
        found: Floats = np.where(np.isin(log.state, STARTED), log.start, np.inf)[k:]
        return found

    def past(self, now_s: float) -> Past:
        """Return the jobs that ended lately, which parts that learn are taught."""
        rows = np.flatnonzero(self.end_s > now_s - MEMORY_S)
        return Past.before(self.jobs.take(rows), self.end_s[rows], now_s)
