"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from wattqueue.report import metric_table, words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (99.4, "99.4 s"),
        (99.6, "1 min 40 s"),
        (312, "5 min 12 s"),
        (3_599.9, "60 min"),
        (9_462.25, "2 h 38 min"),
        (86_400, "24 h"),
        (600_000, "6.94 days"),
        (-90, "−90 s"),
        (math.nan, "–"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 W"), (4_100, "4.1 kW"), (999.6, "1,000 W"), (2.5e6, "2.5 MW"), (math.inf, "∞ W")]
)
def test_watts(value: float, text: str) -> None:
    assert words.watts(value) == text


def test_energy_is_in_watt_hours() -> None:
    assert words.energy(3.6e9) == "1 MWh"


def test_counts_and_shares() -> None:
    assert words.count(1, "job") == "1 job"
    assert words.count(28_481, "job") == "28,481 jobs"
    assert words.percent(0.8125) == "81.2 %"


@pytest.mark.parametrize(
    ("name", "value", "group", "text"),
    [
        ("wait_s_p95", 3_600.0, "Service for users", "1 h"),
        ("machine_energy_j", 3.6e9, "Energy", "1 MWh"),
        ("utilization", 0.5, "The machine", "50 %"),
        ("cap_overshoot_w", 4_100.0, "The cap", "4.1 kW"),
        ("mape_percent", 11.5, "Prediction", "11.5 %"),
        ("mape_percent", 1.5e-15, "Prediction", "0 %"),
        ("jobs_killed", 1_200, "Jobs", "1,200"),
        ("something_new", 2.0, "Further", "2"),
    ],
)
def test_metrics_are_read_in_their_unit(name: str, value: float, group: str, text: str) -> None:
    (row,) = metric_table.rows({name: value})
    assert (row.group, row.value) == (group, text)
