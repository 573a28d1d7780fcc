"""Algorithm 1 of paper 3: the printed lines, and what the corrected ones promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_redistribution import (
    LOWER,
    UPPER,
    lower_to_budget,
    redistribute,
    redistribute_as_printed,
    reset_at_start,
    unused_w,
)

EPSILON_W = 1e-9
"""Rounding of float64 sums of up to 40 caps."""


@st.composite
def steps(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Draw power, caps, least and highest caps, and a reserve."""
    n = draw(st.integers(1, 40))
    column = st.lists(st.floats(0.0, 1.0), min_size=n, max_size=n).map(np.array)
    low, width, within = draw(column), draw(column), draw(column)
    minimum = 60.0 * low
    maximum = minimum + 1.0 + 150.0 * width
    cap = np.minimum(minimum + (maximum - minimum) * within, maximum)
    share = draw(st.lists(st.floats(0.0, 1.2) | st.sampled_from([0.0, LOWER, UPPER, 1.0]), min_size=n, max_size=n))
    return np.array(share) * cap, cap, minimum, maximum, draw(st.floats(0.0, 400.0))


@given(step=steps())
def test_never_hands_out_more_than_it_took_in_and_the_reserve(
    step: tuple[Floats, Floats, Floats, Floats, float],
) -> None:
    power, cap, minimum, maximum, spare = step
    new = redistribute(power, cap, minimum_w=minimum, maximum_w=maximum, spare_w=spare)
    lowered, raised = np.maximum(cap - new, 0).sum(), np.maximum(new - cap, 0).sum()
    assert raised <= lowered + spare + EPSILON_W
    assert new.sum() <= cap.sum() + spare + EPSILON_W


@given(step=steps())
def test_each_socket_stays_within_its_limits(step: tuple[Floats, Floats, Floats, Floats, float]) -> None:
    power, cap, minimum, maximum, spare = step
    new = redistribute(power, cap, minimum_w=minimum, maximum_w=maximum, spare_w=spare)
    assert (new >= minimum).all()
    assert (new <= maximum).all()


@given(step=steps())
def test_sockets_between_the_thresholds_and_without_a_reading_keep_their_caps(
    step: tuple[Floats, Floats, Floats, Floats, float],
) -> None:
    power, cap, minimum, maximum, spare = step
    power[::3] = np.nan
    new = redistribute(power, cap, minimum_w=minimum, maximum_w=maximum, spare_w=spare)
    kept = np.isnan(power) | ((power >= LOWER * cap) & (power <= UPPER * cap))
    assert (new[kept] == cap[kept]).all()
    assert (new[power < LOWER * cap] <= cap[power < LOWER * cap]).all()
    assert (new[power > UPPER * cap] >= cap[power > UPPER * cap]).all()


@given(step=steps(), seed=st.integers(0, 99))
def test_the_order_of_sockets_does_not_matter(step: tuple[Floats, Floats, Floats, Floats, float], seed: int) -> None:
    power, cap, minimum, maximum, spare = step
    order = np.random.default_rng(seed).permutation(len(cap))
    new = redistribute(power, cap, minimum_w=minimum, maximum_w=maximum, spare_w=spare)
    moved = redistribute(power[order], cap[order], minimum_w=minimum[order], maximum_w=maximum[order], spare_w=spare)
    assert (moved == new[order]).all()


@given(step=steps(), budgets=st.lists(st.floats(0.3, 1.5), min_size=1, max_size=8))
@example(  # a half of a microwatt of a cap was left out of the sum
    step=(np.zeros(3), np.array([0.0, 0.0, 60.6171875]), np.array([0.0, 0.0, 60.0]), np.array([1.0, 1.0, 79.75]), 0.0),
    budgets=[1.0, 0.5],
)
def test_the_sum_of_the_caps_stays_under_a_budget_that_moves(
    step: tuple[Floats, Floats, Floats, Floats, float], budgets: list[float]
) -> None:
    demand, cap, minimum, maximum, _ = step
    for share in budgets:
        budget = max(share * cap.sum(), minimum.sum())
        cap = lower_to_budget(cap, budget, minimum_w=minimum)
        assert cap.sum() <= budget + EPSILON_W
        spare = max(0.0, budget - cap.sum())
        power = np.minimum(demand, cap)
        cap = redistribute(power, cap, minimum_w=minimum, maximum_w=maximum, spare_w=spare)
        assert cap.sum() <= budget + EPSILON_W
        assert ((cap >= minimum) & (cap <= maximum)).all()


@given(step=steps(), seed=st.integers(0, 99))
def test_a_start_never_exceeds_the_budget_and_lowers_raised_sockets_only(
    step: tuple[Floats, Floats, Floats, Floats, float], seed: int
) -> None:
    _, cap, minimum, maximum, spare = step
    rng = np.random.default_rng(seed)
    starting = np.flatnonzero(rng.random(len(cap)) < 0.4)
    even = rng.uniform(20, 150)
    new = reset_at_start(cap, starting, even, minimum_w=minimum, maximum_w=maximum, spare_w=spare)
    assert new.sum() <= cap.sum() + spare + EPSILON_W
    share = np.clip(even, minimum, maximum)
    others = np.ones(len(cap), np.bool_)
    others[starting] = False
    assert (new[others] <= cap[others]).all()
    assert (new[others & (cap <= share)] == cap[others & (cap <= share)]).all()
    assert (new[others] >= np.minimum(cap, share)[others] - 1e-6).all()
    assert (new[starting] <= share[starting] + 1e-6).all()


@given(caps=st.lists(st.floats(0.0, 200.0), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_a_start_gets_its_even_share_where_caps_and_reserve_sum_to_the_budget(caps: list[float], seed: int) -> None:
    cap = np.array(caps)
    rng = np.random.default_rng(seed)
    budget = cap.sum() * rng.uniform(1.0, 1.3)
    even = budget / len(cap)
    starting = np.flatnonzero(rng.random(len(cap)) < 0.5)
    new = reset_at_start(cap, starting, even, spare_w=budget - cap.sum())
    np.testing.assert_allclose(new[starting], even, rtol=0, atol=1e-6 * (len(cap) + 1))
    assert new.sum() <= budget + EPSILON_W


def test_a_decayed_socket_needs_four_raises_without_the_reset() -> None:
    """A socket that idled at 20 W wants 80 W again; the reserve has all it gave away."""
    cap, even = np.array([20.0]), 76.0
    raises = 0
    while cap[0] < even - 1e-5:
        cap = redistribute(cap, cap, spare_w=even - cap[0])
        raises += 1
    assert raises == 4
    assert reset_at_start(np.array([20.0]), np.array([0]), even, spare_w=56.0)[0] == pytest.approx(even, abs=1e-6)


def test_watts_move_to_where_they_are_used_in_equal_shares() -> None:
    power, cap = np.array([40.0, 100.0, 50.0, 94.0]), np.array([100.0, 100.0, 50.0, 100.0])
    # Socket 0 gives 10 W; socket 1 may take 40 W and socket 2 20 W: 5 W each. Socket 3 lies between t and T.
    np.testing.assert_allclose(redistribute(power, cap), [90.0, 105.0, 55.0, 100.0], atol=1e-6)
    np.testing.assert_allclose(redistribute(power, cap, spare_w=35.0), [90.0, 125.0, 70.0, 100.0], atol=1e-6)


def test_the_printed_lines_let_the_sum_of_the_caps_grow() -> None:
    power, cap = np.array([40.0, 100.0, 50.0, 94.0]), np.array([100.0, 100.0, 50.0, 100.0])
    # Lines 1-8: P = 60, n = 2, p = 30. Socket 1: min(140, 130) = 130. Line 17: p = 60 - 30. Socket 2: min(70, 80) = 70.
    np.testing.assert_allclose(redistribute_as_printed(power, cap), [90.0, 130.0, 70.0, 100.0])
    assert redistribute_as_printed(power, cap).sum() - cap.sum() == pytest.approx(40.0)
    assert unused_w(power, cap) == 60.0
    # Line 17 forgets socket 1 where a third one is raised: 30 W, then (60 - 30) / 2, then 60 - 15.
    third = redistribute_as_printed(np.array([40.0, 100.0, 100.0, 100.0]), np.full(4, 100.0))
    np.testing.assert_allclose(third, [90.0, 120.0, 120.0, 140.0])


@pytest.mark.parametrize("power", [np.full(3, 95.0), np.full(3, 10.0), np.full(3, 100.0)])
def test_the_printed_lines_divide_by_no_socket_to_raise(power: Floats) -> None:
    assert np.isfinite(redistribute_as_printed(power, np.full(3, 100.0))).all()


@pytest.mark.parametrize(
    ("power", "cap", "more", "where"),
    [
        ([-1.0, 50.0], [80.0, 80.0], {}, "redistribute, socket 0"),
        ([1.0, np.inf], [80.0, 80.0], {}, "redistribute, socket 1"),
        ([1.0, 50.0], [80.0, np.nan], {}, "redistribute, socket 1"),
        ([1.0, 50.0], [80.0, 20.0], {"minimum_w": 30.0}, "redistribute, socket 1"),
        ([1.0, 50.0], [80.0, 90.0], {"maximum_w": [90.0, 85.0]}, "redistribute, socket 1"),
        ([1.0], [80.0, 90.0], {}, "redistribute"),
        ([1.0, 1.0], [80.0, 90.0], {"minimum_w": [1.0, 1.0, 1.0]}, "limits"),
        ([1.0, 1.0], [80.0, 90.0], {"spare_w": -1.0}, "reserve"),
        ([1.0, 1.0], [80.0, 90.0], {"lower": 0.97}, "redistribute"),
    ],
)
def test_what_cannot_be_used_is_refused(
    power: list[float], cap: list[float], more: dict[str, float], where: str
) -> None:
    with pytest.raises(InputError) as refused:
        redistribute(np.array(power), np.array(cap), **more)
    assert str(refused.value.where) == where


def test_a_budget_below_the_least_caps_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        lower_to_budget(np.array([50.0, 60.0]), 79.0, minimum_w=40.0)
    assert str(refused.value.where) == "budget"
