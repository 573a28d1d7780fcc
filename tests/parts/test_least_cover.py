"""Which jobs to slow or park: the stated bounds against every subset."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.parts.controls._least_cover import least_cover

ROW = st.tuples(st.integers(0, 40), st.integers(1, 40))


def exact(cost: list[int], freed: list[int], needed: float) -> float:
    """The least cost of all subsets that free enough."""
    rows = range(len(cost))
    sets = itertools.chain.from_iterable(itertools.combinations(rows, k) for k in range(len(cost) + 1))
    return min(sum(cost[r] for r in each) for each in sets if sum(freed[r] for r in each) >= needed)


@given(st.lists(ROW, min_size=1, max_size=9), st.floats(0.01, 1.0))
def test_the_cost_is_within_both_bounds_of_the_least(rows: list[tuple[int, int]], share: float) -> None:
    cost, freed = ([row[k] for row in rows] for k in (0, 1))
    needed = share * sum(freed)
    found = least_cover(np.array(cost, float), np.array(freed, float), needed).tolist()
    least = exact(cost, freed, needed)
    assert sum(freed[r] for r in found) >= needed - 1e-9
    assert len(set(found)) == len(found)
    paid = sum(cost[r] for r in found)
    assert least <= paid <= 2 * least
    assert paid < least + max(cost[r] for r in found) or paid == least


@pytest.mark.parametrize(
    ("cost", "freed", "needed", "rows"),
    [
        ([1, 9], [9, 10], 10.0, [1]),  # the first frees nearly enough, and would be paid for nothing
        ([1, 100, 8], [5, 100, 5], 10.0, [0, 2]),  # a dear job that frees much is left alone
        ([5, 5], [1, 1], 7.0, [0, 1]),  # too little in all: everything
        ([5, 5], [1, 1], 0.0, []),
    ],
)
def test_cases_by_hand(cost: list[float], freed: list[float], needed: float, rows: list[int]) -> None:
    assert least_cover(np.array(cost, float), np.array(freed, float), needed).tolist() == rows
