"""A run that begins with a past: an estimator knows what it would know, had it lived through it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.workload.windows import cut

HISTORIES = ("history-mean", "history-max", "last-job", "app-mean", "history-quantile")


def test_two_jobs_of_a_known_user_fit_under_the_cap() -> None:
    """A node may draw 1,000 W; user a drew 300 W: under 700 W two of his jobs run at once, and none of b's."""
    machine = plain_machine(2, 0.0, 1000.0)
    before = Jobs.build([0.0], [1], [10.0], user=["a"], mean_power_w=[300.0], max_power_w=[300.0])
    now = Jobs.build([100.0, 100.0], [1, 1], [50.0, 50.0], user=["a", "a"], mean_power_w=[300.0, 300.0])
    cap = Cap.constant(700.0)
    policy = load_policy("easy+pc-mean")
    warm = simulate(now, machine, policy, cap=cap, past=Past.before(before, np.array([10.0]), 100.0))
    assert warm.schedule.start_s.tolist() == [100.0, 100.0]
    assert warm.schedule.predicted_w.tolist() == [300.0, 300.0]
    cold = simulate(now, machine, policy, cap=cap)
    assert np.isnan(cold.schedule.start_s).all()  # 1,000 W above the cap, for ever


def halves(seed: int) -> Jobs:
    """Jobs of three users in two spells, with a time between in which nothing runs; one more after two days."""
    rng = np.random.default_rng(seed)
    n = 60
    submit = np.sort(rng.integers(0, 500, n).astype(np.float64))
    submit[n // 2 :] += 10_000.0
    submit[-1] = 200_000.0
    mean = rng.uniform(100, 900, n).round(3)
    return Jobs.build(
        submit, rng.integers(1, 4, n), rng.integers(1, 60, n).astype(np.float64),
        user=rng.choice(["a", "b", "c"], n), app=rng.choice(["x", "y", ""], n),
        mean_power_w=mean, max_power_w=mean * 1.1,
    )  # fmt: skip


@pytest.mark.parametrize("estimator", HISTORIES)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**40))
def test_a_window_from_an_idle_instant_is_the_rest_of_the_whole_run(estimator: str, seed: int) -> None:
    jobs, machine = halves(seed), plain_machine(6, 50.0, 1000.0)
    policy = load_policy("easy+pc", estimator=estimator)
    cap = Cap(np.array([-np.inf, 10_000.0]), np.array([np.inf, 2500.0]))
    whole = simulate(jobs, machine, policy, cap=cap).schedule
    window = cut(jobs, whole.end_s, 10_000.0, 1.0)
    rest = simulate(window.jobs, machine, policy, cap=cap, past=window.past).schedule
    kept = np.isin(jobs.job_id, window.jobs.job_id)
    assert kept.sum() == 29
    np.testing.assert_array_equal(rest.start_s, whole.start_s[kept])
    np.testing.assert_array_equal(rest.predicted_w, whole.predicted_w[kept])


def test_an_estimator_that_cannot_remember_is_refused() -> None:
    jobs = halves(1)
    window = cut(jobs, jobs.submit_s + 60.0, 10_000.0, 1.0)
    policy = load_policy("easy", estimator="linear")
    with pytest.raises(PolicyError) as caught:
        simulate(window.jobs, plain_machine(6, 0.0, 1000.0), policy, past=window.past)
    assert caught.value.where == type(policy.estimator).__name__
    assert caught.value.hint


def test_one_that_is_asked_once_has_nothing_to_remember() -> None:
    jobs = halves(2)
    window = cut(jobs, jobs.submit_s + 60.0, 10_000.0, 1.0)
    machine = plain_machine(6, 0.0, 1000.0)
    a = simulate(window.jobs, machine, load_policy("easy"), past=window.past)
    b = simulate(window.jobs, machine, load_policy("easy"))
    assert a.schedule.start_s.tolist() == b.schedule.start_s.tolist()
