"""Ranges written out, against Python's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.ranges import ranges


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 6)), max_size=20))
def test_ranges_stand_one_behind_the_other(wanted: list[tuple[int, int]]) -> None:
    first, lengths = (np.array(column, np.int32) for column in (zip(*wanted, strict=True) if wanted else ([], [])))
    found = ranges(first, lengths)
    assert found.tolist() == [number for low, count in wanted for number in range(low, low + count)]
    assert found.dtype == np.int64
