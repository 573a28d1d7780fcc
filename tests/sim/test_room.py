"""Buffers that fill up: each gets room when it needs some, and no other does."""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents


def test_room_for_intervals_is_no_room_for_the_plan() -> None:
    """Jobs on scattered units fill the interval log several times; the plan of some dozens stays as it was."""
    rng = np.random.default_rng(1)
    n = 3_000
    size, runtime = rng.integers(1, 40, n), rng.integers(10, 500, n).astype(float)
    submit = np.sort(rng.uniform(0, float((size * runtime).sum()) / 64, n)).round(3)
    jobs = Jobs.build(submit, size, runtime, walltime_s=2 * runtime)
    policy = load_policy("conservative")
    simulation = Simulation(jobs, plain_machine(64), policy, Cap.none(), None, NodeEvents.none())
    rows, plan = len(simulation.view.held.low), len(simulation.view.plan.time)
    simulation.go()
    assert len(simulation.view.held.low) > 1.3 * rows
    assert len(simulation.view.plan.time) == plan
