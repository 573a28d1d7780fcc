"""Energy, mean and peak of intervals, and the quality of the data."""

from __future__ import annotations

import math

import pytest

from wattqueue_grid.openadr.power_log import HOLD_S, NO_POWER, PowerLog


def log(*rows: tuple[float, float, bool]) -> PowerLog:
    made = PowerLog()
    for time_s, power_w, measured in rows:
        made.add(time_s, power_w, measured=measured)
    return made


def test_the_power_of_an_interval() -> None:
    made = log(*((10.0 * i, 100.0 if i < 3 else 400.0, True) for i in range(7)))
    found = made.over(10.0, 60.0)
    assert found.energy_j == pytest.approx(20 * 100 + 30 * 400)
    assert found.mean_w == pytest.approx(280.0)
    assert (found.peak_w, found.quality) == (400.0, "OK")


def test_a_gap_is_estimated_by_the_rest() -> None:
    made = log((0.0, 100.0, True), (1000.0, 100.0, True))
    found = made.over(0.0, 1000.0)
    assert found.energy_j == pytest.approx(100_000.0)
    assert found.quality == "ESTIMATED"


def test_maxima_in_place_of_measurements_are_estimates() -> None:
    assert log((0.0, 100.0, True), (30.0, 200.0, False)).over(0.0, 60.0).quality == "ESTIMATED"
    assert log((0.0, 100.0, True), (30.0, 200.0, False)).over(0.0, 30.0).quality == "OK"


def test_no_sample_is_missing() -> None:
    made = log((0.0, 100.0, True))
    assert made.over(HOLD_S, 2 * HOLD_S) == NO_POWER
    assert made.over(-100.0, 0.0) == NO_POWER
    assert made.over(5.0, math.inf) == NO_POWER
    assert made.over(5.0, 5.0) == NO_POWER
    assert PowerLog().over(0.0, 1.0) == NO_POWER


def test_a_clock_that_was_set_back_keeps_no_samples_out() -> None:
    made = log((10.0, 100.0, True), (5000.0, 900.0, True), (20.0, 200.0, True))
    assert made.latest_w(30.0) == 200.0
    assert made.over(10.0, 30.0).mean_w == pytest.approx(150.0)


def test_samples_out_of_order_or_without_a_figure_are_left_out() -> None:
    made = log((10.0, 100.0, True), (5.0, 900.0, True), (20.0, math.nan, True), (30.0, math.inf, True))
    assert made.over(10.0, 30.0).peak_w == 100.0
    assert made.latest_w(40.0) == 100.0
    assert made.latest_w(11.0 + HOLD_S) is None
