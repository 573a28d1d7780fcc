"""The statement of an event by hand: watts, money, gaps, tests, prices below 0."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_grid.settlement.hours import BERLIN, meter, unix
from wattqueue.errors import InputError
from wattqueue.formats.tariff import SignalSource, Tariff
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Series
from wattqueue_grid.settlement.calendar import SiteCalendar
from wattqueue_grid.settlement.contract import Contract, EventTerms, NegativePrice, read_contract
from wattqueue_grid.settlement.events import called_events, chosen
from wattqueue_grid.settlement.load_history import CalledEvent, LoadHistory
from wattqueue_grid.settlement.page import document
from wattqueue_grid.settlement.statement import EventStatement, csv_files, settle_event

NAN = float("nan")
CONTRACT = Contract(
    "contract", "EUR", SiteCalendar(BERLIN), "pjm-same-day", 60_000,
    payment_per_mwh=Decimal("180.00"), most_share=Decimal("1.2"), penalty_per_mwh=Decimal("300"),
    tolerance=Decimal("0.1"),
)  # fmt: skip
EVENT = CalledEvent("event-1", unix("2023-03-22 12:00"), unix("2023-03-22 15:00"), 60_000)


def settled(
    watts: dict[int, float],
    contract: Contract = CONTRACT,
    event: CalledEvent = EVENT,
    prices: Tariff | None = None,
) -> EventStatement:
    """An event on a day of 100 kW, but for some hours."""
    day = dict.fromkeys(range(24), 100_000.0) | watts
    found = meter({"2023-03-22": day}, "2023-03-22", first="2023-03-20")
    return settle_event(event, (event,), LoadHistory(found, contract.calendar), contract, prices=prices)


def series(values: list[float], unit: str = "EUR/MWh") -> Tariff:
    time = np.array([unix("2023-03-22 11:00") + 3_600.0 * k for k in range(len(values))])
    source = SignalSource(Path("prices.csv"), unit, unit.partition("/")[0], 3.6e9)
    return Tariff(source, Series(time, np.array(values)), np.arange(len(values)), (), "")


def test_payment_and_penalty_of_each_interval() -> None:
    # 12: 20 kW metered, 80 delivered, paid to 1.2 x 60 = 72 kW: 0.072 MWh x 180 = 12.96 EUR; nothing missing
    # 13: 60 kW metered, 40 delivered: 0.040 x 180 = 7.20 EUR; missing 60 x 0.9 - 40 = 14 kW: 0.014 x 300 = 4.20 EUR
    # 14: 130 kW metered, -30 delivered: not paid; missing 54 kW: 16.20 EUR
    found = settled({12: 20_000.0, 13: 60_000.0, 14: 130_000.0})
    assert [row.delivered_w for row in found.rows] == [80_000, 40_000, -30_000]
    assert [row.payment for row in found.rows] == [12_960_000, 7_200_000, 0]
    assert [row.penalty for row in found.rows] == [0, 4_200_000, 16_200_000]
    assert (found.payment, found.penalty) == (20_160_000, 20_400_000)
    assert (found.delivered_j, found.committed_j) == (90_000 * 3_600, 180_000 * 3_600)
    assert found.labels == ("measured",)


def test_a_gap_is_not_delivered_and_is_listed() -> None:
    found = settled({13: NAN})
    assert found.gaps == (unix("2023-03-22 13:00"),)
    assert found.rows[1].delivered_w is None
    assert (found.rows[1].paid_w, found.rows[1].missing_w) == (0, 54_000)


def test_a_test_is_paid_and_penalised_as_the_contract_says() -> None:
    test = replace(EVENT, test=True)
    paid = settled({12: 20_000.0}, event=test)
    assert (paid.payment, paid.penalty) == (12_960_000, 0)
    other = replace(CONTRACT, tests_paid=False, tests_penalised=True)
    fined = settled({12: 20_000.0}, other, test)
    assert (fined.payment, fined.penalty) == (0, 2 * 16_200_000)


@pytest.mark.parametrize(("rule", "payment"), [("zero", [0, 0, 0]), ("pass", [-360_000, 0, 0])])
def test_a_negative_price_does_what_the_contract_says(rule: NegativePrice, payment: list[int]) -> None:
    # 72 kW are paid at -5 EUR/MWh: -0.36 EUR
    contract = replace(CONTRACT, payment_per_mwh=None, negative_price=rule)
    found = settled({12: 20_000.0}, contract, prices=series([50.0, -5.0, 10.0, 20.0]))
    assert [row.payment for row in found.rows] == payment


def test_a_negative_price_is_refused_where_the_contract_is_silent() -> None:
    with pytest.raises(InputError) as error:
        settled({}, replace(CONTRACT, payment_per_mwh=None), prices=series([50.0, -5.0, 10.0, 20.0]))
    assert error.value.where == "event event-1"
    assert "negative_price" in str(error.value.hint)


def test_prices_that_are_missing_or_of_another_currency_are_refused() -> None:
    by_series = replace(CONTRACT, payment_per_mwh=None)
    with pytest.raises(InputError):
        settled({}, by_series)
    with pytest.raises(InputError):
        settled({}, by_series, prices=series([1.0] * 4, "USD/MWh"))
    with pytest.raises(InputError):
        settled({}, by_series, prices=series([1.0, 1.0]))


def test_other_rules_and_the_replay_stand_beside_and_never_in_place() -> None:
    replay = meter({"2023-03-22": 90_000.0}, "2023-03-22", first="2023-03-22")
    day = dict.fromkeys(range(24), 100_000.0) | {12: 20_000.0, 13: 20_000.0, 14: 20_000.0}
    found = meter({"2023-03-22": day}, "2023-03-22", first="2023-03-20")
    history = LoadHistory(found, CONTRACT.calendar)
    plain = settle_event(EVENT, (EVENT,), history, CONTRACT)
    both = settle_event(EVENT, (EVENT,), history, CONTRACT, counterfactual=replay)
    assert both.payment == plain.payment
    assert [row.counterfactual_w for row in both.rows] == [90_000] * 3
    assert [row.baseline_w for row in both.rows] == [100_000] * 3
    beside = {other.name: other for other in both.beside}
    assert beside["counterfactual replay"].delivered_j == 3 * 70_000 * 3_600
    assert beside["caiso-10-in-10"].delivered_j is None
    assert beside["caiso-10-in-10"].note  # too short a history


def test_files_and_page_are_identical_on_every_run_and_need_no_network() -> None:
    first, second = (settled({12: 20_000.0, 13: NAN}) for _ in range(2))
    facts = {"meter": "table"}
    assert csv_files([first], CONTRACT, facts) == csv_files([second], CONTRACT, facts)
    page = document([first], CONTRACT, facts).html()
    assert page == document([second], CONTRACT, facts).html()
    assert "src=" not in page.partition("<script")[0]
    assert "counts as not delivered" in page
    rows = csv_files([first], CONTRACT, facts)["intervals.csv"].splitlines()
    assert rows[2] == (
        "event-1,no,2023-03-22 12:00+01:00,3600,20.000,measured,100.000,,80.000,60.000,72.000,0.000,180.00,12.96,0"
    )
    assert rows[3].startswith("event-1,no,2023-03-22 13:00+01:00,3600,,,100.000,,,60.000,0.000,54.000,")
    said = [*document([first], CONTRACT, facts).lines()]
    assert any("missing kWh" in line for line in said)
    assert "No event: 0.00 EUR. Rewards to users are not in the net (incentives settle)." in said


def test_a_telephone_shows_the_curve_and_folds_the_intervals() -> None:
    """As seen: 32 intervals of eleven lines each were 13,200 px of a telephone."""
    page = document([settled({12: 20_000.0})], CONTRACT, {"meter": "table"}).html()
    assert " data-fold" in page
    assert [page.count(f'class="n answer" data-label="{head}"') for head in ("Net", "Delivered kW")] == [1, 3]


def test_an_event_outside_the_data_is_refused() -> None:
    late = CalledEvent("late", unix("2023-03-25 12:00"), unix("2023-03-25 13:00"), 1)
    with pytest.raises(InputError) as error:
        settled({}, event=late)
    assert error.value.where == "event late"


def test_events_are_load_targets_with_the_terms_of_the_contract() -> None:
    targets = LoadTargets.of(LoadTarget(3_600.0, 7_200.0, 1e5, correlation_id="a"), LoadTarget(10_800.0, 14_400.0, 1e5))
    contract = replace(CONTRACT, events={"a": EventTerms(5_000, test=True)})
    found = called_events(targets, contract, 1_679_439_600.0, "targets.csv")
    assert found[0] == CalledEvent("a", 1_679_443_200, 1_679_446_800, 5_000, test=True)
    assert (found[1].event_id, found[1].committed_w) == ("target-2", 60_000)
    assert chosen(found, ["a"], "--event") == found[:1]
    with pytest.raises(InputError):
        chosen(found, ["b"], "--event")


def test_events_without_a_clock_doubled_or_unknown_are_refused() -> None:
    one = LoadTarget(3_600.0, 7_200.0, 1e5, correlation_id="a")
    two = LoadTarget(7_200.0, 8_000.0, 1e5, correlation_id="a")
    for targets, contract, epoch in (
        (LoadTargets.of(one), CONTRACT, None),
        (LoadTargets.of(one, two), CONTRACT, 1e9),
        (LoadTargets.of(one), replace(CONTRACT, events={"b": EventTerms(1)}), 1e9),
        (LoadTargets.none(), CONTRACT, 1e9),
    ):
        with pytest.raises(InputError) as error:
            called_events(targets, contract, epoch, "targets.csv")
        assert error.value.where == "targets.csv"


def test_an_event_without_an_interval_is_refused() -> None:
    with pytest.raises(InputError) as error:
        CalledEvent("e", 3_600, 3_600, 0)
    assert error.value.where == "event e"


TERMS = """
name = "Interruptible load"
currency = "EUR"
time_zone = "Europe/Berlin"
holidays = [2023-04-07]
baseline = "caiso-10-in-10"
committed_kw = 150.5

[payment]
per_mwh = 180.10

[penalty]
per_mwh = 300
tolerance = 0.1

[events.event-7]
committed_kw = 90
test = true
"""


def test_a_contract_is_read_with_its_decimals(tmp_path: Path) -> None:
    path = tmp_path / "contract.toml"
    path.write_text(TERMS, encoding="utf-8")
    found = read_contract(path)
    assert found.payment_per_mwh == Decimal("180.1")
    assert (found.committed_w, found.tolerance) == (150_500, Decimal("0.1"))
    assert found.calendar.holidays == {date(2023, 4, 7)}
    assert found.terms("event-7") == EventTerms(90_000, test=True)
    assert found.terms("other") == EventTerms(150_500)
    path.write_text(
        TERMS.replace("[penalty]", "[tariff]\nper_mwh = 95\npeak_per_kw = 8.5\n[penalty]"), encoding="utf-8"
    )
    priced = read_contract(path)
    assert (priced.energy_per_mwh, priced.peak_per_kw) == (Decimal(95), Decimal("8.5"))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("per_mwh = 180.10", "per_mwh = -1.0", "payment.per_mwh"),
        ("per_mwh = 180.10", "", "payment"),
        ("per_mwh = 180.10", "per_mwh = 1.0\nseries = true", "payment"),
        ('"caiso-10-in-10"', '"ten-in-ten"', "baseline"),
        ('"Europe/Berlin"', '"Europe/Bern"', "time_zone"),
        ("tolerance", "tolerence", "tolerence"),
        ("committed_kw = 150.5", "committed_kw = -1.0", "committed_kw"),
        ('currency = "EUR"', "", "currency"),
        ("test = true", 'test = "yes"', "test"),
        ("[penalty]", "[tariff]\nper_mwh = 95.0\nseries = true\n[penalty]", "tariff"),
        ("[penalty]", "[tariff]\npeak_per_kw = -8.5\n[penalty]", "tariff.peak_per_kw"),
    ],
)
def test_a_contract_that_cannot_be_used_is_refused_with_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = tmp_path / "contract.toml"
    path.write_text(TERMS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_contract(path)
    assert str(path) in str(error.value.where)
    assert key in str(error.value)
