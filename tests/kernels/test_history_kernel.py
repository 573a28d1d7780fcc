"""Eq. 1-3 in O(1) against the equations as printed, and the edge rules one by one."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import history as twin
from wattqueue.kernels.history import History, history_learn_rows, history_predict_rows, history_replay, new_history

DAY = 86_400.0
RULES = [(1.0, math.inf), (2.0, math.inf), (0.5, math.inf), (1.0, 600.0), (2.0, 600.0), (0.5, 600.0), (2.0, 30.0)]


def answer(state: History, user: int, now: float) -> tuple[float, float, float]:
    out = np.full((1, 3), np.nan)
    history_predict_rows(state, np.array([user], np.int32), now, out)
    return out[0, 0], out[0, 1], out[0, 2]


def taught(alpha: float, window_s: float, jobs: list[tuple[int, float, float]]) -> History:
    user = np.array([j[0] for j in jobs], np.int32)
    state = new_history(np.bincount(user[user >= 0], minlength=3), alpha=alpha, window_s=window_s)
    history_learn_rows(state, user, np.array([j[1] for j in jobs]), np.array([j[2] for j in jobs]))
    return state


def test_nobody_has_finished_gives_nan() -> None:
    assert math.isnan(answer(taught(2, math.inf, []), 0, 5.0)[0])


def test_a_single_earlier_job_counts_fully_though_its_weight_is_zero() -> None:
    assert answer(taught(2, math.inf, [(0, 10.0, 400.0)]), 0, 50.0)[0] == 400.0


def test_weights_all_zero_give_the_plain_mean() -> None:
    state = taught(2, math.inf, [(0, 10.0, 400.0), (0, 10.0, 600.0)])
    assert answer(state, 0, 10.0)[0] == 500.0
    edge = taught(2, 40.0, [(0, 10.0, 400.0), (0, 10.0, 600.0)])
    assert answer(edge, 0, 50.0)[0] == 500.0


def test_weights_grow_with_the_time_since_the_first_completion() -> None:
    state = taught(2, math.inf, [(0, 0.0, 100.0), (0, 10.0, 400.0), (0, 20.0, 900.0)])
    assert answer(state, 0, 25.0)[0] == pytest.approx((100 * 400 + 400 * 900) / 500)


@pytest.mark.parametrize("user", [1, -1])
def test_a_user_without_history_gets_the_mean_of_all(user: int) -> None:
    state = taught(2, math.inf, [(0, 0.0, 100.0), (0, 10.0, 400.0)])
    assert answer(state, user, 25.0)[0] == 250.0
    assert math.isnan(answer(state, user, 25.0)[1])


def test_a_window_that_ran_empty_is_no_history() -> None:
    state = taught(1, 60.0, [(0, 0.0, 100.0), (1, 10.0, 400.0)])
    assert answer(state, 0, 60.0)[0] == 100.0
    assert answer(state, 0, 61.0)[0] == 250.0


@pytest.mark.parametrize("watts", [0.0, -5.0, math.nan])
def test_watts_that_are_no_measurement_are_not_learned(watts: float) -> None:
    state = taught(2, math.inf, [(0, 0.0, 100.0), (0, 10.0, watts)])
    assert answer(state, 0, 25.0)[0] == 100.0


JOBS = st.lists(
    st.tuples(st.integers(-1, 2), st.integers(0, 64 * 900), st.integers(0, 64 * 300), st.floats(1.0, 3000.0)),
    max_size=40,
)


@pytest.mark.parametrize(("alpha", "window_s"), RULES)
@pytest.mark.parametrize("origin_s", [0.0, 1.6e9])
@given(jobs=JOBS)
def test_the_walk_equals_the_printed_equations(
    alpha: float, window_s: float, origin_s: float, jobs: list[tuple[int, int, int, float]]
) -> None:
    user = np.array([j[0] for j in jobs], np.int32)
    submit = origin_s + np.array([j[1] / 64 for j in jobs], np.float64)
    end = submit + np.array([j[2] / 64 for j in jobs], np.float64)
    watts = np.array([j[3] for j in jobs], np.float64)
    state = new_history(np.bincount(user[user >= 0], minlength=3), alpha=alpha, window_s=window_s)
    out = np.full((len(jobs), 3), -1.0)
    by_submit, by_end = np.argsort(submit, kind="stable"), np.argsort(end, kind="stable")
    history_replay(state, by_submit, by_end, submit, end, user, watts, out)
    done = [twin.Done(int(user[k]), float(end[k]), float(watts[k])) for k in by_end]
    for k in range(len(jobs)):
        who, now = int(user[k]), float(submit[k])
        want = twin.history_predict(done, who, now, alpha=alpha, window_s=window_s)
        np.testing.assert_allclose(out[k, 0], want, rtol=1e-9)
        np.testing.assert_allclose(out[k, 1], twin.history_spread(done, who, now), rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(out[k, 2], twin.history_last(done, who, now), rtol=0)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_a_window_about_to_run_empty_keeps_its_digits(alpha: float) -> None:
    """Weights of 1e-12 beside sums of 1e14: subtracting moments would lose every digit here."""
    window = 30 * DAY
    end = 1.6e9 + np.concatenate((np.arange(2000.0), [2000.5, 2001.0, 2001.25]))
    watts = 500.0 + 100.0 * np.sin(np.arange(len(end)))
    jobs = [(0, float(t), float(w)) for t, w in zip(end, watts, strict=True)]
    state = taught(alpha, window, jobs)
    now = float(end[-1]) + window - 2.0
    want = twin.history_predict([twin.Done(*j) for j in jobs], 0, now, alpha=alpha, window_s=window)
    assert answer(state, 0, now)[0] == pytest.approx(want, rel=1e-9)


def test_a_user_with_a_million_jobs_keeps_nine_digits() -> None:
    n = 20_000 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 1_000_000  # plain Python would take a minute
    rng = np.random.default_rng(4)
    end = 1.6e9 + np.cumsum(rng.exponential(20.0, n))
    watts = rng.uniform(300.0, 2100.0, n)
    state = new_history(np.array([n]), alpha=2.0, window_s=math.inf)
    history_learn_rows(state, np.zeros(n, np.int32), end, watts)
    theta = (end - end[0]) ** 2
    want = math.fsum(theta * watts) / math.fsum(theta)
    assert answer(state, 0, float(end[-1]))[0] == pytest.approx(want, rel=1e-9)
    assert answer(state, 0, float(end[-1]))[1] == pytest.approx(watts.std(), rel=1e-9)
