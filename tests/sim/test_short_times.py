"""Planned times at and below the microsecond of the clock: no unit is given twice, none that does not exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.invariants import check_invariants, units_of
from tests.sim.test_against_twin import expect_same
from tests.sim.workloads import World, random_world
from wattqueue.errors import InputError
from wattqueue.kernels import codes
from wattqueue.model.bounds import DURATION_S, TIME_S
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap

UNIX_S = 1.7e9  # a step of float64 is 2.4e-7 s there


def world_of_short_times(seed: int, begin_s: float = UNIX_S) -> World:
    """A random world with conservative backfilling in which many run times and walltimes are a few microseconds."""
    world, rng = random_world(seed), np.random.default_rng(seed)
    jobs, n = world.jobs, len(world.jobs)
    short = np.where(rng.random(n) < 0.4, DURATION_S.low * 10.0 ** rng.uniform(0.0, 1.0, n), np.inf)
    jobs = replace(
        jobs,
        submit_s=np.floor(jobs.submit_s) + begin_s,
        walltime_s=np.minimum(jobs.walltime_s, short),
        runtime_s=np.minimum(jobs.runtime_s, short),
    )
    cap = Cap(world.cap.time_s + begin_s, world.cap.cap_w)
    return replace(world, jobs=jobs, cap=cap, code=codes.CONSERVATIVE)


@given(st.integers(0, 2**32 - 1))
def test_conservative_plans_with_short_times_are_the_twins(seed: int) -> None:
    world = world_of_short_times(seed)
    # A faster partition makes the shortest walltimes shorter than the clock's step.
    prediction = replace(world.ready.prediction, time_factor=world.ready.prediction.time_factor * 0.1)
    world = replace(world, ready=replace(world.ready, prediction=prediction))
    simulation = world.simulation()
    simulation.go()
    run = simulation.result()
    expect_same(run, world.twin(simulation.truth.reject))
    check_invariants(run)


@given(st.integers(0, 2**32 - 1))
def test_where_the_clock_cannot_hold_a_microsecond_units_are_still_given_once(seed: int) -> None:
    """A run that begins within the range of times may go on behind it."""
    world = world_of_short_times(seed, TIME_S.high - 1_000.0)
    run = world.engine()
    assert run.power.busy_units.max(initial=0) <= world.machine.units
    assert (run.schedule.unit_high < world.machine.units).all()
    assert all(len(units_of(run.schedule, int(j))) == run.jobs.nodes[j] for j in np.flatnonzero(run.schedule.ran))


@pytest.mark.parametrize("column", ["runtime_s", "walltime_s"])
def test_a_duration_below_the_clock_is_refused_with_its_row(column: str) -> None:
    times = {"runtime_s": [60.0, 60.0], "walltime_s": [60.0, 60.0]} | {column: [60.0, 1e-7]}
    with pytest.raises(InputError) as refused:
        Jobs.build([0.0, 1.0], [1, 1], times["runtime_s"], walltime_s=times["walltime_s"])
    assert refused.value.where == f"column {column}, row 2"


@given(st.floats(TIME_S.low, TIME_S.high))
def test_the_least_duration_is_longer_than_a_step_of_the_clock(instant_s: float) -> None:
    assert DURATION_S.low == codes.CLOCK_S
    assert instant_s + DURATION_S.low > instant_s
