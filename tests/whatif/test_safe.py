"""What may be called safe: the bound against exact binomials and simulation, the order of the tests, refusals."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.jobs import Floats
from wattqueue.whatif.safe import Evidence, correlation_time_s, judge, looks_needed, upper_share

DAY = 86_400.0


def seen(share: float, looks: float = 500.0, days: float = 400.0, *, lost: int = 0, never: bool = False) -> Evidence:
    return Evidence(days * DAY, share * days * DAY, looks, never=never, never_ran=lost)


@given(looks=st.integers(1, 5_000))
def test_without_an_excess_the_bound_is_the_exact_binomial_one(looks: int) -> None:
    assert upper_share(0.0, looks) == pytest.approx(1.0 - 0.05 ** (1.0 / looks), rel=1e-9)


@given(looks=st.integers(5, 300), part=st.floats(0.0, 0.9))
def test_the_bound_is_never_below_clopper_and_pearson(looks: int, part: float) -> None:
    hits = int(part * looks)
    q = upper_share(hits / looks, looks)
    below = sum(comb(looks, k) * q**k * (1.0 - q) ** (looks - k) for k in range(hits + 1))
    assert below <= 0.05 + 1e-9  # so few excesses would be a surprise if the share were q


def test_the_bound_holds_for_shares_of_any_distribution() -> None:
    rng = np.random.default_rng(5)
    draws: tuple[Callable[[int], Floats], ...] = (
        rng.random,
        lambda n: rng.beta(0.05, 2.0, n),
        lambda n: np.asarray(rng.random(n) < 0.03, np.float64),
    )
    for draw in draws:
        truth = float(np.mean(draw(200_000)))
        missed = np.mean([upper_share(float(draw(80).mean()), 80) < truth for _ in range(400)])
        assert missed <= 0.05


def test_one_percent_takes_299_looks() -> None:
    assert np.ceil(looks_needed(0.01)) == 299


def test_correlation_time_of_a_known_process() -> None:
    # AR(1) with coefficient a: (1 + a) / (1 - a) steps.
    rng = np.random.default_rng(11)
    for a in (0.0, 0.5, 0.9):
        noise = rng.normal(size=100_000)
        x = np.zeros(len(noise))
        for i in range(1, len(x)):
            x[i] = a * x[i - 1] + noise[i]
        assert correlation_time_s(x) / 3_600 == pytest.approx((1 + a) / (1 - a), rel=0.15)


def test_power_that_never_changes_is_one_look() -> None:
    assert correlation_time_s(np.full(240, 7.0)) == 240 * 3_600
    assert correlation_time_s(np.empty(0)) == 3_600


def test_the_lowest_of_an_unbroken_row_from_the_top() -> None:
    found = judge([seen(0.0), seen(0.2), seen(0.0), seen(0.0)], 0.01)
    assert found.lowest == 2
    assert "20 %" in found.why
    assert found.each == ("not tested: a higher cap failed", found.each[1], "safe", "safe")


def test_all_safe_none_safe() -> None:
    every = judge([seen(0.0), seen(0.0)], 0.01)
    assert every.lowest == 0
    none = judge([seen(0.0), seen(0.05)], 0.01)
    assert none.lowest is None
    assert "5 %" in none.why


def test_lost_jobs_end_the_row() -> None:
    found = judge([seen(0.0, lost=3, never=True), seen(0.0, never=True)], 0.01)
    assert found.lowest == 1
    assert "3 jobs" in found.why


def test_too_little_data_calls_nothing_safe() -> None:
    few = judge([seen(0.0, looks=50.0, days=100.0)] * 2, 0.01)
    assert few.lowest is None
    assert few.each == ("not judged", "not judged")
    assert all(value in few.why for value in ("100 days", "50 independent"))
    assert all(value in few.why for value in ("597 days", "--risk 5.9%"))
    assert judge([seen(0.0, looks=50.0, days=100.0)], 0.059).lowest == 0  # the risk that it names will do
    short = judge([seen(0.0, looks=90.0, days=3.0)], 0.05)
    assert short.lowest is None
    assert "about 7 days" in short.why


def test_no_excess_by_construction_needs_no_data() -> None:
    assert judge([seen(0.0, looks=1.0, days=1.0, never=True)], 0.01).lowest == 0


def test_a_refusal_says_why() -> None:
    found = judge([seen(0.0)], 0.01, "the oracle knows")
    assert (found.lowest, found.why) == (None, "the oracle knows")
