"""The adaptive ledger (rule 15 of docs/semantics.md): by hand, and random worlds against the twin."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.drivers import keep_margin_now
from tests.reference.site_meter import NaiveSiteMeter
from tests.sim.test_against_twin import Scripted, expect_same, random_script
from tests.sim.workloads import random_world
from wattqueue.errors import PolicyError
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.kernels import codes
from wattqueue.kernels.site_meter import margin_once
from wattqueue.kernels.state.site_meter import FIT_SHARE, GREATEST, SPENT_S, Z
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.parts.ledger.adaptive import Adaptive
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.capabilities import LEAST_SHARE
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.sensors import PARTS_A_DAY
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.truth import NodeEvents, actual_power

EXACT: dict[str, Any] = {"meter_s": 10.0, "late": 0, "noise": 0.0, "common": 0.0, "own": 0.0}
"""A meter without faults, and no margin."""


def begun(jobs: Jobs, cap_w: float, *, true_w: float = 100.0, **ledger: Any) -> Simulation:
    """A finished run of jobs of 100 predicted watts on ten nodes that idle at 0 W."""
    said = replace(jobs, mean_power_w=np.full(len(jobs), 100.0))
    policy = load_policy("easy+estimator=oracle-mean", ledger=Adaptive(**{**EXACT, **ledger}))
    policy = replace(policy, estimator=load_policy("easy", estimator="oracle-mean").estimator)
    drawn = load_policy("easy", estimator="oracle-mean").estimator
    machine = plain_machine(10, 0.0, 400.0)
    assert drawn is not None
    actual = actual_power(replace(said, mean_power_w=np.full(len(jobs), true_w)), machine)
    simulation = Simulation(said, machine, policy, Cap.constant(cap_w), actual, NodeEvents.none())
    simulation.go()
    return simulation


def known(jobs: Jobs, machine: Machine, policy: Policy, cap_w: float) -> Simulation:
    """A finished run of jobs that draw what is predicted."""
    simulation = Simulation(jobs, machine, policy, Cap.constant(cap_w), actual_power(jobs, machine), NodeEvents.none())
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


def test_the_share_at_which_jobs_fitted_is_that_of_a_budget_that_is_just_kept() -> None:
    simulation = begun(alike(1), 400.0)
    view, meter = simulation.view, simulation.parts.meter
    for cap_uw, fitted in (
        (0, True),
        (-1, False),
    ):  # nothing runs, and the machine draws nothing: the budget is the cap
        view.now.cap_uw, meter.state[FIT_SHARE] = cap_uw, 9.0
        keep_margin_now(view, meter)
        assert view.now.available_uw == cap_uw
        assert (meter.state[FIT_SHARE] == view.now.chance_share) == fitted


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


def test_a_window_shorter_than_a_part_of_a_day_is_one_part() -> None:
    # As above, but spent from 600 s on: it is over at the end of the first 1,000 s, not a window later.
    window = 1_000.0 / 86_400.0
    options = {"epsilon": 0.01, "window_days": window, "begin": 0.0, "most": 1.5, "gain": 0.0, "forget_s": 1e9}
    later = np.array([600.0] * 4 + [700.0] * 4)
    jobs = Jobs.build(later, np.ones(8, int), np.array([90.0] * 4 + [600.0] * 4))
    start = begun(jobs, 400.0, true_w=120.0, own=0.01, **options).log.start
    assert start.tolist() == [600.0] * 4 + [700.0, 700.0, 1_000.0, 1_300.0]


def test_what_was_spent_in_one_part_of_the_window_is_remembered_in_the_next() -> None:
    # As above with a window of four parts: what was spent in the first of them is over when all four are.
    part_s = 86_400.0 / PARTS_A_DAY
    options = {"epsilon": 10.0 / (4 * part_s), "begin": 0.0, "most": 1.5, "gain": 0.0, "forget_s": 1e9}
    later = np.array([0.0] * 4 + [1.5 * part_s] * 3)
    jobs = Jobs.build(later, np.ones(7, int), np.array([90.0] * 4 + [5 * part_s] * 3))
    start = begun(jobs, 400.0, true_w=120.0, own=0.01, window_days=4 / PARTS_A_DAY, **options).log.start
    assert start.tolist() == [0.0] * 4 + [1.5 * part_s, 1.5 * part_s, 4 * part_s]


FALLING: dict[str, Any] = {
    "epsilon": 0.1, "window_days": 1_000.0 / 86_400.0, "aim": 0.5, "gain": 8.0, "begin": 4.0, "own": 0.0025,
}  # fmt: skip
"""z falls by 8 * 0.5 in a window of 1,000 s; a job of 100 W has a deviation of 5 W."""


def test_the_margin_comes_down_while_it_holds_a_job_back() -> None:
    # Two jobs need 200 W and sqrt(2) 5 W for each deviation: of 220 W, they fit from z = 2.83 on.
    simulation = begun(alike(3, 1_000.0), 220.0, **FALLING)
    assert simulation.log.start.tolist() == [0.0, 300.0, 1_000.0]
    # Three need 300 W: no margin holds the third one back, and z stays.
    assert simulation.parts.meter.state[Z] == pytest.approx(2.8)
    # Of 250 W two fit at once, and the third one never beside them.
    simulation = begun(alike(3, 1_000.0), 250.0, **FALLING)
    assert simulation.log.start.tolist() == [0.0, 0.0, 1_000.0]
    assert simulation.parts.meter.state[Z] == 4.0


def test_meters_are_read_while_jobs_only_wait() -> None:
    # One job needs 100 W and 5 W for each deviation: of 110 W, it fits from z = 2 on. Nothing else happens meanwhile.
    assert begun(alike(2), 110.0, **FALLING).log.start.tolist() == [500.0, 600.0]


def test_a_run_ends_where_the_margin_cannot_come_down() -> None:
    assert np.isnan(begun(alike(2), 110.0, **{**FALLING, "gain": 0.0}).log.start).all()
    # Nor does it end before a share above 1, which holds back a job that fits the cap exactly, is forgotten.
    assert begun(alike(2), 100.0, true_w=110.0, late=2).log.start.tolist() == [0.0, 130.0]
    # Nor does a margin matter where the job does not fit without one.
    simulation = begun(alike(2), 90.0, **FALLING)
    assert np.isnan(simulation.log.start).all()
    assert simulation.parts.meter.state[Z] == 4.0


@pytest.mark.compiled
def test_noise_of_the_meter_does_not_raise_the_margin() -> None:
    """100 nodes that idle at 95 W beside small jobs of known watts: a hundredth of a reading is more than a job."""
    rng = np.random.default_rng(1)
    n = 100
    jobs = Jobs.build(np.sort(rng.uniform(0.0, 50_000.0, n)), rng.integers(1, 40, n), rng.uniform(600.0, 20_000.0, n))
    jobs = replace(jobs, mean_power_w=np.full(n, 190.0))
    found = {}
    for noise in (0.0, 0.01):
        policy = load_policy("easy", estimator="oracle-mean", ledger=Adaptive(noise=noise))
        simulation = known(jobs, plain_machine(100, 95.0, 190.738), policy, 15_259.0)
        assert simulation.result().schedule.ran.all()
        found[noise] = float(simulation.parts.meter.state[Z])
    assert found[0.01] < found[0.0] + 1.0


OWN_ROWS: dict[str, dict[str, Any]] = {
    # The row that the guide prints, without the control of a reader's own file.
    "gentle": {
        "estimator": {"part": "history-max", "alpha": 1.0}, "backfill": {"part": "easy", "queue_depth": 500},
        "ledger": {"part": "chance", "epsilon": 0.01},
    },
    "chance-0.1": {"estimator": "history-mean", "ledger": {"part": "chance", "epsilon": 0.001}},
}  # fmt: skip


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("row", "share", "idle_w", "nodes"),
    [
        ("easy+pc-adaptive-1", 0.8, 95.0, 60), ("easy+pc-adaptive-0.1", 0.8, 95.0, 60),
        ("easy+pc-adaptive-1", 0.9, 95.0, 80), ("easy+pc-adaptive-1", 0.8, 50.0, 72),
        ("easy+pc-adaptive-1", 0.8, 0.0, 80), ("easy+pc-chance-1", 0.8, 95.0, 60),
        ("chance-0.1", 0.8, 95.0, 60), ("gentle", 0.8, 95.0, 60),
    ],
)  # fmt: skip
def test_every_job_that_fits_starts_on_kth_sp2(
    data_dir: Path, row: str, share: float, idle_w: float, nodes: int
) -> None:
    """So many of 100 nodes fit at their maximum beside the idle watts of all; most jobs started never."""
    jobs = read_swf(data_dir / "swf" / "KTH-SP2.swf.gz").jobs
    policy = load_policy("easy", **OWN_ROWS[row]) if row in OWN_ROWS else load_policy(row)
    run = simulate(jobs, plain_machine(100, idle_w, 190.738), policy, cap=Cap.constant(share * 19_073.8))
    assert (run.schedule.ran == (jobs.nodes <= nodes)).all()
    assert set(run.schedule.reason[~run.schedule.ran].tolist()) == {Reason.NEVER_FITS}


def test_a_share_that_noise_explains_is_not_used() -> None:
    # A job of 100 W in 10,000 W of idle watts: readings vary by 100 W.
    policy = load_policy("easy", estimator="oracle-mean", ledger=Adaptive(noise=0.01, late=0))
    jobs = replace(Jobs.build([0.0], [1], [6_000.0]), mean_power_w=np.full(1, 200.0))
    simulation = known(jobs, plain_machine(100, 100.0, 200.0), policy, 15_000.0)
    in_force = np.zeros(2)
    margin_once(simulation.parts.meter, in_force)
    assert in_force[0] == pytest.approx(1.0, abs=0.3)


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
    policy = replace(load_policy("easy+pc-adaptive-1", estimator="maximum"), **more)
    with pytest.raises(PolicyError, match=message):
        simulate(alike(2), plain_machine(2, 0.0, 100.0), policy)


@pytest.mark.parametrize(
    "options", [{"epsilon": 0.0}, {"epsilon": 0.6}, {"aim": 1.5}, {"most": 0.5}, {"late": 0.5}, {"meter_s": 0.0},
                {"own": -1.0}, {"forget_s": math.nan}, {"meter_s": 1e9}],
)  # fmt: skip
def test_figures_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="adaptive"):
        Adaptive(**options)
