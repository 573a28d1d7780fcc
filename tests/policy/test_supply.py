"""Domains that can bind: which they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.policy.supply import can_bind, greatest_unit_w
from wattqueue.sim.engine import simulate

PART = Partition("batch", 4, idle_w=100.0, max_w=500.0)


def machine(limit_w: float, part: Partition = PART) -> Machine:
    supply = (
        SupplyDomain(name="rack[1]", parent="feed", nodes="batch[1-2]", limit_w=limit_w),
        SupplyDomain(name="rest", parent="feed", nodes="batch[3-4]"),
        SupplyDomain(name="feed", limit_w=2100.0, efficiency=0.96),
    )
    return Machine("m", (part,), supply=supply)


def predicted(watts: float) -> Prediction:
    return Prediction(np.array([[watts], [np.inf], [np.nan]]), np.ones((1, 1)))


@pytest.mark.parametrize(
    ("limit_w", "binds"), [(1000.0, [False, False, False]), (999.0, [True, False, False])]
)  # fmt: skip
def test_a_limit_at_the_greatest_watts_of_its_units_never_binds(limit_w: float, binds: list[bool]) -> None:
    made = machine(limit_w)
    assert can_bind(made, greatest_unit_w(made, predicted(300.0), learns=False)).tolist() == binds


def test_losses_and_predictions_above_the_maximum_count() -> None:
    made = machine(1000.0)
    found = can_bind(made, greatest_unit_w(made, predicted(505.0), learns=False)).tolist()
    assert found == [True, False, True]  # 4 x 505 W through 0.96 are 2104.2 W


def test_boots_count_and_what_no_maximum_bounds_binds() -> None:
    booting = machine(1000.0, replace(PART, boot_s=10.0, boot_w=501.0))
    assert can_bind(booting, greatest_unit_w(booting, predicted(1.0), learns=False)).tolist() == [True, False, False]
    unknown = machine(1000.0, replace(PART, max_w=None))
    assert can_bind(unknown, greatest_unit_w(unknown, predicted(1.0), learns=True)).tolist() == [True, False, True]
    assert can_bind(unknown, greatest_unit_w(unknown, predicted(1.0), learns=False)).tolist() == [False, False, False]


def four(watts: float = 400.0) -> Jobs:
    zeros, power = np.zeros(4), np.full(4, watts)
    return Jobs.build(
        np.arange(4) * 40.0, np.full(4, 2), zeros + 10, walltime_s=zeros + 20, mean_power_w=power, max_power_w=power
    )


def test_a_series_that_begins_late_is_refused() -> None:
    late = replace(machine(1000.0).supply[2], limit_w=None, limit_s=(5.0,), limits_w=(2200.0,))
    made = replace(machine(1000.0), supply=(*machine(1000.0).supply[:2], late))
    with pytest.raises(MachineError, match="begins at 5 s") as caught:
        simulate(four(), made, load_policy("easy"))
    assert "feed" in str(caught.value)


def test_a_learned_prediction_above_the_stated_maximum_ends_the_run() -> None:
    policy = load_policy("easy", estimator="history-mean")
    simulate(four(500.0), machine(1000.0), policy)
    with pytest.raises(PolicyError, match="predicted 501 W of a unit of batch"):
        simulate(four(501.0), machine(1000.0), load_policy("easy", estimator="history-mean"))


def test_a_run_refuses_domains_that_can_bind_and_takes_others() -> None:
    jobs = four()
    policy = load_policy("easy")
    with pytest.raises(PolicyError, match="1 power domains can hold jobs back") as caught:
        simulate(jobs, machine(900.0), policy)
    assert "rack[1]" in str(caught.value)
    slack = simulate(jobs, machine(1000.0), policy)
    plain = simulate(jobs, replace(machine(1000.0), supply=()), policy)
    assert slack.schedule.unit_low.tolist() == plain.schedule.unit_low.tolist()
