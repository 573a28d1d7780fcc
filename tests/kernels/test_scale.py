"""Watts by option, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import scale as twin
from wattqueue.kernels.scale import watts_by_option, without_limits

WATTS = st.floats(0.0, 2_000.0) | st.just(np.nan)


HELD = st.just(0.0) | st.floats(1.0, 2_000.0)
OPTIONS = st.tuples(st.floats(0.0, 300.0), WATTS, st.floats(0.0, 1.0), HELD)


@given(st.lists(WATTS, max_size=6), st.lists(OPTIONS, max_size=4))
def test_watts_by_option_are_those_of_the_formula(
    watts: list[float], options: list[tuple[float, float, float, float]]
) -> None:
    power = np.array(watts, np.float64)
    idle_w, max_w, dynamic, held_w = np.array(options, np.float64).reshape(-1, 4).T.copy()
    found = np.empty((len(watts), len(options)))
    watts_by_option(power, idle_w, max_w, dynamic, held_w, found)
    np.testing.assert_array_equal(found, twin.watts_by_option(power, idle_w, max_w, dynamic, held_w))


@pytest.mark.parametrize(("watts", "expected"), [(300.0, 200.0), (50.0, 50.0), (np.nan, 300.0)])
def test_watts_above_idle_shrink_with_the_frequency(watts: float, expected: float) -> None:
    """Idle 100 W, stated maximum 500 W, half the dynamic share; below idle nothing is scaled."""
    found = np.empty((1, 1))
    watts_by_option(np.array([watts]), np.array([100.0]), np.array([500.0]), np.array([0.5]), np.zeros(1), found)
    assert found[0, 0] == expected


def test_a_gpu_limit_holds_back_the_gpus_alone() -> None:
    """Idle 100 W, at most 500 W, three quarters of it GPUs', 150 W left to them: a promise of 350 W, in truth less."""
    found = np.empty((3, 1))
    idle, most, host, held = (np.array([figure]) for figure in (100.0, 500.0, 0.25, 150.0))
    watts_by_option(np.array([np.nan, 500.0, 120.0]), idle, most, host, held, found)
    assert found[0, 0] == 100.0 + 100.0 + 150.0
    assert 340.0 < found[1, 0] < 350.0
    assert found[2, 0] == pytest.approx(120.0), "far below the limit nothing is held back"


@given(st.lists(st.tuples(st.floats(0.0, 700.0) | st.just(np.nan), st.integers(-1, 2)), max_size=5))
def test_what_a_job_would_draw_without_its_limit(rows: list[tuple[float, int]]) -> None:
    """Options: a frequency, and limits that leave the GPUs of a unit 300 and 100 W."""
    watts, option = np.array([w for w, _ in rows]), np.array([o for _, o in rows], np.int64)
    figures = np.array([[50.0] * 3, [600.0] * 3, [0.7, 0.2, 0.0], [0.0, 300.0, 100.0]])
    expected = twin.without_limits(watts, option, *figures)
    without_limits(watts, option, *figures)
    np.testing.assert_allclose(watts, expected, atol=0.01)
