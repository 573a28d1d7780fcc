"""Limits of numbers: their product fits the ledger, and a figure outside is refused with its place."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError, MachineError
from wattqueue.model import bounds

EVERY = {name: value for name, value in vars(bounds).items() if isinstance(value, bounds.Bound)}


def test_the_largest_machine_twice_fits_int64_microwatts() -> None:
    """Running jobs plus idle nodes is the largest sum that the ledger forms."""
    assert 2 * bounds.UNITS.high * bounds.UNIT_W.high * 1e6 < np.iinfo(np.int64).max
    assert bounds.CAP_W.high * 1e6 < np.iinfo(np.int64).max


def test_times_keep_their_microsecond() -> None:
    """Adding a microsecond to the latest instant gives another float64."""
    assert bounds.TIME_S.high - 1e-6 != bounds.TIME_S.high
    assert bounds.TIME_S.low + 1e-6 != bounds.TIME_S.low


@pytest.mark.parametrize("name", EVERY)
def test_every_bound_is_a_range_with_a_reason(name: str) -> None:
    """Both ends are inside; what lies outside, NaN and infinity are refused with place and hint."""
    bound = EVERY[name]
    assert bound.low < bound.high
    assert bound.reason
    for inside in (bound.low, bound.high):
        assert bound.require(inside, "x") == inside
    for outside in (bound.low - 1e6, bound.high * 2, np.nan, np.inf):
        with pytest.raises(MachineError) as caught:
            bound.require(outside, "x", where="here", kind=MachineError)
        assert caught.value.where == "here"
        assert bound.text in caught.value.what
        assert caught.value.hint


def test_a_column_is_refused_with_its_first_bad_row() -> None:
    """Rows count from 1; NaN passes only where a missing value is allowed."""
    column = np.array([0.0, np.nan, 1e300, np.inf])
    assert bounds.TIME_S.holds(column).tolist() == [True, False, False, False]
    with pytest.raises(InputError) as caught:
        bounds.TIME_S.require_column(column, "submit_s")
    assert caught.value.where == "column submit_s, row 2"
    with pytest.raises(InputError) as caught:
        bounds.TIME_S.require_column(column, "submit_s", missing=True)
    assert caught.value.where == "column submit_s, row 3"
    assert caught.value.hint is not None
    assert "2" in caught.value.hint
    bounds.TIME_S.require_column(column[:2], "submit_s", missing=True)


@pytest.mark.parametrize("value", [10**15, -(10**400), 10**5000, 1e300], ids=["16", "400", "5000", "float"])
def test_a_figure_of_any_length_is_refused_in_a_short_line(value: float) -> None:
    """A whole number of 400 digits is no float, and one of 5,000 has no text in Python."""
    with pytest.raises(InputError) as caught:
        bounds.COUNT.require(value, "nodes", where="--nodes")
    assert len(caught.value.what) < 80
