"""Bins: the steps themselves where they are few, and no peak lost where they are many."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.model.test_steps import series
from wattqueue.model.steps import Steps
from wattqueue.report.figure import Bins


@given(series())
def test_few_steps_are_kept_as_they_are(steps: Steps) -> None:
    bins = Bins.of(steps.time_s, float(steps.time_s[0]), float(steps.time_s[-1]) + 1.0)
    assert bins.exact
    np.testing.assert_array_equal(bins.edge_s[:-1], steps.time_s)
    np.testing.assert_array_equal(steps.minima(bins.edge_s), steps.maxima(bins.edge_s))


def test_many_steps_become_bins_and_no_peak_is_lost() -> None:
    steps = Steps(np.arange(100_000.0), np.zeros(100_000))
    steps.value[54_321] = 7.0
    bins = Bins.of(steps.time_s, 0.0, 100_000.0, 1_000)
    assert not bins.exact
    assert len(bins) == 1_000
    assert steps.maxima(bins.edge_s).max() == 7.0
    np.testing.assert_allclose(steps.means(bins.edge_s).sum(), 7.0 / 100)


def test_a_run_without_length_still_has_a_bin() -> None:
    bins = Bins.of(np.array([5.0]), 5.0, 5.0)
    assert len(bins) == 1
    assert Steps(np.array([5.0]), np.array([3.0])).means(bins.edge_s).tolist() == [3.0]
