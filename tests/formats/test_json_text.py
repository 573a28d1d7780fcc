"""Numbers that no float holds are texts; everything else is read as Python reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.formats.json_text import read_json

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**1000), 2**1000) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)  # fmt: skip


@given(values)
def test_numbers_that_a_float_holds_are_read_as_they_are(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 5000, "1e400", "-1.5e999", "NaN", "-Infinity"])
def test_numbers_that_no_float_holds_are_texts(number: str) -> None:
    assert read_json(f'{{"a": [{number}, 1]}}') == {"a": [number, 1]}
    assert read_json(f'{{"a": [{number}, 1]}}'.encode()) == {"a": [number, 1]}


@pytest.mark.parametrize("text", ["", "{", "9a", '{"a": 1,}', "[1e]"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="char"):
        read_json(text)
