"""Watts by option, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import scale as twin
from wattqueue.kernels.scale import watts_by_option

WATTS = st.floats(0.0, 2_000.0) | st.just(np.nan)


@given(st.lists(WATTS, max_size=6), st.lists(st.tuples(st.floats(0.0, 300.0), WATTS, st.floats(0.0, 1.0)), max_size=4))
def test_watts_by_option_are_those_of_the_formula(
    watts: list[float], options: list[tuple[float, float, float]]
) -> None:
    power = np.array(watts, np.float64)
    idle_w, max_w, dynamic = np.array(options, np.float64).reshape(-1, 3).T.copy()
    found = np.empty((len(watts), len(options)))
    watts_by_option(power, idle_w, max_w, dynamic, found)
    np.testing.assert_array_equal(found, twin.watts_by_option(power, idle_w, max_w, dynamic))


@pytest.mark.parametrize(("watts", "expected"), [(300.0, 200.0), (50.0, 50.0), (np.nan, 300.0)])
def test_watts_above_idle_shrink_with_the_frequency(watts: float, expected: float) -> None:
    """Idle 100 W, stated maximum 500 W, half the dynamic share; below idle nothing is scaled."""
    found = np.empty((1, 1))
    watts_by_option(np.array([watts]), np.array([100.0]), np.array([500.0]), np.array([0.5]), found)
    assert found[0, 0] == expected
