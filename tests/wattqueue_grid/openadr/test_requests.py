"""Which reports are due, as the user guide describes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wattqueue_grid.openadr.test_times import HOUR_S, MIDNIGHT_S, event, interval
from wattqueue_grid.openadr.requests import CHOSEN_S, due_reports

PERIOD = {"start": "2025-03-14T00:00:00Z", "duration": "PT1H"}


def due(now_h: float, known_h: float = -1.0, count: int = 6, **request: Any) -> list[tuple[float, list[int]]]:
    """Reports of an event of hourly intervals that are due: when, in hours since midnight, and which intervals."""
    intervals = {"intervals": [interval(i) for i in range(count)]} if count else {}
    one = event(intervalPeriod=PERIOD, reportDescriptors=[{"payloadType": "USAGE", **request}], **intervals)
    found = due_reports(one, "ven", MIDNIGHT_S + known_h * HOUR_S, MIDNIGHT_S + now_h * HOUR_S)
    return [
        ((r.due_s - MIDNIGHT_S) / HOUR_S, [round((i.begin_s - MIDNIGHT_S) / HOUR_S) for i in r.intervals])
        for r in found
    ]


def test_by_default_one_report_on_all_intervals_after_the_last() -> None:
    assert due(5.9) == []
    assert due(6.0) == [(6, [0, 1, 2, 3, 4, 5])]


def test_a_forecast_is_due_when_the_first_interval_begins() -> None:
    assert due(-0.1, historical=False) == []
    assert due(0.0, historical=False) == [(0, [0, 1, 2, 3, 4, 5])]


def test_the_periodic_reports_of_the_guide() -> None:
    request = {"startInterval": 1, "numIntervals": 2, "frequency": 2, "repeat": 3}
    assert due(10, **request) == [(2, [0, 1]), (4, [2, 3]), (6, [4, 5])]
    assert due(4.5, **request) == [(2, [0, 1]), (4, [2, 3])]


def test_the_rolling_forecast_of_the_guide() -> None:
    request = {"startInterval": 0, "numIntervals": 3, "frequency": 1, "repeat": 3, "historical": False}
    assert due(10, **request) == [(0, [0, 1, 2]), (1, [1, 2, 3]), (2, [2, 3, 4])]


def test_a_frequency_of_minus_one_is_the_number_of_intervals() -> None:
    assert due(10, startInterval=1, numIntervals=2, repeat=-1) == [(2, [0, 1]), (4, [2, 3]), (6, [4, 5])]


def test_implied_intervals_go_on_without_end() -> None:
    request = {"startInterval": 0, "numIntervals": 3, "historical": False, "frequency": 1, "repeat": -1}
    assert due(0.5, count=0, **request) == [(0, [0, 1, 2])]
    assert due(40.5, count=0, **request) == [(40, [40, 41, 42])]
    assert due(40.5, count=0, **{**request, "repeat": 2}) == [(1, [1, 2, 3])]


def test_only_the_last_report_from_before_the_event_was_known_is_sent() -> None:
    request = {"startInterval": 0, "numIntervals": 1, "frequency": 1, "repeat": -1}
    assert due(5.5, known_h=3.5, **request) == [(3, [2]), (4, [3]), (5, [4])]


def test_the_ven_chooses_the_time_where_the_frequency_is_zero() -> None:
    one = event(
        intervalPeriod={"start": "0001-01-01", "duration": "PT0H"}, reportDescriptors=[{"payloadType": "DEMAND"}]
    )
    (first,) = due_reports(one, "ven", 0.0, MIDNIGHT_S + 1000.0)
    (second,) = due_reports(one, "ven", 0.0, MIDNIGHT_S + 1000.0 + CHOSEN_S)
    assert first.open
    assert first.key != second.key
    assert first.intervals[0].end_s - first.intervals[0].begin_s == CHOSEN_S
    assert due(3.0, frequency=0)[0][0] == 3.0


def test_repeated_intervals_are_reported_round_by_round() -> None:
    one = event(
        duration="P9999Y", intervalPeriod=PERIOD, intervals=[interval(0), interval(1)],
        reportDescriptors=[{"payloadType": "USAGE"}],
    )  # fmt: skip
    found = due_reports(one, "ven", 0.0, MIDNIGHT_S + 8.5 * HOUR_S)
    assert [(r.due_s - MIDNIGHT_S) / HOUR_S for r in found] == [8.0]


@pytest.mark.parametrize("request_", [{"numIntervals": 0}, {"startInterval": 9}, {"repeat": 0}])
def test_requests_for_nothing_give_nothing(request_: dict[str, int]) -> None:
    assert due(10, **request_) == []
