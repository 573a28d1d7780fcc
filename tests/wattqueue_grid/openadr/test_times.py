"""Durations, starts and windows, from the user guide's examples and by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from wattqueue.errors import InputError
from wattqueue_grid.openadr.objects import VtnEvent, parse
from wattqueue_grid.openadr.times import DAY_S, duration_in_s, duration_text, instant_s, shift, windows

MIDNIGHT_S = 1_741_910_400.0
"""2025-03-14T00:00:00Z, of the guide's examples."""
HOUR_S = 3600.0


def event(**more: Any) -> VtnEvent:
    metadata = {"id": "e1", "programID": "p1", "createdDateTime": "2025-03-13T00:00:00Z"}
    return parse(VtnEvent, {**metadata, "modificationDateTime": "2025-03-14T00:30:00Z", **more})


def interval(number: int, **period: str) -> dict[str, Any]:
    return {"id": number, "payloads": [], **({"intervalPeriod": period} if period else {})}


def hours(one: VtnEvent, now_h: float = 0.0, ahead_h: float = 1000.0) -> list[tuple[int, float, float]]:
    """Windows as (id, begin, end) in hours since midnight."""
    found = windows(one, "ven", MIDNIGHT_S + now_h * HOUR_S, ahead_h * HOUR_S)
    return [(w.interval.id, (w.begin_s - MIDNIGHT_S) / HOUR_S, (w.end_s - MIDNIGHT_S) / HOUR_S) for w in found]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT15M", 900.0), ("PT1H", 3600.0), ("P1D", DAY_S), ("P2W", 14 * DAY_S), ("P1DT12H", 1.5 * DAY_S),
        ("PT0S", 0.0), ("PT0.5S", 0.5), ("-PT5M", -300.0), ("P1Y", 365 * DAY_S), ("P9999Y", math.inf),
        ("P1M", 30 * DAY_S),
        (f"P{'9' * 400}D", math.inf), (f"PT{'9' * 5000}S", math.inf),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert duration_in_s(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1", "P1H", "PT1H ", "PT1,5H", "P1D2W", "PT٣H", "PT²H"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        duration_in_s(text)


@pytest.mark.parametrize("seconds", [0.0, 0.25, 900.0, 86_400.0 * 3])
def test_durations_are_written_so_that_they_read_back(seconds: float) -> None:
    assert duration_in_s(duration_text(seconds)) == seconds


def test_starts() -> None:
    assert instant_s("2025-03-14T00:00:00.000Z") == MIDNIGHT_S
    assert instant_s("2025-03-14T01:00:00+01:00") == MIDNIGHT_S
    assert instant_s("0001-01-01") is None
    assert instant_s("0001-01-01T00:00:00") is None
    for wrong in ("2025-03-14T00:00:00", "soon", "14:13:26", ""):
        with pytest.raises(InputError):
            instant_s(wrong)


def test_intervals_follow_one_another() -> None:
    one = event(
        intervalPeriod={"start": "2025-03-14T00:00:00Z", "duration": "PT1H"},
        intervals=[interval(0), interval(7, duration="PT2H"), interval(3)],
    )
    assert hours(one) == [(0, 0, 1), (7, 1, 3), (3, 3, 4)]


def test_an_interval_that_states_its_start_moves_those_behind_it() -> None:
    one = event(
        intervalPeriod={"start": "2025-03-14T00:00:00Z", "duration": "PT1H"},
        intervals=[interval(0), interval(1, start="2025-03-14T10:00:00Z", duration="PT2H"), interval(2)],
    )
    assert hours(one) == [(0, 0, 1), (1, 10, 12), (2, 12, 13)]


def test_a_start_of_now_in_an_interval_is_that_of_the_event_or_follows_on() -> None:
    now = "0001-01-01T00:00:00Z"
    one = event(
        intervalPeriod={"start": "2025-03-14T05:00:00Z", "duration": "PT1H"},
        intervals=[interval(0, start=now), interval(1, start=now)],
    )
    assert hours(one) == [(0, 5, 6), (1, 6, 7)]
    alone = event(intervals=[interval(0, start=now, duration="PT2H"), interval(1, start=now, duration="PT1H")])
    assert hours(alone) == [(0, 0.5, 2.5), (1, 2.5, 3.5)]


def test_now_is_when_the_event_was_changed() -> None:
    body = {"start": "0001-01-01", "duration": "PT4H"}
    assert hours(event(intervalPeriod=body, intervals=[interval(0)])) == [(0, 0.5, 4.5)]
    endless = {"start": "0001-01-01T00:00:00", "duration": "P9999Y"}
    assert hours(event(intervalPeriod=endless, intervals=[interval(0)])) == [(0, 0.5, math.inf)]


def test_no_duration_leaves_no_window() -> None:
    cancelled = {"start": "0001-01-01", "duration": "PT0S"}
    assert hours(event(intervalPeriod=cancelled, intervals=[interval(0)])) == []


def test_the_duration_of_an_event_cuts_or_repeats() -> None:
    body = {"intervalPeriod": {"start": "2025-03-14T00:00:00Z", "duration": "PT1H"}}
    three = [interval(i) for i in range(3)]
    assert hours(event(duration="PT90M", intervals=three, **body)) == [(0, 0, 1), (1, 1, 1.5)]
    assert hours(event(duration="PT5H", intervals=three, **body)) == [
        (0, 0, 1),
        (1, 1, 2),
        (2, 2, 3),
        (0, 3, 4),
        (1, 4, 5),
    ]
    later = hours(event(duration="P9999Y", intervals=three, **body), now_h=31, ahead_h=3)
    assert later == [(0, 30, 31), (1, 31, 32), (2, 32, 33), (0, 33, 34), (1, 34, 35), (2, 35, 36)]


def test_too_many_windows_are_refused() -> None:
    one = event(
        duration="P9999Y", intervalPeriod={"start": "2025-03-14T00:00:00Z", "duration": "PT1S"}, intervals=[interval(0)]
    )
    with pytest.raises(InputError, match="repeat"):
        hours(one)


@pytest.mark.parametrize(
    "body",
    [
        {"intervals": [interval(0, duration="PT1H")]},
        {"intervals": [interval(0, start="2025-03-14T00:00:00Z")]},
        {"intervals": [interval(0, start="2025-03-14T00:00:00Z", duration="-PT1H")]},
        {"intervals": [interval(0, start="2025-03-14T00:00:00Z", duration="an hour")]},
        {"intervalPeriod": {"start": "2025-03-14T00:00:00Z", "duration": "PT1H", "randomizeStart": "P9999Y"},
         "intervals": [interval(0)]},
    ],
)  # fmt: skip
def test_windows_that_cannot_be_known_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        hours(event(**body))


def test_a_random_start_is_within_its_bounds_and_stays() -> None:
    period = {"start": "2025-03-14T00:00:00Z", "duration": "PT1H", "randomizeStart": "PT10M"}
    shifts = [shift(event(id=f"e{i}", intervalPeriod=period, intervals=[interval(0)]), "ven") for i in range(400)]
    assert min(shifts) < -500
    assert max(shifts) > 500
    assert all(abs(one) <= 600 for one in shifts)
    assert abs(sum(shifts) / len(shifts)) < 60
    one = event(intervalPeriod=period, intervals=[interval(0), interval(1)])
    (_, begin, end), (_, second, _) = hours(one)
    assert begin * HOUR_S == pytest.approx(shift(one, "ven"))
    assert end - begin == pytest.approx(1.0)
    assert second == end
    assert shift(one, "ven") != shift(one, "another")
