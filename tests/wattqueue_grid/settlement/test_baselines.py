"""Each published rule against tables by hand. 1 March 2023 is a Wednesday; summer time begins on the 26th."""

from datetime import date

import numpy as np
import pytest

from tests.wattqueue_grid.settlement.hours import case, meter
from wattqueue.errors import InputError
from wattqueue_grid.settlement.baselines import BASELINES, rule_of

NAN = float("nan")


def days(*numbers: int, month: int = 3) -> tuple[date, ...]:
    return tuple(date(2023, month, n) for n in numbers)


def test_the_rules_have_the_names_of_contracts() -> None:
    assert list(BASELINES) == ["caiso-10-in-10", "nyiso-cbl", "pjm-match-day", "pjm-same-day"]
    with pytest.raises(InputError) as error:
        rule_of("caiso", "contract.toml")
    assert error.value.where == "contract.toml"


def test_caiso_averages_the_ten_latest_business_days_and_leaves_out_weekends_holidays_and_events() -> None:
    # Event on Wednesday 22 March, 14:00-16:00. Business days before: 21 20 | 17 16 15 14 13 | 10 9 8 7 6 ...
    # The 16th had an event, the 8th is a holiday: 21 20 17 15 14 13 10 9 7 6 remain.
    used = [21, 20, 17, 15, 14, 13, 10, 9, 7, 6]
    loads = {f"2023-03-{day:02d}": {14: 100.0 + 10 * i, 15: 200.0} for i, day in enumerate(used)}
    loads |= {"2023-03-16": {14: 9_999.0}, "2023-03-08": {14: 9_999.0}, "2023-03-18": {14: 9_999.0}}
    found = BASELINES["caiso-10-in-10"](
        case(
            meter(loads, "2023-03-22", first="2023-02-01"),
            "2023-03-22 14:00",
            "2023-03-22 16:00",
            others=[("2023-03-16 09:00", "2023-03-16 10:00")],
            holidays=["2023-03-08"],
        )
    )
    assert found.days == days(*used)
    assert found.factor == 1.0
    # 14:00: (100 + 110 + ... + 190) / 10 = 145; 15:00: 200
    assert found.power_w.tolist() == [145.0, 200.0]


def test_caiso_adjusts_by_the_second_to_fourth_hour_before_the_event() -> None:
    # 10, 11 and 12 o'clock of the day: 110 + 120 + 100 = 330 W against 3 x 100 = 300 W: 1.1. 13 o'clock does not count.
    own = {"2023-03-22": {10: 110.0, 11: 120.0, 12: 100.0, 13: 5_000.0}}
    found = BASELINES["caiso-10-in-10"](
        case(meter(own, "2023-03-22", first="2023-02-01"), "2023-03-22 14:00", "2023-03-22 15:00")
    )
    assert found.factor == pytest.approx(1.1)
    assert found.power_w.tolist() == [110.0]


@pytest.mark.parametrize(("own", "factor", "watts"), [(150.0, 1.2, 120.0), (10.0, 0.8, 80.0)])
def test_caiso_limits_the_adjustment_to_a_fifth(own: float, factor: float, watts: float) -> None:
    day = {"2023-03-22": dict.fromkeys((10, 11, 12), own)}
    found = BASELINES["caiso-10-in-10"](
        case(meter(day, "2023-03-22", first="2023-02-01"), "2023-03-22 14:00", "2023-03-22 15:00")
    )
    assert found.factor == factor
    assert found.power_w.tolist() == [watts]
    assert any("limited" in note for note in found.notes)


def test_caiso_uses_four_other_days_on_a_weekend_and_a_holiday() -> None:
    # Sunday 19 March: the other days before it are 18, 12, 11 and the holiday on Friday the 10th.
    loads = {"2023-03-18": 120.0, "2023-03-12": 140.0, "2023-03-11": 160.0, "2023-03-10": 180.0, "2023-03-19": 150.0}
    found = BASELINES["caiso-10-in-10"](
        case(
            meter(loads, "2023-03-19", first="2023-02-01"),
            "2023-03-19 14:00",
            "2023-03-19 15:00",
            holidays=["2023-03-10"],
        )
    )
    assert found.days == days(18, 12, 11, 10)
    assert found.power_w.tolist() == [150.0]  # (120 + 140 + 160 + 180) / 4; the adjustment is 150 / 150


def test_caiso_passes_over_a_day_with_a_gap_and_says_so() -> None:
    found = BASELINES["caiso-10-in-10"](
        case(meter({"2023-03-21": {14: NAN}}, "2023-03-22", first="2023-02-01"), "2023-03-22 14:00", "2023-03-22 15:00")
    )
    assert found.days[0] == date(2023, 3, 20)
    assert len(found.days) == 10
    assert any("2023-03-21" in note for note in found.notes)


def test_caiso_fills_up_with_the_event_days_of_the_highest_load() -> None:
    # Data from Monday 13 March on; events on the 13th to the 15th: 21, 20, 17, 16 remain, and one event day is added.
    loads = {"2023-03-13": {14: 300.0}, "2023-03-14": {14: 500.0}, "2023-03-15": {14: 400.0}}
    events = [(f"2023-03-{day} 09:00", f"2023-03-{day} 10:00") for day in (13, 14, 15)]
    found = BASELINES["caiso-10-in-10"](
        case(meter(loads, "2023-03-22", first="2023-03-13"), "2023-03-22 14:00", "2023-03-22 15:00", others=events)
    )
    assert found.days == days(21, 20, 17, 16, 14)
    assert found.power_w.tolist() == [180.0]  # (4 x 100 + 500) / 5


def test_caiso_refuses_too_short_a_history() -> None:
    with pytest.raises(InputError) as error:
        BASELINES["caiso-10-in-10"](
            case(meter({}, "2023-03-22", first="2023-03-20"), "2023-03-22 14:00", "2023-03-22 15:00")
        )
    assert error.value.where == "event e"


def test_pjm_same_day_averages_the_hours_of_its_published_example() -> None:
    # Published: an event in hours ending 13-17 averages hours ending 9-11 and 19-20: 8, 9, 10, 18, 19 o'clock.
    own = {8: 100.0, 9: 110.0, 10: 120.0, 11: 9_999.0, 17: 9_999.0, 18: 130.0, 19: 140.0}
    found = BASELINES["pjm-same-day"](
        case(meter({"2023-03-22": own}, "2023-03-22", first="2023-03-22"), "2023-03-22 12:00", "2023-03-22 17:00")
    )
    # (100 + 110 + 120 + 130 + 140) / 5 = 120, the same for each of the five hours
    assert found.power_w.tolist() == [120.0] * 5
    assert found.days == ()


def test_pjm_same_day_refuses_a_gap_in_its_hours() -> None:
    with pytest.raises(InputError) as error:
        BASELINES["pjm-same-day"](
            case(
                meter({"2023-03-22": {9: NAN}}, "2023-03-22", first="2023-03-22"),
                "2023-03-22 12:00",
                "2023-03-22 17:00",
            )
        )
    assert error.value.where == "event e"


def test_pjm_match_day_averages_the_three_most_similar_days() -> None:
    # 18 o'clock distinguishes the days, by their distance to 200 W on the 22nd:
    # the 21st 190 (-10), the 17th 230 (+30), the 14th 180 (-20), the 13th 150 (-50); all others have 100 (-100).
    # 13 and 16 o'clock are beside the event, 14 and 15 in it: none of them is compared.
    loads: dict[str, dict[int, float]] = {
        "2023-03-22": {18: 200.0, 13: 7_000.0, 16: 7_000.0, 14: 5.0, 15: 5.0},
        "2023-03-21": {18: 190.0, 14: 300.0},
        "2023-03-17": {18: 230.0, 14: 500.0},
        "2023-03-14": {18: 180.0, 14: 400.0},
        "2023-03-13": {18: 150.0, 14: 9_999.0},
        "2023-03-18": {18: 200.0, 14: 9_999.0},  # a Saturday
    }
    found = BASELINES["pjm-match-day"](
        case(meter(loads, "2023-03-22", first="2023-02-01"), "2023-03-22 14:00", "2023-03-22 16:00")
    )
    assert found.days == days(21, 17, 14)
    assert found.power_w.tolist() == [400.0, 100.0]  # (300 + 500 + 400) / 3, (100 + 100 + 100) / 3


def test_nyiso_averages_the_five_highest_of_ten_weekdays_from_two_days_before() -> None:
    # Event on Wednesday the 22nd. The window begins on Monday the 20th: 20 17 16 15 14 13 10 9 8 7.
    window = [20, 17, 16, 15, 14, 13, 10, 9, 8, 7]
    loads = {f"2023-03-{day:02d}": {14: 100.0 + 10 * i} for i, day in enumerate(window)}
    loads["2023-03-21"] = {14: 390.0}  # the day before the event is not averaged
    found = BASELINES["nyiso-cbl"](
        case(meter(loads, "2023-03-22", first="2023-02-20"), "2023-03-22 14:00", "2023-03-22 15:00")
    )
    # the highest are 190, 180, 170, 160 and 150 W: 170 W on average
    assert found.days == days(13, 10, 9, 8, 7)
    assert found.power_w.tolist() == [170.0]


def test_nyiso_adjusts_by_the_two_hours_that_begin_four_hours_before() -> None:
    # 10 and 11 o'clock: 130 + 90 = 220 W against 200 W: 1.1. 12 and 13 o'clock are not looked at.
    own = {"2023-03-22": {10: 130.0, 11: 90.0, 12: 9_000.0, 13: 9_000.0}}
    found = BASELINES["nyiso-cbl"](
        case(meter(own, "2023-03-22", first="2023-02-01"), "2023-03-22 14:00", "2023-03-22 15:00")
    )
    assert found.factor == pytest.approx(1.1)
    assert found.power_w.tolist() == [110.0]


def test_nyiso_leaves_out_days_of_low_use() -> None:
    # The running mean begins with the highest hour, 100 W. 20th: 100 W; 17th: 30 W is above a quarter of 100 W and
    # stays, so the mean is (100 + 100 + 30) / 3 = 76.7 W; 16th: 19 W is below a quarter of it (19.2 W) and is left out.
    loads = {"2023-03-16": {14: 19.0}, "2023-03-17": {14: 30.0}}
    found = BASELINES["nyiso-cbl"](
        case(meter(loads, "2023-03-22", first="2023-02-01"), "2023-03-22 14:00", "2023-03-22 15:00")
    )
    assert any("low use left out: 2023-03-16" in note for note in found.notes)
    assert found.power_w.tolist() == [100.0]


def test_nyiso_averages_the_two_higher_of_three_days_of_the_same_name_on_a_weekend() -> None:
    loads = {"2023-03-12": 100.0, "2023-03-05": 200.0, "2023-02-26": 150.0, "2023-03-19": 175.0}
    found = BASELINES["nyiso-cbl"](
        case(
            meter(loads, "2023-03-19", first="2023-02-01"),
            "2023-03-19 14:00",
            "2023-03-19 15:00",
            others=[("2023-03-05 10:00", "2023-03-05 11:00")],  # no exclusion of events on weekends
        )
    )
    assert found.days == (date(2023, 3, 5), date(2023, 2, 26))
    assert found.power_w.tolist() == [175.0]


@pytest.mark.parametrize("name", ["caiso-10-in-10", "nyiso-cbl"])
def test_no_adjustment_across_a_gap_or_another_event(name: str) -> None:
    gap = case(
        meter({"2023-03-22": {10: NAN}}, "2023-03-22", first="2023-01-01"), "2023-03-22 14:00", "2023-03-22 15:00"
    )
    busy = case(
        meter({"2023-03-22": {10: 50.0}}, "2023-03-22", first="2023-01-01"),
        "2023-03-22 14:00",
        "2023-03-22 15:00",
        others=[("2023-03-22 10:00", "2023-03-22 11:00")],
    )
    for each in (gap, busy):
        found = BASELINES[name](each)
        assert found.factor is None
        assert found.power_w.tolist() == [100.0]
        assert any("no same-day adjustment" in note for note in found.notes)


def test_the_hour_that_summer_time_skips_is_no_gap_of_a_day_averaged() -> None:
    # Event on Sunday 2 April, 02:00-03:00. The clock of 26 March has no 2 o'clock: 25 March (Saturday), 1 April, and
    # the Sundays and Saturdays before have. 26 March has no figure there and does not pull the mean down.
    loads: dict[str, dict[int, float]] = {
        "2023-04-01": {2: 130.0},
        "2023-03-26": {1: 500.0, 3: 500.0},
        "2023-03-25": {2: 170.0},
        "2023-03-19": {2: 150.0},
    }
    found = BASELINES["caiso-10-in-10"](
        case(meter(loads, "2023-04-02", first="2023-02-01"), "2023-04-02 02:00", "2023-04-02 03:00")
    )
    assert found.days == (date(2023, 4, 1), date(2023, 3, 26), date(2023, 3, 25), date(2023, 3, 19))
    assert found.power_w.tolist() == [150.0]  # (130 + 170 + 150) / 3


def test_the_hour_that_occurs_twice_is_the_mean_of_both() -> None:
    # 29 October 2023: 02:00 occurs twice. With 15-minute data the event of 5 November at 02:00 has four intervals.
    twice = meter({"2023-10-29": {2: 200.0}}, "2023-11-05", first="2023-09-01", step=900)
    begin = twice.begin_s
    first_two = next(i for i in range(len(twice)) if twice.power_w[i] == 200.0)
    twice.power_w[first_two : first_two + 4] = 100.0  # summer time: 100 W, then winter time: 200 W
    found = BASELINES["caiso-10-in-10"](case(twice, "2023-11-05 02:00", "2023-11-05 03:00"))
    # days 4 November, 29 and 28 October, 22 October and (100 + 150 + 100 + 100) / 4 = 112.5, halves to even: 112
    assert found.days == (date(2023, 11, 4), date(2023, 10, 29), date(2023, 10, 28), date(2023, 10, 22))
    assert found.power_w.tolist() == [112.0] * 4
    assert begin % 900 == 0


def test_an_event_over_midnight_takes_the_hours_of_the_day_after_each_day_averaged() -> None:
    # 23:00-01:00 on Wednesday the 22nd: each day averaged gives its own 23 o'clock and the next day's 0 o'clock.
    loads: dict[str, dict[int, float]] = {"2023-03-21": {23: 200.0, 0: 900.0}, "2023-03-22": {0: 300.0}}
    found = BASELINES["caiso-10-in-10"](
        case(meter(loads, "2023-03-23", first="2023-02-01"), "2023-03-22 23:00", "2023-03-23 01:00")
    )
    # 23 o'clock: (200 + 9 x 100) / 10 = 110; 0 o'clock after the 21st: 300, after the 20th: 900, else 100: 200
    assert found.power_w.tolist() == [110.0, 200.0]
    assert not np.isnan(found.power_w).any()


def test_an_event_off_the_intervals_of_the_meter_is_refused() -> None:
    with pytest.raises(InputError) as error:
        case(meter({}, "2023-03-22", first="2023-03-01"), "2023-03-22 14:10", "2023-03-22 15:00")
    assert error.value.where == "event e"
