"""Instructions on words against their definitions, as this mode has them, and written out in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import compare, compare_most, least, zeros_below
from wattqueue.kernels._numba import words
from wattqueue.kernels.mode import MODE
from wattqueue.kernels.state import Array

WORDS = st.integers(1, 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=True)
LONG = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(WORDS, min_size=1))
def test_zeros_below_the_lowest_bit(numbers: list[int]) -> None:
    numbers += [1 << k for k in range(64)] + [(1 << 64) - (1 << k) for k in range(64)]
    column = np.array(numbers, np.uint64)
    out = np.empty(len(numbers), np.int64)
    zeros_below(column, out)
    by_definition = [(number & -number).bit_length() - 1 for number in numbers]
    assert out.tolist() == by_definition == [words.trailing_zeros(word) for word in column]


def columns(rows: int, elements: st.SearchStrategy[float]) -> st.SearchStrategy[Array]:
    return st.lists(elements, min_size=rows, max_size=rows).map(np.array)


@given(st.integers(0, 16), columns(80, FLOATS), FLOATS)
def test_comparisons_of_floats(at: int, column: Array, number: float) -> None:
    assert compare(column, at, number) == words.at_least(column, at, number)
    assert compare_most(column, at, number) == words.at_most(column, at, number)
    assert least(column, at) == words.least_of(column, at) == column[at : at + 16].min()


@given(st.integers(0, 16), columns(80, LONG), LONG)
def test_comparisons_of_integers(at: int, column: Array, number: int) -> None:
    column = column.astype(np.int64).reshape(2, 40)
    flat = column.ravel()
    assert int(compare(column, at, number)) == int(words.at_least(column, at, number))
    assert [int(compare(column, at, number)) >> k & 1 for k in range(64)] == (flat[at : at + 64] >= number).tolist()
    assert [int(compare_most(column, at, number)) >> k & 1 for k in range(16)] == (
        flat[at : at + 16] <= number
    ).tolist()
    assert least(column, at) == words.least_of(column, at) == flat[at : at + 16].min()


@pytest.mark.skipif(MODE == "fast", reason="the instructions of fast mode check no bounds")
@pytest.mark.parametrize("at", [-1, 17])
def test_elements_behind_the_end_are_not_read(at: int) -> None:
    with pytest.raises(IndexError):
        compare(np.zeros(80), at, 0.0)
    with pytest.raises(IndexError):
        compare_most(np.zeros(32), at, 0.0)
    with pytest.raises(IndexError):
        least(np.zeros(32), at)
