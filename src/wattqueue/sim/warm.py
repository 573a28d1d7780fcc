"""Compile kernels once: ``python -m wattqueue.sim.warm``, those of runs; ``... warm decisions``, those of snapshots.

Compiling takes some 20 s of one core and fills the cache on disk. Campaigns and CI do it before several processes want
the kernels at the same time, which would each compile them. Kernels of decisions on snapshots serve the live controller
and orders that re-rank: campaigns of stock policies do without.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Order
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
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


class _AsQueued:
    """Re-ranks the queue at every pass, so that each pass is one on a snapshot."""

    def __init__(self, order: Order) -> None:
        self.entries = order.entries

    def rerank(self, view: View) -> NDArray[np.float64]:
        """Return the order that the queue has."""
        return -np.arange(len(view.queue), dtype=np.float64)


def warm_decisions() -> None:
    """Run a policy that decides on snapshots and reads the queue and what runs."""
    jobs, partitions = _few()
    easy = load_policy("easy")
    simulate(jobs, Machine("two", partitions), replace(easy, order=_AsQueued(easy.order)))


def _few() -> tuple[Jobs, tuple[Partition, ...]]:
    """Return some jobs with profiles, and two partitions."""
    submit = np.arange(FEW) * 10.0
    profiles = PowerProfiles.from_samples([[150.0, 250.0]] * FEW)
    mean = profiles.mean_power_w(np.full(FEW, 100.0))
    jobs = Jobs.build(submit, np.arange(FEW) % 4 + 1, np.full(FEW, 100.0), mean_power_w=mean, profiles=profiles)
    return jobs, tuple(Partition(name, 6, idle_w=50.0, max_w=300.0) for name in ("a", "b"))


if __name__ == "__main__":
    if sys.argv[1:] == ["decisions"]:
        warm_decisions()
    else:
        warm_up()
