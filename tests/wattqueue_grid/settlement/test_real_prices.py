"""Settlement at the German day-ahead prices of 2023: real prices, some below 0, with rows of a wrong offset."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_grid.settlement.hours import BERLIN, unix
from tests.wattqueue_grid.settlement.test_statement import CONTRACT
from wattqueue.errors import InputError
from wattqueue.formats.tariff import Tariff, parse_source, read_tariff
from wattqueue.model.jobs import Labels
from wattqueue_grid.meter import MeterData
from wattqueue_grid.settlement.energy_price import energy_bill
from wattqueue_grid.settlement.load_history import CalledEvent, LoadHistory
from wattqueue_grid.settlement.statement import settle_event

DATA = os.environ.get("WATTQUEUE_DATA", "")
PRICES = Path(DATA) / "grid" / "de_dayahead_prices_2023_hourly.csv.gz"
pytestmark = pytest.mark.skipif(not DATA or not PRICES.exists(), reason="needs WATTQUEUE_DATA with grid prices")
BY_PRICE = replace(CONTRACT, payment_per_mwh=None, negative_price="pass", most_share=Decimal(2))


@pytest.fixture(scope="module")
def prices() -> Tariff:
    return read_tariff(parse_source(PRICES, "EUR/MWh", "--price-unit"), 0.0, repair=True)


def day(begin: str, watts: list[float]) -> MeterData:
    """Hourly watts of a day, generated."""
    return MeterData(
        unix(begin), 3_600, np.array(watts), Labels(np.zeros(len(watts), np.int32), ("generated",)), "test"
    )


def test_delivery_is_paid_at_the_hours_prices(prices: Tariff) -> None:
    # 27 March 2023, 06:00 to 09:00: 115, 142.99 and 151.31 EUR/MWh in the file. 100 kW before and after, 20 kW in it.
    meter = day("2023-03-27 00:00", [100_000.0] * 6 + [20_000.0] * 3 + [100_000.0] * 15)
    event = CalledEvent("e", unix("2023-03-27 06:00"), unix("2023-03-27 09:00"), 80_000)
    found = settle_event(event, (event,), LoadHistory(meter, BY_PRICE.calendar), BY_PRICE, prices=prices)
    assert [row.rate for row in found.rows] == [Decimal("115.0"), Decimal("142.99"), Decimal("151.31")]
    # 80 kWh each: 9.20, 11.4392 and 12.1048 EUR
    assert [row.payment for row in found.rows] == [9_200_000, 11_439_200, 12_104_800]
    assert found.payment == 32_744_000


def test_hours_of_a_price_below_0_cost_where_the_contract_passes_it_on(prices: Tariff) -> None:
    # 1 January 2023, 00:00 to 03:00: -5.17, -1.07 and -1.47 EUR/MWh. The hours averaged lie on 31 December and later.
    meter = MeterData(
        unix("2022-12-31 18:00"), 3_600, np.array([100_000.0] * 6 + [20_000.0] * 3 + [100_000.0] * 9),
        Labels(np.zeros(18, np.int32), ("generated",)), "test",
    )  # fmt: skip
    event = CalledEvent("e", unix("2023-01-01 00:00"), unix("2023-01-01 03:00"), 80_000)
    history = LoadHistory(meter, BY_PRICE.calendar)
    found = settle_event(event, (event,), history, BY_PRICE, prices=prices)
    assert [row.payment for row in found.rows] == [-413_600, -85_600, -117_600]
    zero = settle_event(event, (event,), history, replace(BY_PRICE, negative_price="zero"), prices=prices)
    assert zero.payment == 0
    with pytest.raises(InputError):
        settle_event(event, (event,), history, replace(BY_PRICE, negative_price="refuse"), prices=prices)


def test_a_year_of_constant_power_costs_the_mean_price_and_the_peak(prices: Tariff) -> None:
    begin, end = unix("2023-01-01 00:00"), unix("2024-01-01 00:00")
    hours = (end - begin) // 3_600
    meter = MeterData(
        begin, 3_600, np.full(hours, 1_000_000.0), Labels(np.zeros(hours, np.int32), ("generated",)), "test"
    )
    contract = replace(CONTRACT, energy_per_mwh=None, peak_per_kw=Decimal("8.50"))
    assert contract.calendar.zone == BERLIN
    # At 1 MW an hour is a MWh: the sum of the prices as they stand in the file, and 1,000 kW at 8.50.
    written = [Decimal(repr(float(p))) for p in prices.series.at(np.array([begin + 3_600.0 * k for k in range(hours)]))]
    assert energy_bill(meter, contract, prices) == int(sum(written) * 1_000_000) + 8_500_000_000
