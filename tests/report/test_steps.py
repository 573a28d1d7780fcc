"""Bins of step series against a naive twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wattqueue.report.steps import Bins, pulses

whole = st.integers(-50, 50)


@st.composite
def series(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    times = sorted(draw(st.sets(st.integers(0, 60), min_size=1, max_size=25)))
    values = draw(st.lists(whole, min_size=len(times), max_size=len(times)))
    return np.array(times, float), np.array(values, float)


def in_force(time: NDArray[np.float64], value: NDArray[np.float64], at: float) -> float:
    return float(value[max(int(np.searchsorted(time, at, side="right")) - 1, 0)])


@given(series(), st.integers(1, 9), st.integers(-5, 30), st.integers(1, 40))
def test_bins_agree_with_looking_at_every_instant(
    data: tuple[NDArray[np.float64], NDArray[np.float64]], most: int, first: int, length: int
) -> None:
    time, value = data
    bins = Bins.of(time, float(first), float(first + length), most)
    least, mean, greatest = bins.least(time, value), bins.mean(time, value), bins.greatest(time, value)
    for i in range(len(bins)):
        a, b = bins.edge_s[i], bins.edge_s[i + 1]
        cuts = np.unique(np.concatenate(([a, b], time[(time > a) & (time < b)])))
        held = [in_force(time, value, t) for t in cuts[:-1]]
        assert least[i] == min(held)
        assert greatest[i] == max(held)
        np.testing.assert_allclose(mean[i], np.dot(held, np.diff(cuts)) / (b - a), atol=1e-9)


@given(series())
def test_few_steps_are_kept_as_they_are(data: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    time, value = data
    bins = Bins.of(time, float(time[0]), float(time[-1]) + 1.0)
    assert bins.exact
    np.testing.assert_array_equal(bins.edge_s[:-1], time)
    np.testing.assert_array_equal(bins.least(time, value), bins.greatest(time, value))


def test_many_steps_become_bins_and_no_peak_is_lost() -> None:
    time = np.arange(100_000.0)
    value = np.zeros(100_000)
    value[54_321] = 7.0
    bins = Bins.of(time, 0.0, 100_000.0, 1_000)
    assert not bins.exact
    assert len(bins) == 1_000
    assert bins.greatest(time, value).max() == 7.0
    np.testing.assert_allclose(bins.mean(time, value).sum(), 7.0 / 100)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1.0, -1.0])), min_size=1, max_size=30))
def test_pulses_count_what_changed_up_to_each_time(changes: list[tuple[int, float]]) -> None:
    at = np.array([t for t, _ in changes], float)
    by = np.array([v for _, v in changes])
    time, value = pulses(at, by)
    assert (np.diff(time) > 0).all()
    for t, v in zip(time, value, strict=True):
        assert v == by[at <= t].sum()


def test_a_run_without_length_still_has_a_bin() -> None:
    bins = Bins.of(np.array([5.0]), 5.0, 5.0)
    assert len(bins) == 1
    assert bins.mean(np.array([5.0]), np.array([3.0])).tolist() == [3.0]
