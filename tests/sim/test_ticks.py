"""True watts that follow power profiles in the run: cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.test_device_limits import Once
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.parts.actions import SetDeviceLimits, SetFrequency
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import has_phases

PART = Partition("p", 1, frequencies_hz=(2e9, 1e9), max_w=200.0)
"""Time is 1 / speed; watts above idle fall with the square of the speed."""


def replay(phases_s: float, *controls: Once, part: Partition = PART) -> Run:
    """Replay one job of 20 s: 100 W in its first half, 50 W in its second."""
    profiles = PowerProfiles.from_samples([[100.0, 50.0]], 10.0)
    mean = profiles.mean_power_w(np.array([20.0]))
    jobs = Jobs.build([0.0], [1], [20.0], walltime_s=[80.0], mean_power_w=mean, profiles=profiles)
    policy = replace(load_policy("easy"), controls=controls)
    return simulate(jobs, Machine("one", (part,)), policy, phases_s=phases_s)


def steps(run: Run) -> list[tuple[float, float]]:
    """Times and watts of the power series, without rows that change nothing."""
    rows = list(zip(run.power.time_s.tolist(), run.power.jobs_w.tolist(), strict=True))
    return [row for k, row in enumerate(rows) if k == 0 or row[1] != rows[k - 1][1]]


def test_watts_follow_the_work_done() -> None:
    run = replay(5.0)
    assert steps(run) == [(0.0, 100.0), (10.0, 50.0), (20.0, 0.0)]
    assert run.schedule.energy_j.tolist() == [1500.0]
    assert not has_phases(run)  # nothing is left to put in after the run


def test_a_sample_holds_to_the_next_tick() -> None:
    run = replay(7.0)
    assert steps(run) == [(0.0, 100.0), (14.0, 50.0), (20.0, 0.0)]
    assert run.schedule.energy_j.tolist() == [1700.0]


def test_a_limited_job_walks_through_its_profile_more_slowly() -> None:
    """25 W are half the speed for 100 W, 0.7071 of it for 50 W: the limit binds in both halves."""
    run = replay(1.0, Once(0.0, SetDeviceLimits([0], [25.0])))
    assert run.schedule.end_s.tolist() == [pytest.approx(20.0 + 10.0 * 2**0.5, abs=1e-6)]
    assert steps(run)[:-1] == [(0.0, 25.0)]


def test_a_limit_that_only_the_first_half_reaches() -> None:
    """0.7746 of the speed for 100 W under a limit of 60 W; 50 W fit below it."""
    run = replay(1.0, Once(0.0, SetDeviceLimits([0], [60.0])))
    first_s = 10.0 * (100.0 / 60.0) ** 0.5
    change_s = np.ceil(first_s)  # the sample changes at the next tick
    left_s = 20.0 - change_s * (60.0 / 100.0) ** 0.5
    assert run.schedule.end_s.tolist() == [pytest.approx(change_s + left_s, abs=1e-5)]
    assert [watts for _, watts in steps(run)] == [60.0, 50.0, 0.0]


def test_another_frequency_scales_the_samples_above_idle() -> None:
    """At half the frequency a quarter of the watts above idle, from 5 s on; the second half begins at 15 s."""
    part = replace(PART, idle_w=20.0)
    run = replay(1.0, Once(5.0, SetFrequency("1", 1)), part=part)
    assert steps(run) == [(0.0, 100.0), (5.0, 40.0), (15.0, 27.5), (35.0, 0.0)]


@pytest.mark.parametrize("phases_s", [0.0, -1.0, np.nan, np.inf, 1e-9])
def test_ticks_need_a_length(phases_s: float) -> None:
    with pytest.raises(InputError):
        replay(phases_s)


def test_jobs_without_profiles_have_no_phases() -> None:
    with pytest.raises(InputError) as caught:
        simulate(Jobs.build([0.0], [1], [20.0]), Machine("one", (PART,)), load_policy("easy"), phases_s=1.0)
    assert caught.value.where == "jobs"
