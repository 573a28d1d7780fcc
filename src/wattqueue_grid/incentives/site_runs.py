"""Simulations of a site with and without load targets, for design and offer: a policy of its own for each run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wattqueue.model.comparability import Gate, WorkDone, gate
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Progress, Run, simulate
from wattqueue_grid.meter import MeterData, expect_intervals


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedSite:
    """A workload on a machine under a policy and a cap."""

    jobs: Jobs
    machine: Machine
    policy: str
    """Name of a policy; a new object is made for every run, because estimators learn."""
    cap: Cap = field(default_factory=Cap.none)
    epoch_s: float = 0.0
    """Unix time of the clock's 0."""
    estimator: str | None = None
    """What predicts watts, instead of the policy's own estimator."""
    finished: Callable[[], None] | None = None
    """Called after each run."""

    def telling(self, tell: Progress | None, total: int) -> SimulatedSite:
        """Return the site that tells (runs done, ``total``) after each run; the site itself without ``tell``."""
        if tell is None:
            return self
        done = itertools.count(1)
        return replace(self, finished=lambda: tell(min(next(done), total), total))

    def run(self, targets: LoadTargets | None = None, jobs: Jobs | None = None) -> Run:
        """Simulate, with load targets or without; ``jobs`` replaces the workload, with other consent for example."""
        policy = load_policy(self.policy, machine=self.machine, estimator=self.estimator)
        run = simulate(self.jobs if jobs is None else jobs, self.machine, policy, cap=self.cap, targets=targets)
        if self.finished is not None:
            self.finished()
        return run


def same_work(run: Run, plain: Run) -> Gate:
    """Return whether a run with load targets may be compared with the one without (rule 18 of docs/semantics.md)."""
    without, with_targets = (WorkDone.of(r.jobs, r.schedule) for r in (plain, run))
    return gate(without, with_targets, ("without targets", "with targets"))


def metered(runs: Sequence[Run], site: SimulatedSite, interval_s: int) -> list[MeterData]:
    """Return the power of some runs by interval over the time that all of them are billed for, labelled simulated.

    It lasts from the first submission to the last end of any run, in whole intervals; a run that ended before idles.

    Raises: InputError for more intervals than a meter may have: a time of submission is wrong.
    """
    first = min(float(run.power.time_s[0]) for run in runs) + site.epoch_s
    last = max(float(run.power.time_s[-1]) for run in runs) + site.epoch_s
    begin, end = int(first // interval_s), int(-(-last // interval_s))
    expect_intervals(end - begin, "workload")
    edges = np.arange(begin, end + 1, dtype=np.float64) * interval_s - site.epoch_s
    label = Labels(np.zeros(end - begin, np.int32), ("simulated",))
    return [
        MeterData(begin * interval_s, interval_s, np.round(mean_watts(run, edges)), label, "simulation") for run in runs
    ]


def mean_watts(run: Run, edge_s: Floats) -> Floats:
    """Return the mean watts of a run between edges; before its begin and after its end the machine idles."""
    power = run.power.from_start(run.machine, float(edge_s[0]))
    time, watts = power.time_s, power.machine_w
    if len(time) and edge_s[-1] > time[-1]:
        time, watts = np.append(time, edge_s[-1]), np.append(watts, run.machine.idle_w)
    return Steps(time, watts).means(edge_s)
