"""TOML that is written reads back to the same values."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wattqueue.formats.toml import one_line

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(VALUES)
def test_a_value_on_one_line_reads_back(value: Any) -> None:
    text = one_line(value)
    assert "\n" not in text
    found = tomllib.loads(f"x = {text}")["x"]
    assert found == value
    assert str(found) == str(value), "of the same types, to the sign of a zero"
