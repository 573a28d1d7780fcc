"""Lists of frequency parts in a run: options for use in load targets, and windows that leave nothing, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.test_consent_rule import MACHINE, SQUARE, WINDOW, jobs_of, run
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTarget
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.contracts import Entries
from wattqueue.policy.consent_windows import KEPT_NEAREST
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

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
    assert (done.schedule.option.tolist(), done.notes[KEPT_NEAREST]) == ([1, 0, 0], 1)
    # The third job has no window: it stays at the highest frequency, which the next part does not offer.
    both = [WINDOW, {"part": "frequency-window", "lowest_hz": 1.0e9, "highest_hz": 1.5e9}]
    done = simulate(windows((2.0e9, 2.0e9), (np.nan, np.nan)), MACHINE, load_policy("easy", frequency=both))
    assert (done.schedule.option.tolist(), KEPT_NEAREST in done.notes) == ([0, 1], False), (
        "a user's window is no policy's"
    )


LATE_CAP = Cap(np.array([-np.inf, 150.0]), np.array([np.inf, 200.0]))
"""No cap for 150 s, then 120 W for jobs."""
OUT = [WINDOW, "capped-windows"]


def wishing(*rows: tuple[float, float], capped: float) -> Jobs:
    """Jobs on one node of (submit, run time), whose users may want no capped window (0)."""
    submit, run_s = (list(column) for column in zip(*rows, strict=True))
    column = {"capped_windows": np.full(len(rows), capped)}
    return Jobs.build(submit, [1] * len(rows), run_s, extra=column)


@pytest.mark.parametrize(("capped", "last"), [(0.0, 1), (1.0, 2), (np.nan, 2)])
def test_who_wants_no_capped_window_runs_at_frequencies_that_end_before_it(capped: float, last: int) -> None:
    """100 s take 133 s and 200 s at the lower clocks: only the first ends before the cap at 150 s."""
    policy = load_policy(
        "easy", frequency=[{"part": "frequency-window", "highest_hz": 1.5e9, "lowest_hz": 0.0}, OUT[1]]
    )
    one = policy.frequency.window
    jobs = KnownJobs.of(wishing((0.0, 100.0), capped=capped))
    entries = Entries(np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1))
    prediction = policy.estimator.predict(jobs, MACHINE)
    found = one(jobs, entries, prediction, MACHINE, Signals(LATE_CAP))
    assert [side.tolist() for side in found] == [[1], [last]]


def test_who_cannot_stay_out_keeps_the_nearest_frequency_and_is_counted() -> None:
    policy = load_policy(
        "easy", frequency=[{"part": "frequency-window", "highest_hz": 1.5e9, "lowest_hz": 0.0}, OUT[1]]
    )
    done = run(wishing((0.0, 100.0), (0.0, 120.0), capped=0.0), policy, cap_w=LATE_CAP)
    assert (done.schedule.option.tolist(), done.notes[KEPT_NEAREST]) == ([1, 1], 1), "160 s end in the capped window"


def test_a_cap_in_which_nobody_wants_to_run_is_refused() -> None:
    with pytest.raises(PolicyError, match="no job has an option"):
        run(wishing((0.0, 100.0), capped=0.0), load_policy("easy", frequency=OUT), cap_w=400.0)
    done = run(wishing((0.0, 100.0), capped=0.0), load_policy("easy", frequency=OUT))
    assert KEPT_NEAREST not in done.notes


def test_a_wish_that_nobody_has_is_named() -> None:
    done = run(jobs_of((0, 1, 10.0)), load_policy("easy", frequency=OUT), cap_w=400.0)
    assert any("no job wants to stay out of capped windows" in text for text in done.without_effect)


def test_a_file_that_leaves_no_job_an_option_is_refused() -> None:
    with pytest.raises(PolicyError, match="no job has an option"):
        simulate(windows((1.6e9, 1.9e9), (0.1e9, 0.2e9)), MACHINE, load_policy("pas"))
    nothing = [WINDOW, {"part": "frequency-window", "lowest_hz": 0.1e9, "highest_hz": 0.2e9}]
    with pytest.raises(PolicyError, match="no job has an option"):
        simulate(jobs_of((0, 1, 10.0)), MACHINE, load_policy("easy", frequency=nothing))
