"""Running jobs whose users consent are suspended during a load target, as few as possible, and continue after it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.parts.test_load_targets import JOB, jobs_of, run
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget
from wattqueue.parts.controls.park_consenting import fewest

FULL_W = 80.0
"""Net watts of a node; the machine of four nodes draws 80 W idle."""


def test_the_fewest_jobs_are_suspended_and_continue_when_the_target_ends() -> None:
    # 1, 2 and 1 nodes at 80 W each above 80 W idle; 320 W allowed: the job of two nodes alone is parked.
    jobs = jobs_of([0, 0, 0], [1, 2, 1], [1, 1, 0])
    done = run(jobs, "dr-parking", LoadTarget(50.0, 70.0, 240.0))
    assert done.schedule.end_s.tolist() == [100.0, 120.0, 100.0]
    assert done.parked_s.tolist() == [0.0, 20.0, 0.0]


def test_limits_of_users_are_kept() -> None:
    late = jobs_of([0, 0], [1, 1], [1, 1], latest_end_s=[110.0, 130.0])
    done = run(late, "dr-parking", LoadTarget(50.0, 70.0, 160.0))
    assert done.parked_s.tolist() == [0.0, 20.0], "the first would end at 120 s"
    slow = jobs_of([0, 0], [1, 1], [1, 1], greatest_slowdown=[1.1, 1.2])
    done = run(slow, "dr-parking", LoadTarget(50.0, 70.0, 160.0))
    assert done.parked_s.tolist() == [0.0, 20.0]


def test_a_job_with_checkpoints_is_requeued_and_goes_on_from_the_last_one() -> None:
    # At 50 s the first has kept 2 * 20 s of work, the second is suspended; both are wanted. 60 s are left at 70 s.
    jobs = jobs_of([0, 0, 0], [1, 1, 2], [1, 1, 0], checkpoint_s=[20.0, np.nan, np.nan])
    done = run(jobs, "dr-parking", LoadTarget(50.0, 70.0, 240.0))
    assert done.checkpointed_s.tolist() == [40.0, 0.0, 0.0]
    assert done.parked_s.tolist() == [0.0, 20.0, 0.0]
    assert done.schedule.start_s.tolist() == [70.0, 0.0, 0.0]
    assert done.schedule.end_s.tolist() == [130.0, 120.0, 100.0]


def test_the_nodes_of_a_requeued_job_are_free_for_others() -> None:
    # 400 W with the first two busy; at most 300 W from 50 s on, which the first does not fit: another takes its place.
    jobs = jobs_of([0, 0, 60], [3, 1, 1], [1, 0, 0], checkpoint_s=[50.0, np.nan, np.nan])
    done = run(jobs, "dr-parking", LoadTarget(50.0, 170.0, 300.0))
    assert done.schedule.start_s.tolist() == [170.0, 0.0, 60.0]
    assert done.checkpointed_s.tolist() == [50.0, 0.0, 0.0]


def test_limits_of_users_count_the_work_that_is_done_again() -> None:
    jobs = jobs_of([0, 0], [1, 1], [1, 1], checkpoint_s=[30.0, 30.0], latest_end_s=[139.0, 140.0])
    done = run(jobs, "dr-parking", LoadTarget(50.0, 70.0, 160.0))
    assert done.checkpointed_s.tolist() == [0.0, 30.0], "20 s of pause, and 20 s again"


def test_parked_jobs_come_before_new_ones_after_the_target() -> None:
    jobs = jobs_of([0, 0, 60], [2, 2, 2], [1, 1, 1])
    done = run(jobs, "dr-parking", LoadTarget(50.0, 70.0, 80.0))
    assert done.parked_s.tolist() == [20.0, 20.0, 0.0]
    assert done.schedule.start_s[2] == 120.0


@given(st.lists(JOB, min_size=1, max_size=8), st.integers(80, 400), st.floats(0.0, 200.0))
def test_a_disallowed_job_is_never_suspended(rows: list[tuple[int, int, float, int]], watts: int, begin: float) -> None:
    submit, nodes, allowed, run_s = (list(column) for column in zip(*rows, strict=True))
    jobs = Jobs.build(submit, nodes, run_s, consent=Consent.build(len(rows), allowed=allowed))
    done = run(jobs, "dr-parking", LoadTarget(begin, begin + 100.0, watts))
    assert done.schedule.ran.all()
    assert not done.parked_s[np.array(allowed) != 1].any()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 100))
def test_fewest_is_the_least_number_that_suffices(watts: list[int], excess: int) -> None:
    chosen = fewest(np.array(watts, np.float64), float(excess))
    assert len(set(chosen.tolist())) == len(chosen)
    most_first = np.cumsum(sorted(watts, reverse=True))
    if most_first[-1] < excess:
        assert len(chosen) == len(watts)
    else:
        assert np.array(watts)[chosen].sum() >= excess
        assert len(chosen) == int(np.searchsorted(most_first, excess)) + 1
