"""Compile the kernels of runs once: ``python -m wattqueue.sim.warm``.

Compiling takes some 20 s of one core and fills the cache on disk. Campaigns do it before several processes want the
kernels at the same time, which would each compile them.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.sim.profiles import with_profiles

FEW = 40
POLICIES = ("fcfs", "first-fit", "easy", "conservative")
ESTIMATORS = ("maximum", "history-mean")
"""Together they call every kernel: no backfilling to plans, watts told once or online."""


def warm_up() -> None:
    """Run the stock policies on a few jobs, with and without a cap, on one and on two partitions.

    With profiles, too, so that the kernels of ``profile_power`` are compiled.
    """
    jobs, partitions = _few()
    machines = Machine("one", partitions[:1]), Machine("two", partitions)
    caps = None, Cap.constant(1500.0)
    for name, estimator, machine, cap in product(POLICIES, ESTIMATORS, machines, caps):
        run = simulate(jobs, machine, load_policy(name, estimator=estimator), cap=cap)
    with_profiles(run)


def _few() -> tuple[Jobs, tuple[Partition, ...]]:
    """Return some jobs with profiles, and two partitions."""
    submit = np.arange(FEW) * 10.0
    profiles = PowerProfiles.from_samples([[150.0, 250.0]] * FEW)
    mean = profiles.mean_power_w(np.full(FEW, 100.0))
    jobs = Jobs.build(submit, np.arange(FEW) % 4 + 1, np.full(FEW, 100.0), mean_power_w=mean, profiles=profiles)
    return jobs, tuple(Partition(name, 6, idle_w=50.0, max_w=300.0) for name in ("a", "b"))


if __name__ == "__main__":
    warm_up()
