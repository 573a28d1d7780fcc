"""Units that differ: watts of the very units in truth and prediction, against the naive twin on random worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.invariants import check_invariants
from tests.sim.test_against_twin import expect_same, random_script, run_both
from tests.sim.workloads import World, random_world
from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import plain_machine
from wattqueue.model.profiles import PowerProfiles
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.sim.profiles import with_profiles

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
    return replace(world, actual=replace(world.actual, unit_factor=drawn_factors(rng, world.machine.units)))


@given(SEEDS)
def test_true_watts_are_those_of_the_units(seed: int) -> None:
    run, twin = run_both(true_factors(seed))
    expect_same(run, twin)
    check_invariants(run)


@given(SEEDS)
def test_under_limits_the_slowest_unit_sets_the_speed(seed: int) -> None:
    world = true_factors(seed, failures=seed % 2 == 0)
    run, twin = run_both(world, random_script(seed, world), period_s=7.0)
    expect_same(run, twin)
    check_invariants(run)


JOBS = Jobs.build([0.0, 1.0], [2, 1], [10.0, 10.0], app=np.array(["cg", "ft"]), mean_power_w=np.array([100.0, 50.0]))
FACTOR = np.array([[0.5, 1.5, 1.0], [1.0, 1.0, 2.0]])


def actual_of(factor: np.ndarray, power_w: np.ndarray | None = None) -> Prediction:
    power = np.array([[100.0], [50.0]]) if power_w is None else power_w
    return Prediction(power, np.ones((1, 1)), unit_factor=factor)


def test_energy_is_the_sum_over_the_units() -> None:
    run = simulate(JOBS, plain_machine(3, 10.0), load_policy("easy"), actual=actual_of(FACTOR))
    assert run.schedule.energy_j.tolist() == [10.0 * 200.0, 10.0 * 100.0]
    assert run.power.jobs_w.tolist() == [200.0, 300.0, 100.0, 0.0]


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
    run = with_profiles(simulate(jobs, plain_machine(3), load_policy("easy"), actual=actual), actual)
    assert run.notes == {}
    assert run.power.time_s.tolist() == [0.0, 1.0, 5.0, 10.0, 11.0]
    assert run.power.jobs_w.tolist() == [160.0, 260.0, 340.0, 100.0, 0.0]
    np.testing.assert_allclose(run.schedule.energy_j, [2000.0, 1000.0], rtol=1e-12)


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
