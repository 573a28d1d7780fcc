"""Load targets: what is refused, what they make of a cap, and who knows of them when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError, MachineError
from wattqueue.model.load_target import OF_CAP, OF_MAXIMUM, LoadTarget, LoadTargets
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap, RiseScale, Signals, capped

MACHINE = plain_machine(10, 50.0, 150.0)  # 500 W idle, 1,500 W at most
SCALE = RiseScale.of(MACHINE)


@pytest.mark.parametrize(
    "row",
    [
        {"end_s": 100.0},
        {"end_s": 50.0},
        {"limit": -1.0},
        {"limit": np.nan},
        {"limit": 101.0, "unit": OF_MAXIMUM},
        {"unit": "kW"},
        {"unit": ""},
        {"notice_s": -5.0},
        {"ramp_w_per_s": 0.0},
        {"ramp_w_per_s": -2.0},
        {"start_s": np.inf},
        {"end_s": np.nan},
    ],
)
def test_a_row_that_no_target_can_have_is_refused_with_its_name(row: dict[str, Any]) -> None:
    values: dict[str, Any] = {"start_s": 100.0, "end_s": 200.0, "limit": 900.0, "correlation_id": "call-7"} | row
    with pytest.raises(InputError) as refused:
        LoadTargets.of(LoadTarget(**values))
    assert refused.value.where == "load target 1 (call-7)"
    assert refused.value.hint


def test_overlapping_targets_are_refused_and_adjacent_ones_are_not() -> None:
    first, second = LoadTarget(0.0, 100.0, 900.0), LoadTarget(100.0, 200.0, 800.0)
    assert len(LoadTargets.of(second, first)) == 2
    with pytest.raises(InputError) as refused:
        LoadTargets.of(first, LoadTarget(99.0, 200.0, 800.0))
    assert refused.value.where == "load target 2"


def test_a_target_below_idle_is_refused() -> None:
    targets = LoadTargets.of(LoadTarget(0.0, 100.0, 500.0), LoadTarget(200.0, 300.0, 33.0, OF_MAXIMUM))
    with pytest.raises(MachineError) as low:
        targets.require_reachable(MACHINE, Cap.none())
    assert low.value.where == "load target 2"  # 33 % of 1,500 W is 495 W
    targets.take(slice(0, 1)).require_reachable(MACHINE, Cap.none())


def test_a_percentage_says_of_what() -> None:
    cap = Cap(np.array([0.0, 150.0]), np.array([1_200.0, 1_000.0]))
    rows = [LoadTarget(0.0, 10.0, 50.0, OF_MAXIMUM), LoadTarget(20.0, 30.0, 50.0, OF_CAP)]
    rows.append(LoadTarget(200.0, 210.0, 50.0, OF_CAP))
    assert LoadTargets.of(*rows).watts(MACHINE, cap).tolist() == [750.0, 600.0, 500.0]
    with pytest.raises(MachineError):
        LoadTargets.of(*rows).watts(MACHINE, Cap.none())
    with pytest.raises(MachineError):
        LoadTargets.of(rows[0]).watts(plain_machine(10, 50.0), cap)


def test_the_lower_of_cap_and_target_is_in_force_and_notices_are_rows() -> None:
    targets = LoadTargets.of(LoadTarget(100.0, 200.0, 900.0, notice_s=30.0), LoadTarget(300.0, 400.0, 1_400.0))
    cap = Cap(np.array([0.0, 150.0, 350.0]), np.array([1_200.0, 800.0, 1_500.0]))
    both = capped(cap, targets, SCALE)
    assert both.time_s.tolist() == [0, 70, 100, 150, 200, 300, 350, 400]
    assert both.cap_w.tolist() == [1_200, 1_200, 900, 800, 800, 800, 1_400, 1_500]
    assert capped(cap, LoadTargets.none(), SCALE) is cap


def test_no_target_holds_before_its_start() -> None:
    both = capped(Cap(np.array([0.0]), np.array([1_200.0])), LoadTargets.of(LoadTarget(0.0, 9.0, 700.0)), SCALE)
    assert both.at(np.array([-5.0, 0.0, 9.0])).tolist() == [1_200.0, 700.0, 1_200.0]


def test_after_a_target_the_limit_rises_no_faster_than_its_ramp() -> None:
    target = LoadTarget(100.0, 200.0, 800.0, ramp_w_per_s=10.0)
    both = capped(Cap.constant(1_200.0), LoadTargets.of(target), SCALE)
    at = np.linspace(200.0, 250.0, 501)
    allowed = 800.0 + 10.0 * (at - 200.0)
    assert (both.at(at[at < 240]) <= allowed[at < 240] + 1e-9).all()
    assert both.at(np.array([199.0, 200.0, 214.0, 215.0, 239.0, 240.0])).tolist() == [800, 800, 800, 950, 1_100, 1_200]


def test_without_a_cap_the_limit_rises_to_the_stated_maximum() -> None:
    machine = plain_machine(100, 200.0, 1_000.0)
    target = LoadTarget(0.0, 600.0, 3e4, ramp_w_per_s=100.0)
    both = capped(Cap.none(), LoadTargets.of(target), RiseScale.of(machine))
    at = np.arange(600.0, 1_299.0)  # 70 kW take 700 s
    assert (both.at(at) <= 3e4 + 100.0 * (at - 600.0)).all()
    assert both.at(np.array([599.0, 600.0, 1_301.0])).tolist() == [3e4, 3e4, np.inf]
    # Above the maximum a cap limits nothing: the rise ends there.
    above = capped(Cap.constant(1e7), LoadTargets.of(target), RiseScale.of(machine))
    assert above.at(np.array([1_301.0])).tolist() == [1e7]


@given(st.integers(1, 2_000), st.floats(0.01, 1e6), st.floats(0.0, 1.0), st.sampled_from([np.inf, 0.5, 1.0, 3.0]))
def test_steps_of_a_rise_are_low_and_frequent(nodes: int, ramp: float, level: float, cap: float) -> None:
    """At most a hundredth of the maximum or one node high, and at most 60 s apart, whatever the machine."""
    most = nodes * 900.0
    target = LoadTarget(1e9, 1e9 + 60.0, level * most, ramp_w_per_s=ramp)
    scale = RiseScale.of(plain_machine(nodes, 100.0, 900.0))
    both = capped(Cap.constant(cap * most), LoadTargets.of(target), scale)
    row = int(np.searchsorted(both.time_s, target.end_s))
    rise = np.minimum(both.cap_w[row:], most)
    assert np.diff(rise).max(initial=0.0) <= max(0.01 * most, 900.0) * (1.0 + 1e-6) + ramp * 2e-6
    lasts = both.time_s[-1] - target.end_s
    assert np.diff(both.time_s[row:]).max(initial=0.0) <= max(60.0, lasts / 44_640) + 1e-6


def test_a_ramp_needs_something_to_rise_to() -> None:
    targets = LoadTargets.of(LoadTarget(0.0, 9.0, 700.0), LoadTarget(10.0, 19.0, 700.0, ramp_w_per_s=5.0))
    unknown = plain_machine(10, 50.0)
    assert len(targets.in_watts(unknown, Cap.constant(900.0))) == 2
    for cap in (Cap.none(), Cap(np.array([0.0, 50.0]), np.array([900.0, np.inf]))):
        with pytest.raises(MachineError) as caught:
            targets.in_watts(unknown, cap)
        assert caught.value.where == "load target 2"
        assert len(targets.in_watts(MACHINE, cap)) == 2


def test_a_target_is_known_from_its_notice_until_its_end() -> None:
    targets = LoadTargets.of(LoadTarget(100.0, 200.0, 900.0, notice_s=30.0), LoadTarget(300.0, 400.0, 800.0))
    assert [len(targets.known_at(t)) for t in (69.0, 70.0, 199.0, 200.0, 299.0, 300.0, 400.0)] == [0, 1, 1, 0, 0, 1, 0]
    assert [targets.in_force(t) for t in (99.0, 100.0, 199.0, 200.0, 300.0, 400.0)] == [-1, 0, 0, -1, 1, -1]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(0, 2_000), st.integers(1, 200)), max_size=5)
)
def test_a_capped_series_never_exceeds_cap_or_target(rows: list[tuple[int, int, int, int]]) -> None:
    begin, targets = 0, []
    for gap, length, watts, ramp in rows:
        targets.append(LoadTarget(begin + gap, begin + gap + length, watts, ramp_w_per_s=ramp))
        begin += gap + length
    cap = Cap(np.array([0.0, 60.0]), np.array([1_500.0, 1_000.0]))
    both = capped(cap, LoadTargets.of(*targets), SCALE)
    at = np.arange(-2.0, 600.0, 0.5)
    limit = cap.at(at).copy()
    for target in targets:
        inside = (at >= target.start_s) & (at < target.end_s)
        limit[inside] = np.minimum(limit[inside], target.limit)
        rise = np.where(at >= target.end_s, target.limit + target.ramp_w_per_s * (at - target.end_s), np.inf)
        limit = np.minimum(limit, rise)
    assert (both.at(at) <= limit + 1e-9).all()
    assert both.at(np.array([1e6])).tolist() == [1_000.0]


def test_nobody_knows_of_a_target_before_its_notice() -> None:
    signals = Signals(Cap.constant(1_200.0), LoadTargets.of(LoadTarget(100.0, 200.0, 900.0, notice_s=30.0)))
    assert [column.tolist() for column in signals.caps_after(69.0)] == [[], []]
    assert [column.tolist() for column in signals.caps_after(70.0)] == [[100.0, 200.0], [900.0, 1_200.0]]
    assert signals.limit().time_s.tolist() == [-np.inf, 70.0, 100.0, 200.0]
