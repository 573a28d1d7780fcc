"""Cost and carbon: exact integrals, units, what a series must cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.formats.tariff import SignalSource, parse_source, read_tariff, require_cover
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.whatif.run import bin_edges, digest

MACHINE = Machine("m", (Partition("batch", 10, idle_w=100.0, max_w=500.0),))
WORDS = ("then", "later")


def tariff_file(folder: Path, rows: str, head: str = "time_s,price") -> Path:
    path = folder / "prices.csv"
    path.write_text(f"{head}\n{rows}")
    return path


def test_cost_is_the_sum_over_steps_of_power_and_price(tmp_path: Path) -> None:
    path = tariff_file(tmp_path, "0,10\n3600,-20\n7200,50\n")
    tariff = read_tariff(parse_source(path, "EUR/kWh", "--price-unit"), None, repair=False)
    # 2 kW to 5,400 s, then 3 kW to 9,000 s; idle 1 kW from there to 10,800 s.
    zeros, time = np.zeros(3), np.array([0.0, 5_400.0, 9_000.0])
    power = PowerSeries(time, np.array([2_000.0, 3_000.0, 0.0]), zeros, zeros, zeros.astype(np.int32))
    found, _ = digest([power], MACHINE, Cap.none(), bin_edges(0.0, 9_000.0, [tariff.series.time_s]))
    wanted = 2 * 10 - 2 * 0.5 * 20 - 3 * 0.5 * 20 + 3 * 0.5 * 50
    assert tariff.amount(found.edge_s, found.machine_j) == pytest.approx(wanted)


def test_dates_stand_on_the_traces_clock(tmp_path: Path) -> None:
    path = tariff_file(tmp_path, "1970-01-02T01:00+01:00,1\n1970-01-02T02:00+01:00,2\n", "Date,Price")
    tariff = read_tariff(parse_source(path, "EUR/MWh", "--price-unit"), 86_400.0 - 600.0, repair=False)
    assert tariff.series.time_s.tolist() == [600.0, 4_200.0]
    with pytest.raises(InputError) as caught:
        read_tariff(parse_source(path, "EUR/MWh", "--price-unit"), None, repair=False)
    assert str(caught.value.where) == f"{path}:2"
    assert "--start" in str(caught.value)


def source_of(path: Path, *asked: str | None) -> SignalSource:
    return read_tariff(parse_source(path, *asked), 0.0, repair=False).source  # type: ignore[arg-type]


def test_units(tmp_path: Path) -> None:
    path = tariff_file(tmp_path, "0,10\n")
    source = source_of(path, "gCO2/kWh", "--intensity-unit")
    assert (source.amount, source.per_j) == ("gCO2", 3.6e6)
    assert source_of(path, " EUR / MWh ", "--price-unit").per_j == 3.6e9
    for unit in ("EUR", "EUR/J", "/MWh", "EUR/MWh/h", ""):
        with pytest.raises(InputError) as caught:
            parse_source(Path("x.csv"), unit, "--price-unit")
        assert caught.value.where == "--price-unit"


def test_the_unit_is_the_files(tmp_path: Path) -> None:
    """Dollars were printed as euros: the column of units was not read."""
    rows = "2023-01-01T00:00Z,50,USD/MWh\n2023-01-01T01:00Z,60,USD/MWh\n"
    path = tariff_file(tmp_path, rows, "Date,Price,Unit")
    assert source_of(path, None, "--price-unit").amount == "USD"
    assert source_of(path, "usd / MWh", "--price-unit").per_j == 3.6e9
    with pytest.raises(InputError, match="is in USD/MWh") as caught:
        source_of(path, "EUR/MWh", "--price-unit")
    assert caught.value.where == "--price-unit"
    plain = tariff_file(tmp_path, "0,10\n")
    assert source_of(plain, None, "--price-unit").unit == "EUR/MWh"
    assert source_of(plain, None, "--intensity-unit", "gCO2/kWh").unit == "gCO2/kWh"
    for more, what in (("2023-01-01T02:00Z,60,EUR/MWh\n", "after 'USD/MWh'"), ("", "not an amount per energy")):
        text = rows + more if more else rows.replace("USD/MWh", "dollars")
        with pytest.raises(InputError, match=what) as caught:
            source_of(tariff_file(tmp_path, text, "Date,Price,Unit"), None, "--price-unit")
        assert str(path) in str(caught.value.where)


def test_a_series_must_cover_the_runs(tmp_path: Path) -> None:
    hours = "".join(f"{k * 3_600},{k}\n" for k in range(48))
    tariff = read_tariff(parse_source(tariff_file(tmp_path, hours), "EUR/MWh", "--price-unit"), None, repair=False)
    require_cover(tariff, 0.0, 48 * 3_600.0, WORDS)  # the last value holds for an hour too
    with pytest.raises(InputError) as caught:
        require_cover(tariff, 0.0, 48.5 * 3_600.0, WORDS)
    assert caught.value.where == tariff.source.path
    assert all(word in caught.value.what for word in (*WORDS, "0.5 h"))
    with pytest.raises(InputError) as caught:
        require_cover(tariff, -1.0, 3_600.0, WORDS)
    assert caught.value.where == tariff.source.path


def test_a_hole_within_the_runs_is_refused_and_one_outside_is_not(tmp_path: Path) -> None:
    hours = "".join(f"{k * 3_600},{k}\n" for k in range(60) if k not in {30, 31})
    tariff = read_tariff(parse_source(tariff_file(tmp_path, hours), "EUR/MWh", "--price-unit"), None, repair=False)
    with pytest.raises(InputError) as caught:
        require_cover(tariff, 0.0, 50 * 3_600.0, WORDS)
    assert caught.value.where == f"{tariff.source.path}:31"
    assert "3 h" in caught.value.what
    require_cover(tariff, 0.0, 29 * 3_600.0, WORDS)
    require_cover(tariff, 33 * 3_600.0, 50 * 3_600.0, WORDS)


def test_a_tariff_of_day_and_night_has_no_holes(tmp_path: Path) -> None:
    rows = "".join(f"{d * 86_400},10\n{d * 86_400 + 21_600},30\n" for d in range(30))
    tariff = read_tariff(parse_source(tariff_file(tmp_path, rows), "EUR/MWh", "--price-unit"), None, repair=False)
    require_cover(tariff, 0.0, 29 * 86_400.0, WORDS)
    assert tariff.series.integral(0.0, 86_400.0) == 10 * 21_600 + 30 * 64_800
