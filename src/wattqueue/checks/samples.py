"""Small generated workloads and a machine on which parts are checked.

They contain the cases on which parts fail in practice: jobs without user, application or watts, 0 W from a failed
meter, submissions at one instant, ends at the instant of a submission, two partitions with different options.
"""

from __future__ import annotations

import numpy as np

from wattqueue.checks.common import Check, Make
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor

SPAN_S = 3 * 7 * 86_400.0
"""Span of the submissions: three weeks, so that weekly training happens."""
IDLE_W, MAX_W = 240.0, 2100.0
"""Watts of a node."""
SENSOR = PowerSensor(600.0, 3_600.0)
"""Power sensors of nodes, for parts that read them: 500 readings in three weeks."""


MORE_JOBS = (2_001, 6_000)
"""Least and most jobs of a drawn sample."""


def drawn_jobs(seed: int) -> tuple[Jobs, str]:
    """Return sample jobs of a size that is drawn by ``seed``, and the words that make them again.

    ``wattqueue check`` hands in another seed each time: a part may be sound on the sample that it knows.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(MORE_JOBS[0], MORE_JOBS[1], endpoint=True))
    return sample_jobs(n, seed), f"sample_jobs({n}, {seed})"


def among_more_jobs(check: Check, seed: int) -> Check:
    """Return a check that is made on thousands of jobs; a failure names the words that make them again."""

    def run(make: Make, _jobs: Jobs, machine: Machine) -> None:
        """Check the same on thousands of jobs: a part may be honest on the small sample alone."""
        more, drawn = drawn_jobs(seed)
        try:
            check(make, more, machine)
        except PolicyError as error:
            raise PolicyError(f"{error.what}, among {drawn}", where=error.where, hint=error.hint) from error

    return run


def sample_machine() -> Machine:
    """Return a machine of two partitions, one with two frequencies: three options."""
    return Machine(
        "checks",
        (
            Partition("batch", 64, frequencies_hz=(3.0e9, 2.0e9), idle_w=IDLE_W, max_w=MAX_W),
            Partition("debug", 4, idle_w=IDLE_W, max_w=MAX_W),
        ),
        source="generated for checks",
        sensor=SENSOR,
    )


def sample_jobs(n: int = 240, seed: int = 1) -> Jobs:
    """Return generated jobs over three weeks: several users and applications, some rows without a user or watts.

    Args:
        n: Number of jobs; estimators need some hundreds, parts that are called in a run some tens.
        seed: Seed of all draws.

    Watts of one node lie between idle and maximum, but for a few rows with 0 W (a meter that failed).
    Some jobs are submitted at the same instant; some end at the instant of a submission.
    """
    rng = np.random.default_rng(seed)
    user, app = rng.integers(0, 7, n), rng.integers(0, 4, n)
    submit = np.floor(rng.uniform(0.0, SPAN_S, n) / 600.0) * 600.0
    runtime = np.ceil(rng.exponential(4_000.0, n) / 600.0 + 0.1) * 600.0
    nodes = rng.integers(1, 17, n)
    mean = np.clip(420.0 + 130.0 * user + 60.0 * app + 8.0 * nodes + rng.normal(0.0, 30.0, n), 300.0, 1_800.0)
    mean[rng.random(n) < 0.06] = np.nan
    mean[rng.random(n) < 0.03] = 0.0
    return Jobs.build(
        np.sort(submit),
        nodes,
        runtime,
        walltime_s=runtime * rng.uniform(1.0, 4.0, n),
        user=[f"user{k}" if k else "" for k in user],
        app=[f"app{k}" if k else "" for k in app],
        partition=["batch" if k else "debug" for k in rng.integers(0, 5, n)],
        mean_power_w=mean,
        max_power_w=np.minimum(mean * 1.15, MAX_W),
        start_s=np.sort(submit) + np.floor(rng.exponential(3.0, n)) * 600.0,
        origin="generated",
        extra={"user_power_w": rng.uniform(400.0, 1_500.0, n)},
    )
