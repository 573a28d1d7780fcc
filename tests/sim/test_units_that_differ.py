"""Units that differ: watts of the very units in truth and prediction, against the naive twin on random worlds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.policy.test_decide import BySnapshot
from tests.reference.simulator import Simulator
from tests.sim.invariants import check_invariants, units_of
from tests.sim.test_against_twin import (
    Scripted,
    expect_same,
    random_script,
    run_both,
    targeted_world,
    with_consent,
)
from tests.sim.test_profiles import workload as profiled_workload
from tests.sim.workloads import World, random_world
from wattqueue.errors import InputError, PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Floats, Prediction
from wattqueue.policy.build import PassSettings
from wattqueue.policy.decide import snapshot_of, view_of
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import NO_FACTORS, WORST_UNITS_EXCEED_CAP, Run, Simulation, simulate
from wattqueue.sim.profiles import with_profiles
from wattqueue.sim.truth import actual_power

SEEDS = st.integers(0, 2**32 - 1)
NAMES = ("cg", "ft", "lu")


def with_applications(world: World, rng: np.random.Generator) -> World:
    """The world with applications; some jobs name none."""
    codes = rng.integers(-1 if rng.random() < 0.3 else 0, len(NAMES), len(world.jobs)).astype(np.int32)
    return replace(world, jobs=replace(world.jobs, app=Labels(codes, NAMES)))


def drawn_factors(rng: np.random.Generator, units: int) -> np.ndarray:
    """Factors of three applications; a few values, so that there are ties, or as many as there are units."""
    if rng.random() < 0.3:
        return rng.choice([0.5, 1.0, 1.7], (len(NAMES), units))
    return np.round(rng.uniform(0.4, 1.9, (len(NAMES), units)), 4)


def true_factors(seed: int, *, failures: bool = False) -> World:
    rng = np.random.default_rng((seed, 1))
    world = with_applications(random_world(seed, failures=failures), rng)
    units = world.machine.units
    time = drawn_factors(rng, units) if rng.random() < 0.4 else None
    return replace(world, actual=replace(world.actual, unit_factor=drawn_factors(rng, units), unit_time_factor=time))


@given(SEEDS)
def test_true_watts_are_those_of_the_units(seed: int) -> None:
    run, twin = run_both(true_factors(seed))
    expect_same(run, twin)
    check_invariants(run)


@given(SEEDS)
def test_under_limits_the_slowest_unit_sets_the_speed(seed: int) -> None:
    world = true_factors(seed, failures=seed % 2 == 0)
    run, twin = run_both(world, random_script(seed, world))
    expect_same(run, twin)
    check_invariants(run)


@dataclass(frozen=True)
class Ranks:
    """A placement that returns what it was made with."""

    table: Floats | None

    @property
    def by_number(self) -> bool:
        """Without a table it says that it ranks nothing: else the policy would be refused."""
        return self.table is None

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        return self.table


def predicted_factors(seed: int, *, failures: bool = False) -> tuple[World, Any]:
    """A world with factors in truth or prediction or both, and ranks that follow the factors, or nothing, or none."""
    rng = np.random.default_rng((seed, 2))
    world = true_factors(seed, failures=failures)
    units = world.machine.units
    factor = drawn_factors(rng, units)
    if rng.random() < 0.8:
        known = factor.copy()
        if rng.random() < 0.2:
            known[1] = np.nan  # an application that was never profiled
        prediction = replace(world.ready.prediction, unit_factor=known)
        world = replace(world, ready=replace(world.ready, prediction=prediction))
    if rng.random() < 0.3:
        world = replace(world, actual=replace(world.actual, unit_factor=None))
    choices = [None, factor, np.repeat(factor[:1], len(NAMES), axis=0), rng.integers(0, 3, factor.shape).astype(float)]
    return world, choices[int(rng.integers(len(choices)))]


def run_ranked(world: World, rank: Any, script: Any = None) -> tuple[Run, Simulator]:
    more = {"controls": (Scripted(script, 7.0),)} if script else {}
    simulation = world.simulation(placement=Ranks(rank), **more)
    simulation.go()
    return simulation.result(), world.twin(simulation.truth.reject, script=script, period=7.0, unit_rank=rank)


@given(SEEDS)
def test_every_start_is_the_twins(seed: int) -> None:
    run, twin = run_ranked(*predicted_factors(seed))
    expect_same(run, twin)
    check_invariants(run)


@given(SEEDS)
def test_every_start_is_the_twins_with_failures_and_actions(seed: int) -> None:
    world, rank = predicted_factors(seed, failures=True)
    run, twin = run_ranked(world, rank, random_script(seed, world))
    expect_same(run, twin)
    check_invariants(run)


@given(SEEDS)
@example(2392127429)  # an entry that lacks free units, while a target limits
def test_looking_ahead_counts_very_units(seed: int) -> None:
    """What starts counts on the units that it gets, what runs on its own; the best units decide who is held back."""
    world, rank = predicted_factors(seed)
    ahead = targeted_world(seed)
    code = (codes.EASY, codes.SHORTEST, codes.CONSERVATIVE, codes.FIRST_FIT)[seed % 4]
    how = codes.AHEAD_SLOWED if seed % 3 == 0 and code != codes.CONSERVATIVE else codes.AHEAD_AS_RUN
    world = replace(with_consent(seed, world), code=code, looks_ahead=how, all_limits=True, targets=ahead.targets)
    run, twin = run_ranked(world, rank)
    expect_same(run, twin)
    check_invariants(run)


@given(SEEDS)
def test_snapshots_start_the_same_jobs(seed: int) -> None:
    world, rank = predicted_factors(seed)
    incremental, _ = run_ranked(world, rank)
    policy = world.policy(placement=Ranks(rank), backfill=BySnapshot(
        PassSettings(world.code, world.depth, world.machine.cap_scope), world.interval_s
    ))  # fmt: skip
    simulation = Simulation(world.jobs, world.machine, policy, world.cap, world.actual, world.events)
    simulation.go()
    run = simulation.result()
    np.testing.assert_array_equal(run.schedule.start_s, incremental.schedule.start_s)
    for job in np.flatnonzero(run.schedule.ran):
        assert units_of(run.schedule, int(job)) == units_of(incremental.schedule, int(job))


def test_a_snapshot_holds_factors_and_ranks() -> None:
    """A view loaded from it has the same tables, so that nothing is lost between a view and a pass on a copy."""
    world, _ = predicted_factors(3)
    factor = drawn_factors(np.random.default_rng(3), world.machine.units)
    prediction = replace(world.ready.prediction, unit_factor=factor)
    world = replace(world, ready=replace(world.ready, prediction=prediction))
    simulation = world.simulation(placement=Ranks(factor))
    view = simulation.world.view(())
    snapshot, _ = snapshot_of(view, PassSettings(world.code, 0, world.machine.cap_scope))
    ours, copy = simulation.view.by_unit, view_of(snapshot).by_unit
    np.testing.assert_array_equal(copy.factors.table, ours.factors.table)
    np.testing.assert_array_equal(copy.order, ours.order)


JOBS = Jobs.build([0.0, 1.0], [2, 1], [10.0, 10.0], app=np.array(["cg", "ft"]), mean_power_w=np.array([100.0, 50.0]))
FACTOR = np.array([[0.5, 1.5, 1.0], [1.0, 1.0, 2.0]])


def actual_of(factor: np.ndarray, power_w: np.ndarray | None = None) -> Prediction:
    power = np.array([[100.0], [50.0]]) if power_w is None else power_w
    return Prediction(power, np.ones((1, 1)), unit_factor=factor)


def test_energy_is_the_sum_over_the_units() -> None:
    run = simulate(JOBS, plain_machine(3, 10.0), load_policy("easy"), actual=actual_of(FACTOR))
    assert run.schedule.energy_j.tolist() == [10.0 * 200.0, 10.0 * 100.0]
    assert run.power.jobs_w.tolist() == [200.0, 300.0, 100.0, 0.0]


def test_a_job_takes_as_long_as_on_its_slowest_unit() -> None:
    slow = np.array([[1.0, 1.5, 2.0], [1.0, 1.0, 0.5]])
    actual = replace(actual_of(FACTOR), unit_time_factor=slow)
    run = simulate(JOBS, plain_machine(3), load_policy("easy"), actual=actual)
    assert run.schedule.end_s.tolist() == [15.0, 6.0]
    assert run.schedule.energy_j.tolist() == [15.0 * 200.0, 5.0 * 100.0]
    alone = simulate(JOBS, plain_machine(3), load_policy("easy"), actual=replace(actual, unit_factor=None))
    assert alone.schedule.end_s.tolist() == [15.0, 6.0]
    unnamed = replace(JOBS, app=Labels.missing(2))
    with_none = replace(actual_of(np.ones((0, 3))), unit_time_factor=np.ones((0, 3)))
    assert simulate(unnamed, plain_machine(3), load_policy("easy"), actual=with_none).schedule.end_s[0] == 10.0


def test_predicted_run_times_by_unit_rank_units_and_nothing_else() -> None:
    """The job takes the unit on which it is predicted to be fastest; its end is that of the truth, in which all are."""

    class Timed(Told):
        def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
            return replace(super().predict(jobs, machine), unit_time_factor=np.array([[2.0, 1.0, 0.5], [1, 1, 1]]))

    jobs = jobs_of((0.0, 1, 10.0, "cg"), (20.0, 1, 10.0, "ft"))
    policy = load_policy("easy", estimator=Timed(BY_HAND), placement={"part": "least-watts", "by": "time"})
    run = simulate(jobs, THREE, policy)
    assert [units_of(run.schedule, job) for job in range(2)] == [[2], [0]]
    assert run.schedule.end_s.tolist() == [10.0, 30.0]


def test_run_times_by_unit_that_no_unit_has_are_refused() -> None:
    slow = np.array([[1.0, 1.5, 0.0], [1.0, 1.0, 0.5]])
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, plain_machine(3), load_policy("easy"), actual=replace(actual_of(FACTOR), unit_time_factor=slow))
    assert caught.value.where == "application cg, unit 2"


def test_a_job_without_an_application_draws_the_same_everywhere() -> None:
    jobs = replace(JOBS, app=Labels(np.array([-1, 1], np.int32), ("cg", "ft")))
    run = simulate(jobs, plain_machine(3), load_policy("easy"), actual=actual_of(FACTOR))
    assert run.schedule.energy_j.tolist() == [10.0 * 200.0, 10.0 * 100.0]


def test_phases_stay_where_units_differ() -> None:
    library = (np.array([0.0, 2.0], np.float32), np.array([0, 2]), np.array([0]))
    base, scale = np.array([80.0, 50.0]), np.array([20.0, 0.0])
    profiles = PowerProfiles(np.zeros(2, np.int32), base, scale, *library, period_s=5.0)
    jobs = replace(JOBS, profiles=profiles)
    actual = actual_of(FACTOR)
    run = with_profiles(simulate(jobs, plain_machine(3), load_policy("easy"), actual=actual))
    assert run.notes == {}
    assert run.power.time_s.tolist() == [0.0, 1.0, 5.0, 10.0, 11.0]
    assert run.power.jobs_w.tolist() == [160.0, 260.0, 340.0, 100.0, 0.0]
    np.testing.assert_allclose(run.schedule.energy_j, [2000.0, 1000.0], rtol=1e-12)


@given(SEEDS)
def test_phases_keep_the_energy_that_the_engine_counted(seed: int) -> None:
    rng = np.random.default_rng((seed, 3))
    jobs = profiled_workload(rng, 20)
    assert jobs.mean_power_w is not None
    jobs = replace(jobs, app=Labels(rng.integers(-1, len(NAMES), len(jobs)).astype(np.int32), NAMES))
    factor = drawn_factors(rng, 8)
    actual = replace(actual_power(jobs, plain_machine(8, 20.0)), unit_factor=factor)
    constant = simulate(jobs, plain_machine(8, 20.0), load_policy("easy"), actual=actual)
    run = with_profiles(constant)
    assert run.notes == {}
    series_j = float(np.sum(np.diff(run.power.time_s) * run.power.jobs_w[:-1]))
    assert series_j == pytest.approx(float(run.schedule.energy_j.sum()), rel=1e-9)
    np.testing.assert_allclose(run.schedule.energy_j, constant.schedule.energy_j, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_factors_that_no_unit_has_are_refused(value: float) -> None:
    factor = FACTOR.copy()
    factor[1, 2] = value
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, plain_machine(3), load_policy("easy"), actual=actual_of(factor))
    assert caught.value.where == "application ft, unit 2"


def test_a_table_of_another_machine_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"\(2, 3\), expected \(2, 4\)"):
        simulate(JOBS, plain_machine(4), load_policy("easy"), actual=actual_of(FACTOR))


def test_factors_beyond_what_a_unit_can_draw_are_refused() -> None:
    with pytest.raises(PolicyError, match="more than"):
        simulate(JOBS, plain_machine(3), load_policy("easy"), actual=actual_of(FACTOR * 1e6))


def test_true_watts_of_an_application_without_factors_are_refused() -> None:
    factor = FACTOR.copy()
    factor[1] = np.nan
    with pytest.raises(InputError) as caught:
        simulate(JOBS, plain_machine(3), load_policy("easy"), actual=actual_of(factor))
    assert caught.value.where == "ft"


# Cases worked out by hand. Three units of 40, 100 and 60 W for "cg", of 100 W each for "ft"; caps cover jobs alone.
THREE = Machine("three", (Partition("p", 3, max_w=200.0),), "jobs")
BY_HAND = np.array([[0.4, 1.0, 0.6], [1.0, 1.0, 1.0]])


@dataclass(frozen=True)
class Told:
    """An estimator that predicts 100 W for a unit of factor 1."""

    factor: Any
    machine_figures: bool = False
    asked: str = "once"

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        return Prediction(np.full((1, 1), 100.0), np.ones((1, 1)), unit_factor=self.factor)


def run_by_hand(jobs: Jobs, cap_w: float, backfill: str, *, rank: Any = None, told: Told | None = None) -> Run:
    estimator = told or Told(BY_HAND)
    policy = load_policy("easy", backfill=backfill, estimator=estimator, placement=Ranks(rank))
    truth = Prediction(np.full((1, 1), 100.0), np.ones((1, 1)), unit_factor=BY_HAND)
    return simulate(jobs, THREE, policy, cap=Cap.constant(cap_w), actual=truth)


def jobs_of(*rows: tuple[float, int, float, str]) -> Jobs:
    submit, nodes, runtime, app = zip(*rows, strict=True)
    codes = np.array([("cg", "ft").index(name) for name in app], np.int32)
    return replace(Jobs.build(submit, nodes, runtime), app=Labels(codes, ("cg", "ft")))


def test_admission_takes_the_very_units() -> None:
    """By rank the job gets the units of 40 and 60 W, which the cap admits; by number those of 40 and 100 W."""
    jobs = jobs_of((0.0, 2, 10.0, "cg"), (1.0, 1, 1.0, "ft"))
    ranked = run_by_hand(jobs, 120.0, "first-fit", rank=BY_HAND)
    assert ranked.schedule.start_s.tolist() == [0.0, 10.0]
    assert units_of(ranked.schedule, 0) == [0, 2]
    assert ranked.power.jobs_w.max() == 100.0
    lowest = run_by_hand(jobs, 120.0, "first-fit")
    assert np.isnan(lowest.schedule.start_s[0])


def test_a_reservation_takes_the_worst_units() -> None:
    """160 W on the worst two units do not fit beside 100 W at 5 s; on the very units they start when these are free."""
    jobs = jobs_of((0.0, 1, 20.0, "cg"), (0.0, 1, 5.0, "ft"), (1.0, 2, 10.0, "cg"), (2.0, 1, 18.0, "cg"))
    run = run_by_hand(jobs, 200.0, "easy", rank=BY_HAND)
    # Job 0 has unit 0 (40 W), job 1 unit 1 (100 W). Job 2 needs 160 W at worst: 200 - 40 = 160 W are free from 5 s on.
    assert run.schedule.start_s.tolist() == [0.0, 0.0, 5.0, 15.0]


def test_worst_units_beyond_the_cap_are_promised_nothing_and_counted() -> None:
    """Two units draw 160 W at worst, so job 1 has no shadow time, and job 2, which fits, delays it."""
    jobs = jobs_of((0.0, 1, 10.0, "cg"), (1.0, 2, 10.0, "cg"), (2.0, 1, 100.0, "cg"))
    run = run_by_hand(jobs, 159.9, "easy", rank=BY_HAND)
    assert run.schedule.start_s.tolist() == [0.0, 102.0, 2.0]
    assert run.notes[WORST_UNITS_EXCEED_CAP] == 1


def test_a_start_that_changes_the_choice_is_followed_by_a_whole_pass() -> None:
    """At 0 s job 0 would get units 0 and 1, 120 W. Job 1 takes unit 0 at 30 W; units 1 and 2 then are 40 W for job 0.

    So job 0 starts at the next pass, although nothing became free: a pass that follows arrivals alone may not skip it.
    """
    factor = np.array([[1.0, 0.2, 0.2], [0.3, 1.0, 1.0]])
    jobs = jobs_of((0.0, 2, 10.0, "cg"), (1.0, 1, 100.0, "ft"), (2.0, 1, 1.0, "ft"))
    policy = load_policy("easy", backfill="first-fit", estimator=Told(factor))
    run = simulate(jobs, THREE, policy, cap=Cap.constant(110.0))
    assert run.schedule.start_s.tolist() == [2.0, 1.0, 101.0]


def test_a_job_of_an_unknown_application_counts_the_stated_maximum_and_is_counted() -> None:
    factor = BY_HAND.copy()
    factor[1] = np.nan
    jobs = jobs_of((0.0, 1, 10.0, "cg"), (0.0, 1, 10.0, "ft"))
    run = run_by_hand(jobs, 239.0, "easy", told=Told(factor))
    assert run.schedule.start_s.tolist() == [0.0, 10.0]
    assert run.schedule.predicted_w.tolist() == [40.0, 200.0]
    assert run.notes == {NO_FACTORS: 1}


def test_an_unknown_application_without_a_stated_maximum_is_refused() -> None:
    factor = BY_HAND.copy()
    factor[1] = np.nan
    policy = load_policy("easy", estimator=Told(factor))
    with pytest.raises(PolicyError, match="maximum is not known"):
        simulate(jobs_of((0.0, 1, 10.0, "cg"), (0.0, 1, 10.0, "ft")), plain_machine(3), policy)


def test_machine_figures_reject_what_no_unit_admits() -> None:
    jobs = jobs_of((0.0, 2, 10.0, "cg"), (0.0, 2, 10.0, "ft"))
    run = run_by_hand(jobs, 100.0, "easy", rank=BY_HAND, told=Told(BY_HAND, machine_figures=True))
    assert run.schedule.start_s[0] == 0.0
    assert run.schedule.reason.tolist() == [Reason.NONE, Reason.TOO_MUCH_POWER]


@pytest.mark.parametrize("rank", [np.zeros((2, 4)), np.full((2, 3), np.nan), np.zeros((1, 3))])
def test_ranks_of_another_shape_are_refused(rank: Any) -> None:
    with pytest.raises(PolicyError, match="ranks"):
        run_by_hand(jobs_of((0.0, 1, 1.0, "cg"), (0.0, 1, 1.0, "ft")), 1e6, "easy", rank=rank)
