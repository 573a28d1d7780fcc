"""Lists of frequency parts in a run: options for use in load targets, and windows that leave nothing, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.test_consent_rule import MACHINE, SQUARE, WINDOW, jobs_of, run
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import NO_OPTION, simulate

PASSES = ["none", "first-fit", "easy", "easy-sjbf", "conservative", "easy-ahead"]
TARGET = LoadTarget(0.0, 300.0, 160.0)
"""80 W for jobs: a job of two nodes takes 160, 120 or 80 W."""
LATER = LoadTarget(1_000.0, 2_000.0, 160.0)


def consent(**options: Any) -> Any:
    return ["highest", {"part": "consent", **options}]


@pytest.mark.parametrize("backfill", PASSES)
def test_in_a_target_a_consenting_job_may_start_lower_and_no_other_does(backfill: str) -> None:
    policy = load_policy("easy", frequency=consent(), backfill=backfill)
    done = run(jobs_of((0, 2, 100.0), allowed=[1]), policy, TARGET)
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([2], [0.0])
    done = run(jobs_of((0, 2, 100.0), allowed=[0]), policy, TARGET)
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([0], [300.0])
    done = run(jobs_of((0, 2, 100.0), allowed=[1], greatest_slowdown=[1.9]), policy, TARGET)
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([0], [300.0])


@pytest.mark.parametrize("backfill", PASSES)
def test_a_cap_slows_nobody_by_options_that_are_for_targets(backfill: str) -> None:
    """280 W leave 200 W: one job of two nodes at a time, where ``frequency-window`` starts the second one lower."""
    jobs = jobs_of((0, 2, 100.0), (1, 2, 100.0), allowed=[1, 1])
    done = run(jobs, load_policy("easy", frequency=consent(), backfill=backfill), LATER, cap_w=280.0)
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([0, 0], [0.0, 100.0])


def test_the_highest_that_fits_or_the_lowest_in_a_target() -> None:
    # 200 W leave 120 W: one node fits at its highest frequency.
    target, jobs = LoadTarget(0.0, 300.0, 200.0), jobs_of((0, 1, 100.0), allowed=[1])
    assert run(jobs, load_policy("easy", frequency=consent()), target).schedule.option.tolist() == [0]
    lowest = load_policy("easy", frequency=consent(start="lowest"))
    assert run(jobs, lowest, target).schedule.option.tolist() == [2]
    bounded = load_policy("easy", frequency=consent(start="lowest", frequency_hz=1.6e9))
    assert run(jobs, bounded, target).schedule.option.tolist() == [1]


def test_options_for_targets_stand_behind_the_window_of_another_part() -> None:
    """A window of two options for the cap; the third is for a target."""
    window = [{"part": "frequency-window", "lowest_hz": 1.5e9}, "consent"]
    policy = load_policy("easy", frequency=window)
    jobs = jobs_of((0, 2, 100.0), allowed=[1])
    assert run(jobs, policy, LATER, cap_w=200.0).schedule.option.tolist() == [1]
    assert run(jobs, policy, TARGET).schedule.option.tolist() == [2]
    lower = load_policy("easy", frequency=["least-energy", "consent"])
    # Watts above idle fall with the square: 100 W for 100 s, 65 W for 133 s, 40 W for 200 s: 10, 8.7 and 8 kJ.
    assert run(jobs, lower, machine=SQUARE).schedule.option.tolist() == [2]


def test_a_control_slows_a_running_job_to_an_option_for_targets() -> None:
    policy = load_policy("easy", frequency=consent(), controls=["slow-consenting"])
    target = LoadTarget(50.0, 1_000.0, 160.0)
    done = run(jobs_of((0, 2, 100.0), allowed=[1]), policy, target)
    assert done.schedule.end_s.tolist() == [150.0], "50 s at full speed, 50 s of work at half speed"


def test_a_policy_of_target_at_start_is_one_of_the_list() -> None:
    jobs = jobs_of(*((float(k), 1 + k % 2, 60.0) for k in range(12)), allowed=[k % 2 for k in range(12)])
    named, listed = (
        run(jobs, load_policy("dr-running", frequency=each), LoadTarget(30.0, 900.0, 240.0), cap_w=400.0)
        for each in ("target-at-start", consent(start="lowest"))
    )
    np.testing.assert_array_equal(named.schedule.start_s, listed.schedule.start_s)
    np.testing.assert_array_equal(named.schedule.option, listed.schedule.option)
    assert set(named.schedule.option.tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["consent", "highest"], "no window to add options to"),
        (["highest", "consent", "target-at-start"], "2 parts add options"),
        (["highest", {"part": "consent", "start": "middle"}], "start is 'middle'"),
    ],
)
def test_lists_that_mean_nothing_are_refused(value: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        load_policy("easy", frequency=value)


def windows(*bounds: tuple[float, float]) -> Jobs:
    low, high = (np.array(side) for side in zip(*bounds, strict=True))
    columns = {"frequency_min_hz": low, "frequency_max_hz": high}
    return Jobs.build(np.zeros(len(low)), np.ones(len(low), int), np.full(len(low), 10.0), extra=columns)


def test_jobs_without_an_option_keep_the_nearest_and_are_counted() -> None:
    jobs = windows((1.6e9, 1.9e9), (1.0e9, 2.0e9), (np.nan, np.nan))
    done = simulate(jobs, MACHINE, load_policy("easy", frequency="frequency-window"))
    assert (done.schedule.option.tolist(), done.notes[NO_OPTION]) == ([1, 0, 0], 1)
    # The third job has no window: it stays at the highest frequency, which the next part does not offer.
    both = [WINDOW, {"part": "frequency-window", "lowest_hz": 1.0e9, "highest_hz": 1.5e9}]
    done = simulate(windows((2.0e9, 2.0e9), (np.nan, np.nan)), MACHINE, load_policy("easy", frequency=both))
    assert (done.schedule.option.tolist(), NO_OPTION in done.notes) == ([0, 1], False), "a user's window is no policy's"


def test_a_file_that_leaves_no_job_an_option_is_refused() -> None:
    with pytest.raises(PolicyError, match="no job has an option"):
        simulate(windows((1.6e9, 1.9e9), (0.1e9, 0.2e9)), MACHINE, load_policy("pas"))
    nothing = [WINDOW, {"part": "frequency-window", "lowest_hz": 0.1e9, "highest_hz": 0.2e9}]
    with pytest.raises(PolicyError, match="no job has an option"):
        simulate(jobs_of((0, 1, 10.0)), MACHINE, load_policy("easy", frequency=nothing))
