"""Redistribution of caps against its definition in exact fractions."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import redistribution as twin
from wattqueue.kernels.codes import MICRO
from wattqueue.kernels.redistribution import lower_all, new_sockets, reset_begun, step_caps, water_level
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_lending import keep_promises
from wattqueue.parts.controls.rapl_redistribution import lower_to_budget, redistribute, reset_at_start

WANTS = st.lists(st.integers(0, 10**11) | st.integers(0, 5), max_size=20)
SOCKET = st.tuples(st.floats(0, 150), st.floats(30, 120))
RATES = st.builds(twin.Rates, st.floats(0.5, 0.9), st.floats(0.9, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 2.0))
LIMITS = st.builds(twin.Limits, st.floats(0, 30), st.floats(120, 200) | st.just(np.inf))


@given(wants=WANTS, pool=st.integers(0, 10**12))
def test_the_level_is_the_highest_that_the_pool_covers(wants: list[int], pool: int) -> None:
    found = water_level(np.array(wants, np.int64), pool)
    assert found == twin.water_level(wants, pool)
    assert sum(min(w, found) for w in wants) <= pool


@given(sockets=st.lists(SOCKET, max_size=12), rates=RATES, limits=LIMITS, spare=st.floats(0, 500))
def test_every_cap_equals_the_definition(
    sockets: list[tuple[float, float]], rates: twin.Rates, limits: twin.Limits, spare: float
) -> None:
    power, cap = np.array([p for p, _ in sockets]), np.array([c for _, c in sockets])
    want = twin.redistribute(power.tolist(), cap.tolist(), rates, limits, spare)
    found = redistribute(
        power,
        cap,
        lower=rates.lower,
        upper=rates.upper,
        decrease=rates.decrease,
        increase=rates.increase,
        minimum_w=limits.minimum_w,
        maximum_w=limits.maximum_w,
        spare_w=spare,
    )
    # Floats round what is taken to the microwatt below or above, which also moves the level.
    np.testing.assert_allclose(found, [float(w) for w in want], rtol=0, atol=3e-6 * (len(sockets) + 1))


@given(caps=st.lists(st.floats(30, 120), min_size=1, max_size=12), limits=LIMITS, budget=st.floats(0, 1500))
def test_a_lowered_budget_cuts_to_one_height(caps: list[float], limits: twin.Limits, budget: float) -> None:
    budget_uw = int(budget * MICRO)
    sockets = new_sockets(*(np.array(column) for column in (caps, caps, [limits.minimum_w], [limits.maximum_w])))
    lacking = lower_all(sockets, budget_uw)
    want = [float(w) for w in twin.lower_all(caps, limits, budget_uw)]
    np.testing.assert_allclose(sockets.new_cap_w, want, rtol=0, atol=3e-6)
    least_uw = len(caps) * math.ceil(limits.minimum_w * MICRO - 1e-3)
    within = sum(twin.whole(c) for c in caps) <= budget_uw
    assert lacking == (0 if within else max(0, least_uw - budget_uw))


@given(
    caps=st.lists(st.tuples(st.floats(30, 120), st.booleans()), min_size=1, max_size=12),
    even=st.floats(30, 120),
    spare=st.integers(0, 10**9),
)
def test_sockets_that_begin_have_an_even_share(caps: list[tuple[float, bool]], even: float, spare: int) -> None:
    cap, begins = [c for c, _ in caps], [b for _, b in caps]
    sockets = new_sockets(*(np.array(column) for column in (cap, cap, [0.0], [np.inf])))
    sockets.begins[:] = begins
    reset_begun(sockets, np.array([even]), spare)
    want = [float(w) for w in twin.reset_begun(cap, begins, even, spare)]
    np.testing.assert_allclose(sockets.new_cap_w, want, rtol=0, atol=3e-6 * (len(caps) + 1))


@given(
    sockets=st.lists(st.tuples(st.floats(0, 150), st.floats(30, 120), st.booleans()), min_size=1, max_size=12),
    rates=RATES,
    reset=st.booleans(),
    budget=st.floats(360, 1500),
)
def test_a_step_is_its_three_parts_in_order(
    sockets: list[tuple[float, float, bool]], rates: twin.Rates, reset: bool, budget: float
) -> None:
    power, cap, begins = (np.array(column) for column in zip(*sockets, strict=True))
    least, most, even = np.array([10.0]), np.array([150.0]), np.array([60.0])
    budget_uw = int(budget * MICRO)
    step = new_sockets(power, cap.copy(), least, most)
    step.begins[:] = begins
    figures = np.array([rates.lower, rates.upper, rates.decrease, rates.increase, float(reset)])
    assert step_caps(step, figures, even, budget_uw) == 0

    want = lower_to_budget(cap, budget, minimum_w=10.0)
    rate = {"lower": rates.lower, "upper": rates.upper, "decrease": rates.decrease, "increase": rates.increase}
    want = redistribute(power, want, **rate, minimum_w=least, maximum_w=most, spare_w=spare(want, budget_uw))
    if reset and begins.any():
        want = reset_at_start(
            want, np.flatnonzero(begins), even, minimum_w=least, maximum_w=most, spare_w=spare(want, budget_uw)
        )
    np.testing.assert_allclose(step.cap_w, want, rtol=0, atol=1e-5 * len(cap))


@given(
    caps=st.lists(st.tuples(st.floats(10, 100), st.floats(10, 100), st.booleans()), min_size=1, max_size=10),
    data=st.data(),
)
def test_raises_that_a_promise_forbids_become_equal_shares(
    caps: list[tuple[float, float, bool]], data: st.DataObject
) -> None:
    cap, before, begins = (np.array(column) for column in zip(*caps, strict=True))
    flags = st.lists(st.booleans(), min_size=len(caps), max_size=len(caps))
    promises = data.draw(st.lists(st.tuples(flags, st.integers(0, 10**9)), min_size=1, max_size=3))
    held, limit_uw = np.array([busy for busy, _ in promises]), np.array([most for _, most in promises])
    found = keep_promises(cap, before, held, limit_uw, np.flatnonzero(begins))
    want = [float(w) for w in twin.keep_promises(cap.tolist(), before.tolist(), begins.tolist(), promises)]
    np.testing.assert_allclose(found, want, rtol=0, atol=3e-6 * (len(caps) + 1))


def spare(caps: Floats, budget_uw: int) -> float:
    """Watts of the budget that no cap holds."""
    return max(0, budget_uw - sum(twin.whole(float(c)) for c in caps)) / MICRO
