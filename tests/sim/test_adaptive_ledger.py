"""The adaptive ledger (rule 15 of docs/semantics.md): by hand, and random worlds against the twin."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.site_meter import NaiveSiteMeter
from tests.sim.test_against_twin import Scripted, expect_same, random_script
from tests.sim.workloads import random_world
from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.kernels.site_meter import GREATEST, SPENT_S, Z
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.parts.ledger.adaptive import Adaptive
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.policy import load_policy
from wattqueue.policy.site_meter import LEAST_SHARE
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.truth import NodeEvents

EXACT: dict[str, Any] = {"meter_s": 10.0, "late": 0, "noise": 0.0, "common": 0.0, "own": 0.0}
"""A meter without faults, and no margin."""


def begun(jobs: Jobs, cap_w: float, *, true_w: float = 100.0, **ledger: Any) -> Simulation:
    """A finished run of jobs of 100 predicted watts on ten nodes that idle at 0 W."""
    said = replace(jobs, mean_power_w=np.full(len(jobs), 100.0))
    policy = load_policy("easy+pc-real-mean", ledger=Adaptive(**{**EXACT, **ledger}))
    policy = replace(policy, estimator=load_policy("easy", estimator="oracle-mean").estimator)
    drawn = load_policy("easy", estimator="oracle-mean").estimator
    machine = plain_machine(10, 0.0, 400.0)
    from wattqueue.sim.truth import actual_power

    assert drawn is not None
    actual = actual_power(replace(said, mean_power_w=np.full(len(jobs), true_w)), machine)
    simulation = Simulation(said, machine, policy, Cap.constant(cap_w), actual, NodeEvents.none())
    simulation.go()
    return simulation


def alike(count: int, run_s: float = 100.0) -> Jobs:
    """Jobs of one node that are all submitted at 0."""
    return Jobs.build(np.zeros(count), np.ones(count, int), np.full(count, run_s))


def test_watts_drawn_for_a_watt_predicted_are_learned() -> None:
    # Four jobs of 100 predicted watts fit at first. They draw 50 W each: from 10 s on two watts count as one, and eight
    # fit. At 100 s the first four end, and four more may start beside the other four.
    start = begun(alike(12), 400.0, true_w=50.0, forget_s=1.0).log.start
    assert start.tolist() == [0.0] * 4 + [10.0] * 4 + [100.0] * 4


def test_a_machine_that_draws_nothing_does_not_open_the_cap() -> None:
    assert LEAST_SHARE == 0.1
    start = begun(alike(12), 100.0, true_w=0.0, forget_s=1.0).log.start
    assert start.tolist() == [0.0] + [10.0] * 9 + [100.0, 110.0]


def test_a_late_meter_is_late() -> None:
    start = begun(alike(12), 400.0, true_w=50.0, forget_s=1.0, late=2).log.start
    assert start.tolist() == [0.0] * 4 + [30.0] * 4 + [100.0] * 4


def test_power_above_what_was_admitted_raises_the_margin_and_uses_the_allowance() -> None:
    # 10 % of 1,000 s may be above: 100 s. A job counts 100 W with a deviation of 10 W.
    window = 1_000.0 / 86_400.0
    options = {"epsilon": 0.1, "window_days": window, "aim": 0.5, "gain": 2.0, "own": 0.01, "forget_s": 1e9}
    simulation = begun(alike(5, 90.0), 400.0, true_w=120.0, begin=1.0, **options)
    # With z 1 three of the five start (300 + sqrt(3) 10 < 400 < 400 + 20); they draw 360 W.
    assert simulation.log.start.tolist()[:3] == [0.0] * 3
    assert simulation.parts.meter.state[SPENT_S] == 0.0
    simulation = begun(alike(5, 90.0), 400.0, true_w=120.0, begin=0.0, **options)
    state = simulation.parts.meter.state
    # Four draw 480 W for 90 s, 80 / 20 deviations above what was admitted; then the fifth runs alone.
    assert state[SPENT_S] == 90.0
    assert state[GREATEST] == pytest.approx(4.0)
    assert state[Z] == pytest.approx(9 * 2.0 * (10.0 - 0.5 * 0.1 * 10.0) / 100.0)


def test_a_margin_that_would_have_been_enough_does_not_rise() -> None:
    # As above, but a step of more than 4 deviations: after the first reading z covers what happens, though the cap is
    # exceeded until the jobs end.
    window = 1_000.0 / 86_400.0
    simulation = begun(
        alike(5, 90.0), 400.0, true_w=120.0, epsilon=0.1, window_days=window, aim=0.0, gain=50.0, own=0.01, begin=0.0,
        forget_s=1e9,
    )  # fmt: skip
    assert simulation.parts.meter.state[SPENT_S] == 90.0
    assert simulation.parts.meter.state[Z] == pytest.approx(5.0)


def test_a_spent_allowance_asks_for_what_would_have_kept_the_cap() -> None:
    # 1 % of 1,000 s are 10 s, spent at the first reading by 4 deviations of 10 W a job. Then z is 1.5 x 4: three jobs
    # of 100 W (300 + 6 x 17 W) do not fit beside each other, and two do (200 + 6 x 14 W), until the 1,000 s are over.
    window = 1_000.0 / 86_400.0
    options = {"epsilon": 0.01, "window_days": window, "begin": 0.0, "most": 1.5, "gain": 0.0, "forget_s": 1e9}
    later = np.array([0.0] * 4 + [500.0] * 4)
    jobs = Jobs.build(later, np.ones(8, int), np.array([90.0] * 4 + [600.0] * 4))
    start = begun(jobs, 400.0, true_w=120.0, own=0.01, **options).log.start
    assert start.tolist() == [0.0] * 4 + [500.0, 500.0, 1_000.0, 1_100.0]


def test_the_margin_comes_down_while_jobs_wait_and_the_cap_holds() -> None:
    window = 1_000.0 / 86_400.0
    jobs = alike(20, 1_000.0)
    simulation = begun(jobs, 250.0, epsilon=0.1, window_days=window, aim=0.5, gain=8.0, begin=4.0, own=0.0025)
    # Three jobs never fit (300 W); two fit with a margin of at most 50 W. z falls by 8 * 0.5 in a window of 1,000 s.
    assert simulation.log.start[1] == 0.0
    assert simulation.parts.meter.state[Z] == 0.0


@settings(max_examples=8)
@given(
    st.integers(0, 2**31), st.floats(0.002, 0.4), st.sampled_from([7.0, 10.0]), st.integers(0, 2),
    st.sampled_from([0.0, 0.05]),
)  # fmt: skip
def test_every_start_is_the_twins(seed: int, epsilon: float, meter_s: float, late: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    world = random_world(seed, failures=seed % 3 == 0)
    if world.code == codes.CONSERVATIVE:
        world = replace(world, code=codes.SHORTEST)
    if seed % 4 == 0:
        samples = [rng.uniform(0.0, 300.0, int(rng.integers(1, 12))) for _ in range(len(world.jobs))]
        jobs = replace(world.jobs, profiles=PowerProfiles.from_samples(samples, period_s=20.0))
        world = replace(world, jobs=jobs, phases_s=20.0)
    ledger = Adaptive(
        epsilon=epsilon, window_days=float(rng.choice([0.001, 0.005])), aim=0.5, gain=float(rng.uniform(0.0, 10.0)),
        begin=float(rng.uniform(0.0, 3.0)), forget_s=float(rng.choice([5.0, 60.0])), own=0.05, common=0.01,
        meter_s=meter_s, late=late, noise=noise,
    )  # fmt: skip
    script = random_script(seed, world) if seed % 2 else None
    more = {"controls": (Scripted(script, 7.0),)} if script else {}
    simulation = world.simulation(ledger=ledger, **more)
    site = NaiveSiteMeter(ledger, simulation.parts.meter.normal.tolist())
    simulation.go()
    twin = world.twin(
        simulation.truth.reject, chance=ledger.terms, site=site, script=script, period=7.0 if script else 0.0
    )
    expect_same(simulation.result(), twin)
    assert site.z_in_force() >= 0.0 or math.isinf(site.z_in_force())


class Queued(Fcfs):
    """An order that re-ranks."""

    def rerank(self, view: View) -> Any:
        return -np.arange(len(view.queue), dtype=np.float64)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"backfill": load_policy("conservative").backfill}, "needs a pass that checks starts"),
        ({"order": Queued()}, "cannot be combined with an order that re-ranks"),
    ],
)
def test_what_cannot_be_combined_with_it_is_refused(more: dict[str, Any], message: str) -> None:
    policy = replace(load_policy("easy+pc-adaptive-1", estimator="naive"), **more)
    with pytest.raises(PolicyError, match=message):
        simulate(alike(2), plain_machine(2, 0.0, 100.0), policy)


@pytest.mark.parametrize(
    "options", [{"epsilon": 0.0}, {"epsilon": 0.6}, {"aim": 1.5}, {"most": 0.5}, {"late": 0.5}, {"meter_s": 0.0},
                {"own": -1.0}, {"forget_s": math.nan}, {"meter_s": 1e9}],
)  # fmt: skip
def test_figures_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="adaptive"):
        Adaptive(**options)
