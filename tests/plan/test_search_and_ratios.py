"""The climb is monotone whatever passes; ratios, their correlation and their draws."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.plan.ratios import DRAWS, RatioLaw, Scores, fit_correlation, normal_scores
from wattqueue.plan.search import climb

SETS = st.sets(st.integers(1, 60))


@given(SETS, SETS, st.integers(0, 20), st.integers(0, 20))
def test_where_more_passes_no_less_is_found(some: set[int], more: set[int], begin: int, later: int) -> None:
    steps = (8, 2, 1)
    low = climb(lambda n: n in some, begin, steps, 60)
    high = climb(lambda n: n in some | more, begin + later, steps, 80)
    assert begin <= low
    assert low == begin or low in some
    assert low <= high or begin + later > low  # the later begin passes itself
    assert max(low, begin) <= max(high, begin + later)


@given(st.integers(0, 60))
def test_a_threshold_is_found_exactly(most: int) -> None:
    assert climb(lambda n: n <= most, 0, (16, 4, 1), 1_000) == most
    assert climb(lambda n: n <= most, 0, (16, 4, 1), 30) == min(most, 30)


def test_ratios_are_drawn_by_their_node_seconds() -> None:
    law = RatioLaw.of(np.array([2.0, 1.0]), np.array([1.0, 3.0]))
    z = np.array([NormalDist().inv_cdf(u) for u in (0.01, 0.5, 0.74, 0.76, 0.999)])
    assert law.at_scores(z).tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert law.at_scores(np.array([-40.0, 40.0])).tolist() == [1.0, 2.0]
    scores = Scores(40, 3).of(np.repeat(np.arange(40), 50), 0.3, slice(0, DRAWS))
    assert law.at_scores(scores).mean() == pytest.approx(1.25, abs=0.02)


@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0])
def test_the_correlation_of_a_day_is_found_again(rho: float) -> None:
    day = np.repeat(np.arange(300), 20)
    ratio = np.exp(0.2 * Scores(300, 1).of(day, rho, slice(0, 1))[:, 0])
    found = fit_correlation(ratio, day, np.random.default_rng(1))
    assert found.fitted == pytest.approx(rho, abs=0.06)
    assert found.fitted <= found.upper <= 1.0
    assert found.upper >= rho - 0.02
    assert found.tried[0] == 0.0


def test_scores_of_two_draws_share_nothing() -> None:
    day = np.repeat(np.arange(50), 4)
    scores = Scores(50, 2)
    first, second = (scores.of(day, 0.5, slice(k, k + 16)) for k in (0, 16))
    assert not np.isin(first, second).any()
    assert np.array_equal(first, scores.of(day, 0.5, slice(0, 16)))


def test_few_days_exclude_nothing() -> None:
    rng = np.random.default_rng(2)
    assert fit_correlation(rng.random(60), np.repeat(np.arange(6), 10), rng).upper == 1.0
    assert fit_correlation(rng.random(60), np.repeat(np.arange(60), 1), rng).upper == 1.0
    assert fit_correlation(np.full(60, 1.1), np.repeat(np.arange(6), 10), rng).tried == (0.0,)


def test_equal_values_have_equal_scores() -> None:
    z = normal_scores(np.array([3.0, 1.0, 1.0, 2.0]))
    assert z[1] == z[2] < z[3] < z[0]
    assert float(np.mean(z * z)) == pytest.approx(1.0)
