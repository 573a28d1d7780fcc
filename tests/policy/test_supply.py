"""Domains that can bind: which they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.model.supply_binding import can_bind
from wattqueue.parts.actions import Action, StopNode, WakeNode
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.capabilities import require_carried_out, resolve
from wattqueue.policy.policy import load_policy
from wattqueue.policy.round import ROUND
from wattqueue.policy.supply import greatest_unit_w
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.truth import NodeEvents

PART = Partition("batch", 4, idle_w=100.0, max_w=500.0)


def machine(limit_w: float, part: Partition = PART) -> Machine:
    supply = (
        SupplyDomain(name="rack[1]", parent="feed", nodes="batch[1-2]", limit_w=limit_w),
        SupplyDomain(name="rest", parent="feed", nodes="batch[3-4]"),
        SupplyDomain(name="feed", limit_w=2100.0, efficiency=0.96),
    )
    return Machine("m", (part,), supply=supply)


def with_sensor(limit_w: float) -> Machine:
    return replace(machine(limit_w), sensor=PowerSensor(sample_s=10.0, poll_s=10.0))


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
    with pytest.raises(MachineError, match="begins at 5 s"):  # commands and `pick` build simulations themselves
        Simulation(four(), made, load_policy("easy"), Cap.none(), None, NodeEvents.none())


def test_a_learned_prediction_above_the_stated_maximum_ends_the_run() -> None:
    policy = load_policy("easy", estimator="history-mean")
    simulate(four(500.0), machine(1000.0), policy)
    with pytest.raises(PolicyError, match="predicted 501 W of a unit of batch"):
        simulate(four(501.0), machine(1000.0), load_policy("easy", estimator="history-mean"))


class Reranked(Fcfs):
    """An order that Python computes: its pass runs on a snapshot."""

    def rerank(self, view: View) -> Floats:
        return -np.arange(len(view.queue), dtype=np.float64)


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"backfill": {"part": "easy", "ahead": "limits"}}, "a pass that looks ahead"),
        ({"ledger": "measured"}, "a ledger of measured watts"),
    ],
)
def test_a_snapshot_has_no_announced_limits_of_domains_and_no_figures_of_units(
    parts: dict[str, Any], what: str
) -> None:
    policy = replace(load_policy("easy", **parts), order=Reranked())
    with pytest.raises(
        PolicyError, match=rf"1 power domains can hold jobs back, .*: rerank\(\) beside {what}"
    ) as caught:
        simulate(four(), with_sensor(900.0), policy)
    assert "rack[1]" in str(caught.value)
    simulate(four(), with_sensor(1000.0), policy)
    simulate(four(), with_sensor(900.0), replace(load_policy("easy"), order=Reranked()))


@pytest.mark.parametrize(
    "parts",
    [
        {"backfill": "conservative"},
        {"backfill": {"part": "easy", "ahead": "limits"}},
        {"backfill": "announced-caps"},
        {"ledger": "chance"},
        {"ledger": {"part": "ramped"}},
        {"controls": ["idle-off"]},
    ],
)
def test_passes_ledgers_and_controls_run_under_domains_that_bind(parts: dict[str, Any]) -> None:
    run = simulate(four(), machine(900.0), load_policy("easy", **parts))
    assert run.schedule.ran.all()
    plain = simulate(four(), machine(1000.0), load_policy("easy", **parts))
    assert plain.schedule.unit_low.tolist() == [0, 0, 0, 0]
    assert run.schedule.unit_low.tolist() != [0, 0, 0, 0]  # the rack has no room for both units of a job


def test_a_refusal_names_the_domain_that_has_no_room() -> None:
    """Two nodes of the rack were stopped; of 450 W it has room for one that wakes, not for both."""

    class Waker:
        period_s, events = 10.0, frozenset[str]()
        refused: ClassVar[list[str]] = []

        def act(self, view: View) -> Sequence[Action]:
            self.refused.extend(each.reason for each in view.refusals)
            return [StopNode(0), StopNode(1)] if view.now_s < 20 else [WakeNode(0), WakeNode(1)]

    part = replace(PART, boot_s=10.0, boot_w=300.0, shutdown_s=1.0)
    supply = (
        SupplyDomain(name="rack", nodes="batch[1-2]", limit_w=450.0), SupplyDomain(name="rest", nodes="batch[3-4]"),
    )  # fmt: skip
    jobs = replace(four(150.0), nodes=np.full(4, 2, np.int32))
    policy = replace(load_policy("easy"), controls=(Waker(),))
    simulate(jobs, Machine("m", (part,), supply=supply), policy)
    assert "power domain rack has no room for its watts" in Waker.refused


def test_units_of_one_domain_behind_different_efficiencies_are_refused() -> None:
    first, *rest = machine(1000.0).supply
    uneven = replace(machine(1000.0), supply=(replace(first, efficiency=0.9, limit_w=1200.0), *rest))
    with pytest.raises(PolicyError, match=r"feed is one; .* different efficiencies"):
        simulate(four(505.0), uneven, load_policy("easy"))


def test_a_live_controller_refuses_domains_that_can_bind() -> None:
    policy = load_policy("easy")
    needs = resolve(policy)
    with pytest.raises(PolicyError, match=f"{ROUND.name} does not test domains yet"):
        require_carried_out(policy, needs, ROUND, 0, machine(900.0), predicted(300.0))
    require_carried_out(policy, needs, ROUND, 0, machine(1000.0), predicted(300.0))


def test_a_job_that_no_domain_carries_never_runs_and_the_domain_is_named() -> None:
    """450 W on each of four nodes: the rack of 900 W has room for two of them, one of 800 W for one."""
    jobs = four(450.0)
    jobs = replace(jobs, nodes=np.array([2, 4, 3, 3], np.int32))
    assert simulate(jobs, machine(900.0), load_policy("easy", estimator="oracle-max")).schedule.ran.all()
    run = simulate(jobs, machine(800.0), load_policy("easy", estimator="oracle-max"))
    assert run.schedule.ran.tolist() == [True, False, True, True]
    assert run.schedule.reason[1] == Reason.SUPPLY
    assert run.notes["jobs with more watts than power domain rack[1] ever carries"] == 1
    easy = load_policy("easy", estimator="oracle-max")
    stepped = Simulation(jobs, machine(800.0), easy, Cap.none(), None, NodeEvents.none())
    stepped.go()
    assert stepped.result().notes == run.notes
    held = [list(range(low, high + 1)) for low, high in zip(run.schedule.unit_low, run.schedule.unit_high, strict=True)]
    assert held == [[0], [2], [0], [2, 3], [0], [2, 3]]


def test_a_run_takes_domains_that_never_bind() -> None:
    jobs, policy = four(), load_policy("easy")
    slack = simulate(jobs, machine(1000.0), policy)
    plain = simulate(jobs, replace(machine(1000.0), supply=()), policy)
    assert slack.schedule.unit_low.tolist() == plain.schedule.unit_low.tolist()
