"""A replayed schedule: starts and power of the record, whatever policy made it, and what a record must not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.invariants import check_invariants
from tests.sim.workloads import random_world
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import plain_machine
from wattqueue.model.metrics import metrics
from wattqueue.model.recorded_schedule import RecordedSchedule
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.model.steps import rows_at
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import with_phases
from wattqueue.sim.replay import EARLIER, LATER, NOT_RUN, replay, replay_workload
from wattqueue.workload.generated import generate

SERIES = ("jobs_w", "other_w", "busy_idle_w", "busy_units")


def recorded(run: Run) -> RecordedSchedule:
    return RecordedSchedule(run.jobs, run.machine, run.schedule, run.cap)


def same_power(one: PowerSeries, other: PowerSeries) -> None:
    """Equal watts at every moment of both, to the last bit."""
    times = np.union1d(one.time_s, other.time_s)
    for name in SERIES:
        here, there = (getattr(p, name)[rows_at(p.time_s, times)] for p in (one, other))
        np.testing.assert_array_equal(here, there, name)


@given(st.integers(0, 10**9))
def test_fixed_starts_give_the_run_again_whatever_the_policy(seed: int) -> None:
    world = random_world(seed)
    run = world.engine()
    for again in (
        replay(recorded(run), starts="recorded"),
        replay_workload(recorded(run), world.jobs, starts="recorded", actual=world.actual),
    ):
        np.testing.assert_array_equal(again.schedule.start_s, run.schedule.start_s)
        np.testing.assert_array_equal(again.schedule.end_s, run.schedule.end_s)
        np.testing.assert_array_equal(again.schedule.state, run.schedule.state)
        np.testing.assert_allclose(again.schedule.energy_j, run.schedule.energy_j, rtol=1e-12)
        check_invariants(again)
        if run.schedule.ran.any():
            same_power(again.power, run.power)
            old, new = (metrics(r.jobs, r.schedule, r.power, r.machine, r.cap) for r in (run, again))
            assert new == pytest.approx(old, rel=1e-12, abs=1e-9)


@given(st.integers(0, 10**9))
def test_no_job_starts_later_than_its_places_were_free(seed: int) -> None:
    run = random_world(seed).engine()
    again = replay(recorded(run))
    ran = run.schedule.ran
    assert (again.schedule.start_s[ran] <= run.schedule.start_s[ran]).all()
    assert (again.schedule.start_s[ran] >= run.jobs.submit_s[ran]).all()
    assert again.notes.get(EARLIER, 0) == (again.schedule.start_s[ran] < run.schedule.start_s[ran]).sum()
    check_invariants(again)


@given(st.integers(0, 10**9), st.sampled_from(["fcfs", "easy", "conservative", "first-fit"]))
def test_places_alone_give_the_starts_where_nothing_else_delays_a_job(seed: int, policy: str) -> None:
    """Jobs of one unit without a cap: a job waits only while every unit is busy, and takes one that becomes free."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    run_s = rng.exponential(80.0, n) + 1.0
    jobs = Jobs.build(np.sort(rng.uniform(0, 300, n)), np.ones(n), run_s, walltime_s=1.5 * run_s, job_id=range(n))
    jobs = replace(jobs, mean_power_w=rng.uniform(90, 200, n))
    run = simulate(jobs, plain_machine(4, 80.0, 200.0), load_policy(policy))
    again = replay(recorded(run))
    np.testing.assert_array_equal(again.schedule.start_s, run.schedule.start_s)
    np.testing.assert_array_equal(again.schedule.end_s, run.schedule.end_s)
    same_power(again.power, run.power)
    assert again.notes == {}


def two_jobs_under_a_cap() -> RecordedSchedule:
    """Two jobs of 100 W on two units: a cap of 150 W lets the second one start when the first has ended."""
    jobs = Jobs.build([0.0, 1.0], [1, 1], [10.0, 10.0], mean_power_w=[100.0, 100.0])
    machine = replace(plain_machine(2, 0.0, 100.0), cap_scope="jobs")
    return recorded(simulate(jobs, machine, load_policy("easy"), cap=Cap.constant(150.0)))


def test_a_cap_delays_nothing_and_its_excess_is_reported() -> None:
    fixed = two_jobs_under_a_cap()
    assert fixed.schedule.start_s.tolist() == [0.0, 10.0]
    moved = replace(fixed, schedule=replace(fixed.schedule, unit_low=np.array([0, 1]), unit_high=np.array([0, 1])))
    again = replay(moved)
    assert again.schedule.start_s.tolist() == [0.0, 1.0]
    figures = metrics(again.jobs, again.schedule, again.power, again.machine, again.cap)
    assert figures["cap_overshoot_w"] == 50.0
    assert figures["cap_over_s"] == 9.0
    assert again.notes == {EARLIER: 1}


def test_longer_run_times_delay_what_follows_on_the_same_unit() -> None:
    fixed = two_jobs_under_a_cap()
    longer = replace(fixed.jobs, runtime_s=np.array([15.0, 10.0]), walltime_s=np.array([15.0, 4.0]))
    for starts in ("places", "recorded"):
        again = replay_workload(fixed, longer, starts=starts)
        assert again.schedule.start_s.tolist() == [0.0, 15.0]
        assert again.schedule.end_s.tolist() == [15.0, 19.0]  # the second is killed at its walltime
        assert again.notes == {LATER: 1}


def test_a_workload_in_another_order_is_matched_by_id() -> None:
    fixed = two_jobs_under_a_cap()
    again = replay_workload(fixed, fixed.jobs.take(np.array([1, 0])), starts="recorded")
    assert again.schedule.start_s.tolist() == [10.0, 0.0]


@given(st.integers(0, 10**9))
def test_units_that_differ_in_watts_and_speed_are_replayed_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, units = int(rng.integers(1, 25)), 6
    apps = Labels(rng.integers(-1, 2, n).astype(np.int32), ("cg", "ft"))
    jobs = Jobs.build(np.sort(rng.uniform(0, 200, n)), rng.integers(1, 4, n), rng.exponential(60, n) + 1.0, app=apps)
    power = rng.uniform(90, 180, (n, 1))
    factor, time = rng.uniform(0.8, 1.2, (2, 2, units))
    actual = Prediction(power, np.ones((n, 1)), unit_factor=factor, unit_time_factor=time)
    run = simulate(jobs, plain_machine(units, 80.0, 200.0), load_policy("easy"), actual=actual)
    for starts in ("recorded", "places"):
        again = replay_workload(recorded(run), jobs, actual=actual, starts=starts)
        assert (again.schedule.start_s <= run.schedule.start_s).all()
        check_invariants(again)
    fixed = replay_workload(recorded(run), jobs, actual=actual, starts="recorded")
    np.testing.assert_array_equal(fixed.schedule.end_s, run.schedule.end_s)
    same_power(fixed.power, run.power)


def test_jobs_that_never_ran_stay_away() -> None:
    jobs = Jobs.build([0.0, 0.0], [1, 5], [10.0, 10.0])
    run = simulate(jobs, plain_machine(2, 10.0, 100.0), load_policy("easy"))
    again = replay(recorded(run))
    assert again.notes == {NOT_RUN: 1}
    np.testing.assert_array_equal(again.schedule.state, run.schedule.state)


def test_phases_of_a_workload_are_replayed() -> None:
    jobs = generate("marconi:days=0.05", np.random.default_rng(1))
    assert jobs.profiles is not None
    run = simulate(jobs, plain_machine(980, 240.0, 1500.0), load_policy("easy"))
    again = replay_workload(recorded(run), jobs, starts="recorded")
    one, kept = with_phases(run)
    other, also = with_phases(again)
    assert also == kept
    np.testing.assert_array_equal(other.schedule.energy_j, one.schedule.energy_j)
    np.testing.assert_array_equal(other.power.jobs_w, one.power.jobs_w)


def changed(**columns: Any) -> RecordedSchedule:
    fixed = two_jobs_under_a_cap()
    return replace(fixed, schedule=replace(fixed.schedule, **{k: np.array(v) for k, v in columns.items()}))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"start_s": [0.0, 5.0]}, "jobs 1 and 2 both hold unit 0 at 5.000000 s"),
        ({"unit_low": [0, 7], "unit_high": [0, 7]}, "job 2 holds unit 7"),
        ({"unit_low": [-1, 0], "unit_high": [0, 0]}, "job 1 holds unit -1"),
        ({"unit_high": [1, 0]}, "job 1 asked for 1 units and held 2"),
        ({"start_s": [0.0, 0.5]}, "job 2 starts at 0.500000 s, before its submission"),
    ],
)
def test_a_schedule_that_cannot_have_been_is_one_line(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        changed(**columns)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jobs_that_one_side_lacks_are_named() -> None:
    fixed = two_jobs_under_a_cap()
    with pytest.raises(InputError, match="job 2 of the schedule is not in the workload"):
        replay_workload(fixed, fixed.jobs.take(np.array([0])))
    more = Jobs.build([0.0, 1.0, 2.0], [1, 1, 1], [10.0, 10.0, 10.0])
    with pytest.raises(InputError, match="job 3 of the workload is not in the schedule"):
        replay_workload(fixed, more)
    wider = replace(fixed.jobs, nodes=np.array([1, 2], np.int32))
    with pytest.raises(InputError, match="job 2 asked for 2 units and held 1"):
        replay_workload(fixed, wider)
    twice = replace(more, job_id=np.array([1, 1, 2]))
    with pytest.raises(InputError, match="two jobs of one id"):
        replay_workload(fixed, twice)
    with pytest.raises(InputError, match="unknown starts"):
        replay(fixed, starts="never")  # type: ignore[arg-type]
