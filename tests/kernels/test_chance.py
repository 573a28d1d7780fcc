"""The bound by which a search skips jobs under a chance ledger: nothing above it fits, and hardly less does."""

from __future__ import annotations

import math
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import keep_margin_of, may_start, most_to_search
from tests.kernels.views import view_with
from wattqueue.kernels import codes, state

WATTS = st.floats(1.0, 300_000.0)


@cache
def view() -> state.KernelView:
    """A view whose counters the examples fill."""
    return view_with([1], [10.0], [100.0], (4,), codes.EASY)


@given(
    st.lists(WATTS, max_size=40),
    st.floats(0.1, 1e6),
    st.floats(1e-8, 500.0),
    st.sampled_from([0.0, 0.002, 1.0, 100.0]),
)
def test_the_bound_is_just_above_what_fits(running: list[float], available_w: float, own: float, common: float) -> None:
    queue = view()
    now, nets = queue.now, [round(watts * codes.MICRO) for watts in running]
    now.chance_own, now.chance_common = own, common
    now.by_chance, now.cap_uw = 1, 10**15
    now.ledger_uw, now.squares_w2 = sum(nets), sum(round((net / codes.MICRO) ** 2) for net in nets)
    now.available_uw = round(available_w * codes.MICRO)
    keep_margin_of(queue)
    bound = most_to_search(queue)
    assert not may_start(queue, bound + 1)
    below = bound - math.ceil(1.1 * (1.0 + math.sqrt(own)) * codes.MICRO)
    assert below < 0 or may_start(queue, below)


def test_without_a_chance_ledger_the_bound_is_what_is_available() -> None:
    queue = view_with([1], [10.0], [100.0], (4,), codes.EASY)
    queue.now.available_uw = 123_456
    assert most_to_search(queue) == 123_456
