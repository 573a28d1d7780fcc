"""The knee of a falling curve."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.whatif.analysis import knee

CAP = np.linspace(60.0, 100.0, 9)


def test_a_bend_is_found_where_it_is() -> None:
    wait = np.array([9_000, 6_000, 3_000, 300, 250, 200, 150, 100, 50], np.float64)
    assert knee(CAP, wait) == 3


def test_the_knee_of_a_hyperbola() -> None:
    # Kneedle's own kind of curve: y = 1/x on 0.1..1; the distance below the chord is greatest at x = sqrt(0.1).
    x = np.linspace(0.1, 1.0, 91)
    found = knee(x, 1e4 / x)
    assert found is not None
    assert x[found] == pytest.approx(np.sqrt(0.1), abs=0.01)


@pytest.mark.parametrize(
    "wait",
    [
        np.full(9, 500.0),  # nothing changes
        np.linspace(9_000.0, 0.0, 9),  # straight
        np.linspace(20.0, 0.0, 9) ** 2 / 10,  # rises by less than a minute
        np.array([1_020, 1_010, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000.0]),  # by two percent
        np.array([9_000, 8_990, 8_900, 8_500, 8_000, 7_000, 5_000, 2_000, 0.0]),  # bent the other way
        np.array([np.nan, 6_000, 3_000, 300, 250, 200, 150, 100, 50]),
    ],
)
def test_curves_without_a_knee(wait: np.ndarray) -> None:
    assert knee(CAP, wait) is None


def test_too_few_caps_have_none() -> None:
    assert knee(CAP[:3], np.array([9_000.0, 10.0, 0.0])) is None
