"""Power summed into bins against a loop written to be read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import cap_sums
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.whatif.run import bin_edges, digest, hourly

MACHINE = Machine("m", (Partition("batch", 4, idle_w=10.0, max_w=50.0),), cap_scope="jobs")
TIMES = st.lists(st.integers(0, 50), min_size=2, max_size=12, unique=True).map(sorted)


def naive_integral(time: Floats, value: Floats, low: float, high: float) -> float:
    found = sum(
        v * max(0.0, min(b, high) - max(a, low)) for a, b, v in zip(time[:-1], time[1:], value[:-1], strict=True)
    )
    return float(found)


def series(time: Floats, jobs_w: Floats) -> PowerSeries:
    return PowerSeries(time, jobs_w, np.full(len(time), 7.0), np.zeros(len(time)), np.zeros(len(time), np.int32))


@given(time=TIMES, edge=TIMES, data=st.data())
def test_integrals_are_those_of_a_loop(time: list[int], edge: list[int], data: st.DataObject) -> None:
    value = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(time), max_size=len(time))), np.float64)
    t, e = np.array(time, np.float64), np.array(edge, np.float64)
    found = Steps(t, value).integrals(np.clip(e, t[0], t[-1]))
    wanted = [naive_integral(t, value, a, b) for a, b in pairwise(e)]
    assert found.tolist() == pytest.approx(wanted)


@given(time=TIMES, cut=st.integers(0, 50), cap=st.integers(0, 9), data=st.data())
def test_windows_add_up_to_the_whole(time: list[int], cut: int, cap: int, data: st.DataObject) -> None:
    t = np.array(time, np.float64)
    watts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(time), max_size=len(time))), np.float64)
    edges = bin_edges(t[0], t[-1], [np.array([3.0, 17.0, 99.0])])
    whole, kept = digest([series(t, watts)], MACHINE, Cap.constant(cap), edges)
    at = min(max(float(cut), t[0]), t[-1])
    row = max(int(np.searchsorted(t, at, side="right")) - 1, 0)
    left = series(np.append(t[: row + 1], at), np.append(watts[: row + 1], watts[row]))
    right = series(np.append(at, t[row + 1 :]), np.append(watts[row], watts[row + 1 :]))
    parts, of_parts = digest([left, right], MACHINE, Cap.constant(cap), edges)
    for name in ("machine_j", "scope_j", "over_s", "over_j"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))
    assert of_parts == pytest.approx(kept)
    assert kept == pytest.approx(cap_sums(series(t, watts), MACHINE, Cap.constant(cap), t[0], t[-1]))
    assert (kept.used_j, kept.over_s, kept.over_j) == pytest.approx(
        (whole.scope_j.sum(), whole.over_s.sum(), whole.over_j.sum())
    )
    assert whole.over_s.sum() == pytest.approx(naive_integral(t, np.asarray(watts > cap, np.float64), t[0], t[-1]))
    assert whole.machine_j.sum() == pytest.approx(naive_integral(t, watts + 7.0, t[0], t[-1]))


def test_bins_begin_at_hours_of_the_clock_and_at_breaks() -> None:
    edges = bin_edges(100.0, 8_000.0, [np.array([-5.0, 1_800.0, 9_000.0])], zero_s=-600.0)
    assert edges.tolist() == [100, 1_800, 3_000, 6_600, 8_000]


def test_hours_gather_bins() -> None:
    t = np.array([100.0, 8_000.0])
    edges = bin_edges(100.0, 8_000.0, [np.array([1_800.0])])
    found, kept = digest([series(t, np.array([4.0, 0.0]))], MACHINE, Cap.constant(3.0), edges)
    begins, by_hour = hourly(found)
    assert begins.tolist() == [0, 3_600, 7_200]
    assert by_hour.edge_s.tolist() == [100, 3_600, 7_200, 8_000]
    assert by_hour.over_s.tolist() == [3_500, 3_600, 800]
    assert by_hour.over_j.tolist() == [3_500, 3_600, 800]
    assert kept.overshoot_w == 1.0
