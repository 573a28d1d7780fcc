"""Who waits longer, and when: sums over jobs that are small enough to check by hand."""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.whatif.delayed_users import Extra, cost_of_hours, delayed_users, worst_hours

JOBS = Jobs.build(
    submit_s=[0.0, 100.0, 3_700.0, 3_800.0, 90_000.0],
    nodes=[2, 1, 4, 1, 8],
    runtime_s=[3_600.0, 3_600.0, 1_800.0, 3_600.0, 3_600.0],
    user=["ann", "bob", "ann", "", "bob"],
)
PLAIN = (JOBS.submit_s.copy(), JOBS.submit_s + JOBS.runtime_s)
START = JOBS.submit_s + np.array([0.0, 7_200.0, 3_600.0, 0.0, np.nan])
EXTRA = Extra.of(PLAIN, (START, START + JOBS.runtime_s))


def test_extra_waits_and_jobs_that_never_ran() -> None:
    assert EXTRA.wait_s[:4].tolist() == [0, 7_200, 3_600, 0]
    assert EXTRA.never_ran.tolist() == [False, False, False, False, True]
    assert np.allclose(EXTRA.run_s[:4], 0.0)


def test_payers_are_sorted_by_what_they_pay() -> None:
    found = delayed_users("user", JOBS.user, JOBS, EXTRA, JOBS.runtime_s)
    assert found.name == ("ann", "bob", "(unknown)")
    assert found.wait_node_h.tolist() == [4.0, 2.0, 0.0]
    assert np.allclose(found.wait_share, [4 / 6, 2 / 6, 0.0])
    assert np.allclose(found.work_share, np.array([4.0, 9.0, 1.0]) / 14.0)
    assert found.jobs.tolist() == [2, 1, 1]
    assert found.wait_mean_s.tolist() == [1_800, 7_200, 0]


def test_worst_hours_are_hours_of_submission() -> None:
    begin, cost = cost_of_hours(JOBS, EXTRA)
    assert begin.tolist() == [0, 3_600, 90_000]
    assert cost.tolist() == [2, 4, 0]
    found = worst_hours(JOBS, EXTRA, PLAIN[0])
    assert [(h.begin_s, h.jobs, h.delayed, h.wait_node_h) for h in found] == [(3_600, 2, 1, 4), (0, 2, 1, 2)]
    assert found[0].wait_mean_s == 1_800


def test_hours_follow_the_clock_they_are_given() -> None:
    assert cost_of_hours(JOBS, EXTRA, zero_s=-1_800.0)[0].tolist() == [-1_800, 1_800, 88_200]


def test_a_cap_that_costs_nothing_has_no_worst_hour() -> None:
    assert worst_hours(JOBS, Extra.of(PLAIN, PLAIN), PLAIN[0]) == ()
    assert delayed_users("user", JOBS.user, JOBS, Extra.of(PLAIN, PLAIN), JOBS.runtime_s).wait_share.tolist() == [
        0,
        0,
        0,
    ]
