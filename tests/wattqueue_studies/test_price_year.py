"""A year of load targets on prices: the rule for targets by hand, and a small year through settlement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue_studies.demand_response.price_year import DAYS_BEFORE, HOURS, PriceYear, dear_hours, read_prices

DAY = 24
BEGIN = np.datetime64("2023-01-09T23:00")  # a midnight in Berlin


def prices(path: Path, days: int, dear: dict[int, tuple[int, float]]) -> Path:
    """Hourly prices of 100, but for the hours from ``hour`` on of some days."""
    rows = ["Date,Price"]
    for hour in range(days * DAY):
        day, of_day = divmod(hour, DAY)
        first, price = dear.get(day, (-DAY, 100.0))
        value = price if first <= of_day < first + HOURS else 100.0
        rows.append(f"{BEGIN + np.timedelta64(hour, 'h')}Z,{value}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_day_has_a_target_at_its_dearest_hours_where_they_are_dear_enough(tmp_path: Path) -> None:
    # Day 5 has too few days before it, day 29 is not dear enough, day 30 is.
    dear = {5: (17, 300.0), 29: (17, 140.0), 30: (17, 170.0)}
    tariff = read_prices(prices(tmp_path / "prices.csv", 32, dear))
    begin = float((BEGIN + np.timedelta64(30 * DAY + 17, "h")).astype("datetime64[s]").astype(int))
    # 17:00; known at 13:00 of the day before.
    assert dear_hours(tariff) == [(begin, 28 * 3_600.0)]


def test_prices_that_are_not_hourly_are_refused(tmp_path: Path) -> None:
    path = prices(tmp_path / "prices.csv", 3, {})
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[:20] + lines[21:]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="hourly"):
        read_prices(path)


@pytest.mark.compiled
def test_a_short_year_is_settled_and_compared(tmp_path: Path) -> None:
    dear = dict.fromkeys(range(DAYS_BEFORE + 12, DAYS_BEFORE + 16), (17, 200.0))
    tariff = read_prices(prices(tmp_path / "prices.csv", DAYS_BEFORE + 18, dear))
    year = PriceYear.of(tariff, load=0.7)
    assert len(year.targets) == 4
    row = year.row("dr-easy-ahead", 1.0)
    assert (row.events, row.settled) == (4, 4)
    assert row.paid > 0.0
    assert row.counterfactual_mwh > 0.0
    assert row.within_percent > 90.0
