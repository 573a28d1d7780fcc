"""Measures of step series against a naive twin that looks at every stretch between two steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.jobs import Floats
from wattqueue.model.steps import TOLERANCE_W, Steps, excess_w, with_times

instants = st.integers(-5, 65)


@st.composite
def series(draw: st.DrawFn) -> Steps:
    times = sorted(draw(st.sets(st.integers(0, 60), min_size=1, max_size=25)))
    values = draw(st.lists(st.integers(-50, 50), min_size=len(times), max_size=len(times)))
    return Steps(np.array(times, float), np.array(values, float))


def in_force(steps: Steps, at: float) -> float:
    return float(steps.value[max(int((steps.time_s <= at).sum()) - 1, 0)])


def stretches(steps: Steps, begin: float, end: float) -> list[tuple[float, float]]:
    """Value and length of each stretch between two instants in which nothing changes."""
    cuts = sorted({begin, end, *(t for t in steps.time_s.tolist() if begin < t < end)})
    return [(in_force(steps, a), b - a) for a, b in pairwise(cuts)]


@given(series(), st.sets(instants, min_size=2, max_size=9).map(sorted))
def test_bins_agree_with_looking_at_every_stretch(steps: Steps, edges: list[int]) -> None:
    edge = np.array(edges, float)
    found = zip(steps.integrals(edge), steps.means(edge), steps.minima(edge), steps.maxima(edge), strict=True)
    for (total, mean, least, most), a, b in zip(found, edge[:-1], edge[1:], strict=True):
        parts = stretches(steps, a, b)
        want = sum(v * length for v, length in parts)
        assert total == pytest.approx(want)
        assert mean == pytest.approx(want / (b - a))
        assert (least, most) == (min(v for v, _ in parts), max(v for v, _ in parts))
        assert steps.integral(a, b) == pytest.approx(want)
        assert steps.maximum(a, b) == most
        values, lengths = steps.within(a, b)
        each_second = np.repeat(values, lengths.astype(int)).tolist()
        assert each_second == [in_force(steps, t) for t in np.arange(a, b)]


@given(series(), instants, instants)
def test_nothing_is_measured_over_no_time(steps: Steps, a: int, b: int) -> None:
    assert steps.integral(max(a, b), min(a, b)) == 0.0


def test_rows_of_no_length_are_never_in_force() -> None:
    steps = Steps(np.array([0.0, 10.0, 10.0, 20.0]), np.array([1.0, 99.0, 2.0, 3.0]))
    assert steps.maximum(0.0, 20.0) == 2.0
    assert steps.at(np.array([10.0])).tolist() == [2.0]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1.0, -1.0])), min_size=1, max_size=30))
def test_changes_add_up_to_the_count_at_each_time(changes: list[tuple[int, float]]) -> None:
    at, by = np.array([t for t, _ in changes], float), np.array([v for _, v in changes])
    steps = Steps.of_changes(at, by)
    assert (np.diff(steps.time_s) > 0).all()
    assert steps.value.tolist() == [by[at <= t].sum() for t in steps.time_s]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_over_time_are_those_of_repeated_values(pairs: list[tuple[int, int]], at: float) -> None:
    values, lengths = (np.array(c, np.float64) for c in zip(*pairs, strict=True))
    repeated = np.sort(np.repeat(values, lengths.astype(int)))
    place = min(int(np.ceil(round(at * len(repeated), 9))), len(repeated))
    steps = Steps(np.cumsum(lengths) - lengths, values)
    assert steps.quantiles(np.array([at]), 0.0, float(lengths.sum()))[0] == repeated[max(place - 1, 0)]


@given(series(), st.sets(instants, max_size=9).map(sorted))
def test_times_are_added_where_they_are_missing(steps: Steps, more: list[int]) -> None:
    time, row = with_times(steps.time_s, np.array(more, float))
    first, last = steps.time_s[0], steps.time_s[-1]
    assert time.tolist() == sorted({*steps.time_s.tolist(), *(float(t) for t in more if first < t < last)})
    assert steps.value[row].tolist() == [in_force(steps, t) for t in time]


def test_an_excess_is_above_the_tolerance_and_under_a_cap() -> None:
    power: Floats = np.array([90.0, 100.0 + TOLERANCE_W / 2, 130.0, 1e9])
    assert excess_w(power, np.array([100.0, 100.0, 100.0, np.inf])).tolist() == [0.0, 0.0, 30.0, 0.0]
