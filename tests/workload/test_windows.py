"""Windows of a trace: who is in them, what is past, and how their begins are chosen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.workload.cycle import DAY_S, HOUR_S
from wattqueue.workload.windows import busy_begins, cut, nodes_in_system


def five() -> tuple[Jobs, np.ndarray]:
    """Ended, running, waiting, submitted within the day, submitted after it; and one that never ran."""
    submit = [0.0, 10.0, 90.0, 500.0, DAY_S + 150.0, 20.0]
    jobs = Jobs.build(submit, [1, 2, 4, 8, 16, 32], [50.0] * 6, user=["a", "b", "a", "c", "a", "b"])
    return jobs, np.array([60.0, 110.0, 400.0, 900.0, DAY_S + 300.0, np.nan])


def test_what_is_in_a_window_and_what_is_past() -> None:
    jobs, end = five()
    window = cut(jobs, end, 100.0, 1.0)
    assert window.jobs.job_id.tolist() == [2, 3, 4, 6]
    assert window.jobs.submit_s.tolist() == [100.0, 100.0, 500.0, 100.0]
    assert window.jobs.runtime_s.tolist() == [50.0] * 4  # whole jobs
    assert window.past.jobs.job_id.tolist() == [1]
    assert window.past.end_s.tolist() == [60.0]


def test_a_job_that_ends_at_the_begin_is_past() -> None:
    jobs, end = five()
    window = cut(jobs, end, 110.0, 1.0)
    assert window.past.jobs.job_id.tolist() == [1, 2]
    assert 2 not in window.jobs.job_id


def test_nodes_in_system_by_hand() -> None:
    jobs, end = five()
    assert nodes_in_system(jobs, end, np.array([-1.0, 0.0, 20.0, 60.0, 100.0, 110.0, 400.0])).tolist() == [
        0, 1, 35, 34, 38, 36, 32,
    ]  # fmt: skip


@pytest.mark.parametrize(("begin", "days"), [(100.0, 2.0), (100.0, 0.0), (2 * DAY_S, 0.5)])
def test_a_trace_shorter_than_the_window_is_refused(begin: float, days: float) -> None:
    jobs, end = five()
    with pytest.raises(InputError):
        cut(jobs, end, begin, days)


def test_a_past_must_be_in_order_of_ends() -> None:
    jobs, _ = five()
    with pytest.raises(InputError):
        Past(jobs, np.array([3.0, 2.0, 4.0, 5.0, 6.0, 7.0]))
    with pytest.raises(InputError):
        Past(jobs, np.array([3.0]))


def test_users_are_the_same_where_their_names_are() -> None:
    jobs, end = five()
    past = Past.before(jobs, end, 400.0)
    assert past.jobs.job_id.tolist() == [1, 2, 3]
    assert past.user_codes(("z", "b")).tolist() == [-1, 1, -1]
    assert past.user_codes(jobs.user.names).tolist() == [0, 1, 0]


def trace(seed: int, n: int = 400) -> tuple[Jobs, np.ndarray]:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, 20 * DAY_S, n))
    runtime = rng.exponential(4 * HOUR_S, n) + 1
    jobs = Jobs.build(
        submit, rng.integers(1, 9, n), runtime, mean_power_w=rng.uniform(1, 9, n), user=rng.choice(["a", "b"], n)
    )
    return jobs, submit + runtime * rng.uniform(1, 2, n)


@given(st.integers(0, 2**40), st.integers(1, 4))
def test_begins_are_busy_warm_and_apart(seed: int, count: int) -> None:
    jobs, end = trace(seed)
    rules = {"count": count, "nodes": 10.0, "days": 2.0, "warm_days": 3.0, "apart_days": 1.5}
    begins = busy_begins(np.random.default_rng(seed), jobs, end, **rules)  # type: ignore[arg-type]
    assert begins.tolist() == busy_begins(np.random.default_rng(seed), jobs, end, **rules).tolist()  # type: ignore[arg-type]
    assert len(begins) == count
    assert (begins % HOUR_S == 0).all()
    assert (nodes_in_system(jobs, end, begins) >= 10).all()
    assert (np.diff(begins) >= 1.5 * DAY_S).all()
    assert begins[0] >= jobs.submit_s[0] + 3 * DAY_S
    assert begins[-1] + 2 * DAY_S <= jobs.submit_s[-1]


def test_too_few_busy_hours_are_refused() -> None:
    jobs, end = trace(3)
    with pytest.raises(InputError):
        busy_begins(np.random.default_rng(0), jobs, end, count=30, nodes=10.0, days=2.0, warm_days=3.0, apart_days=1.5)


@given(st.integers(0, 2**40))
def test_nothing_of_what_comes_later_is_past(seed: int) -> None:
    """Whatever later jobs draw and take, the past stays what it was."""
    jobs, end = trace(seed)
    begin = 10 * DAY_S
    later = ~(end <= begin)
    assert jobs.mean_power_w is not None
    other = replace(
        jobs,
        runtime_s=np.where(later, jobs.runtime_s * 3, jobs.runtime_s),
        walltime_s=np.where(later, jobs.walltime_s * 3, jobs.walltime_s),
        mean_power_w=np.where(later, 1e5, jobs.mean_power_w),
    )
    a, b = cut(jobs, end, begin, 2.0), cut(other, np.where(later, end * 2, end), begin, 2.0)
    assert a.past.jobs.job_id.tolist() == b.past.jobs.job_id.tolist()
    assert a.past.jobs.mean_power_w is not None
    assert a.past.jobs.mean_power_w.tolist() == b.past.jobs.mean_power_w.tolist()  # type: ignore[union-attr]
    assert a.past.end_s.tolist() == b.past.end_s.tolist()
    assert a.jobs.job_id.tolist() == b.jobs.job_id.tolist()
