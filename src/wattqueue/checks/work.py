"""Is the work done? A run with a part in its place runs the jobs that EASY runs, and passes nobody for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.checks.common import fail
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import State
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Simulation, simulate

EQUAL_JOBS = 60
"""Jobs of the queue in which nobody may be passed."""
AT_ONCE, ARRIVING = 4, 8
"""So many of them run side by side, and so many arrive while one runs: twice the work that the machine can do."""
MOST_PASSED = EQUAL_JOBS // 2
"""Later jobs, equal in everything, that may start before one: a pass that starts in queue order needs 0."""


def expect_done(part: object, run: Simulation, same: Simulation) -> None:
    """Check that every job ended that ends in ``same``: the same world, under a policy that is sound.

    Both have gone to their end. Raises: PolicyError.
    """
    left = _ended(same) & ~_ended(run)
    if left.any():
        fail(
            part,
            f"{int(left.sum())} of {len(left)} jobs never end, which do under EASY (job {np.argmax(left) + 1} is one)",
            "start what fits once the machine is idle, resume what was suspended, wake what was stopped",
        )


def _ended(run: Simulation) -> NDArray[np.bool_]:
    """Return which jobs have ended. Shape (n,)."""
    return np.asarray((run.log.state == State.COMPLETED) | (run.log.state == State.KILLED), np.bool_)


def expect_nobody_passed(part: Any, machine: Machine) -> None:
    """Check that a pass starts the first of many equal jobs before most others. Raises: PolicyError."""
    jobs = equal_jobs(machine)
    policy = replace(load_policy("easy", estimator=Alike()), backfill=part)
    start_s = np.nan_to_num(simulate(jobs, machine, policy).schedule.start_s, nan=np.inf)
    later = [int((start_s[row + 1 :] < start_s[row]).sum()) for row in range(len(jobs))]
    if max(later) > MOST_PASSED:
        fail(
            part,
            f"job {np.argmax(later) + 1} of {len(jobs)} equal ones waits while {max(later)} later ones start",
            "start what is first in view.queue, where it fits",
        )


def equal_jobs(machine: Machine) -> Jobs:
    """Return jobs that differ in nothing but their submission, and more of them than the machine can run at once."""
    part = machine.partitions[0]
    n, run_s = EQUAL_JOBS, 3_600.0
    return Jobs.build(
        np.arange(n) * run_s / ARRIVING,
        np.full(n, max(1, part.units // AT_ONCE)),
        np.full(n, run_s),
        walltime_s=np.full(n, 2 * run_s),
        partition=[part.name] * n,
        user=["user1"] * n,
        app=["app1"] * n,
    )


class Alike:
    """An estimator to which all jobs are equal."""

    asked: Asked = "once"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return one row for all jobs: a watt above the idle machine."""
        idle_w = np.array([machine.partitions[p].idle_w for p in machine.option_partition])
        return Prediction(idle_w[np.newaxis] + 1.0, np.ones((1, len(idle_w))), np.zeros(len(jobs), np.int32))
