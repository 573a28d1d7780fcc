"""Quantile tables, menus, ranks, and durations under limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.workload.cycle import DAY_S, HOUR_S, WeekCycle
from wattqueue.workload.marginals import (
    Menu,
    Quantiles,
    limited_by,
    lognormal_mixture,
    normal_cdf,
    pick,
    power_tail,
    ranks,
)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_ranks_are_mean_ranks_with_ties_shared(scores: list[int]) -> None:
    got = ranks(np.array(scores, np.float64))
    n = len(scores)
    for score, rank in zip(scores, got.tolist(), strict=True):
        below = sum(s < score for s in scores)
        equal = sum(s == score for s in scores)
        assert rank == pytest.approx((below + equal / 2) / n)
    assert got.min() > 0
    assert got.max() < 1


@given(st.dictionaries(st.integers(1, 1000), st.floats(0.01, 10), min_size=1, max_size=12))
def test_a_menu_gives_each_value_its_mass(table: dict[int, float]) -> None:
    menu = Menu.of({float(k): v for k, v in table.items()})
    p = (np.arange(20_000) + 0.5) / 20_000
    drawn = menu.value(p)
    for value, mass in zip(menu.x.tolist(), menu.mass.tolist(), strict=True):
        assert (drawn == value).mean() == pytest.approx(mass, abs=1e-3)
    assert menu.cdf(menu.x).tolist() == menu.cumulative.tolist()
    assert menu.at_most(0.0).x.tolist() == [menu.x[0]]


def test_power_tail_keeps_its_knots_and_its_atom() -> None:
    q = power_tail({0.0: 1.0, 0.5: 10.0}, 1000.0, exponent=0.4, atom=0.1)
    assert q.value(np.array([0.0, 0.25, 0.5, 0.9, 0.95, 1.0])) == pytest.approx([1, 10**0.5, 10, 1000, 1000, 1000])
    x = np.array([1.0, 10.0, 20.0, 999.999, 1000.0])
    tail = 0.5 + 0.4 * (10**-0.4 - 20**-0.4) / (10**-0.4 - 1000**-0.4)
    assert q.cdf(x) == pytest.approx([0, 0.5, tail, 0.9, 1.0], abs=1e-4)


def test_a_mixture_has_the_probabilities_of_its_parts() -> None:
    q = lognormal_mixture(((0.3, 100.0, 0.2), (0.7, 300.0, 0.1)), 10.0, 2000.0)
    assert float(q.cdf(np.array([100.0]))[0]) == pytest.approx(0.15, abs=1e-3)
    assert float(q.cdf(np.array([300.0]))[0]) == pytest.approx(0.3 + 0.35, abs=1e-3)
    low, high = q.value(np.array([0.0, 1.0]))
    assert 10.0 <= low < 60.0
    assert 450.0 < high <= 2000.0
    assert normal_cdf(np.array([-1.96, 0.0, 1.96])) == pytest.approx([0.025, 0.5, 0.975], abs=1e-4)


@given(st.integers(0, 2**32), st.floats(0.0, 0.06))
def test_durations_under_limits_come_out_as_the_target_says(seed: int, at_limit: float) -> None:
    rng = np.random.default_rng(seed)
    target = Quantiles(np.array([0.0, 0.3, 0.8, 0.95, 1.0]), np.array([10.0, 50.0, 400.0, 1000.0, 1000.0]))
    limits = Menu.of({100.0: 0.1, 500.0: 0.3, 1000.0: 0.6 * float(rng.uniform(0.5, 2.0))})
    natural = limited_by(target, limits, at_limit)
    assert (np.diff(natural.p) > 0).all()
    assert (np.diff(natural.x) > 0).all()
    n = 40_000
    limit = limits.value(rng.random(n))
    duration = natural.value(rng.random(n) * natural.cdf(limit))
    duration = np.where(rng.random(n) < at_limit, limit, duration)
    assert (duration <= limit * (1 + 1e-9)).all()
    for p in (0.1, 0.3, 0.5, 0.8, 0.9):
        x = float(target.value(np.array([p]))[0])
        assert (duration <= x).mean() == pytest.approx(p, abs=0.015)
    assert (duration > 999.0).mean() == pytest.approx(0.05, abs=0.01)


def test_pick_follows_its_weights() -> None:
    got = np.bincount(pick(np.random.default_rng(1), np.array([1.0, 0.0, 3.0]), 40_000), minlength=3) / 40_000
    assert got == pytest.approx([0.25, 0.0, 0.75], abs=0.01)


def test_submissions_follow_the_week() -> None:
    cycle = WeekCycle.of()
    assert cycle.rate.shape == (168,)
    assert cycle.rate.mean() == pytest.approx(1.0)
    share = (np.arange(200_000) + 0.5) / 200_000
    time_s = cycle.time_s(share, 28 * DAY_S)
    assert (np.diff(time_s) >= 0).all()
    by_day = np.bincount((time_s // DAY_S % 7).astype(int), minlength=7)
    assert by_day[5] / by_day[1] == pytest.approx(0.36 / 1.03, abs=0.01)
    by_hour = np.bincount((time_s // HOUR_S % 24).astype(int), minlength=24)
    assert by_hour.argmax() == 9 or by_hour.argmax() == 10
    assert by_hour.argmin() == 3 or by_hour.argmin() == 4


@given(st.floats(1.0, 40 * DAY_S))
def test_a_span_of_any_length_is_filled_from_end_to_end(span_s: float) -> None:
    time_s = WeekCycle.of().time_s(np.array([0.0, 1.0]), span_s)
    assert time_s.tolist() == [0.0, span_s]
