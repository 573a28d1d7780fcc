"""What a run writes down is explained in quantities.csv: no name without unit, range and meaning."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.metrics import Metrics, metrics
from wattqueue.model.quantities import quantity
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


def figures(cap_w: float) -> Metrics:
    rng = np.random.default_rng(3)
    jobs = Jobs.build(np.arange(60) * 30.0, rng.integers(1, 6, 60), rng.integers(60, 2_000, 60))
    run = simulate(jobs, plain_machine(8, 100.0, 300.0), load_policy("easy"), cap=Cap.constant(cap_w))
    return metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)


@pytest.mark.parametrize("cap_w", [np.inf, 1_900.0])
def test_every_metric_is_explained_and_within_its_range(cap_w: float) -> None:
    found = figures(cap_w)
    assert "wait_s_mean" in found
    for name, value in found.items():
        q = quantity(name)
        assert q.meaning
        if value is not None:
            assert q.range is not None
            assert value in q.range
