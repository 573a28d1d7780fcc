"""Caps and series: a unit is required, a share needs stated maxima, files name line and mistake."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.refusal import refused
from wattqueue.errors import InputError, MachineError, WattQueueError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.series import read_steps
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.signals import Series

TEN = plain_machine(10, 50, 200)


def scoped(scope: str) -> Machine:
    return Machine("m", TEN.partitions, scope)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("1500W", 1500),
        ("1.5kW", 1500),
        ("1.5 kw", 1500),
        ("0.4MW", 400_000),
        (".4mw", 400_000),
        ("1e3kW", 1e6),
        ("2GW", 2e9),
        ("70%", 1400),
        ("100 %", 2000),
        (" none ", np.inf),
        ("None", np.inf),
    ],
)
def test_a_number_with_a_unit(text: str, watts: float) -> None:
    cap = parse_cap(text, TEN)
    assert cap.cap_w.tolist() == [pytest.approx(watts, rel=1e-15)]
    assert cap.at(np.array([-1e9, 0.0, 1e9])).tolist() == [cap.cap_w[0]] * 3


def test_a_share_is_of_the_scope() -> None:
    assert parse_cap("50%", scoped("dynamic")).cap_w.tolist() == [750]
    assert parse_cap("10%", scoped("jobs")).cap_w.tolist() == [200]
    mixed = Machine("m", (Partition("a", 2, max_w=100), Partition("b", 3)))
    with refused("m", "50%", "--node-watts", kind=MachineError):
        parse_cap("50%", mixed)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("400", "'400'"),
        ("400hp", "'hp'"),
        ("400kWh", "'kwh'"),
        ("", "''"),
        ("-5kW", "'-5kW'"),
        ("nan", "'nan'"),
        ("inf", "'inf'"),
        ("kW", "'kW'"),
        ("1e400kW", "inf"),
        ("1e9MW", "1e+12"),
    ],
)
def test_no_cap(text: str, fact: str) -> None:
    with refused("cap", fact):
        parse_cap(text, TEN)
    with refused("a.csv"):
        parse_cap("a.csv", TEN)


def test_below_idle() -> None:
    assert parse_cap("500W", TEN).cap_w[0] == 500
    with refused("cap", "499W", "500 W", "10-nodes", kind=MachineError):
        parse_cap("499W", TEN)
    with refused("cap", "10%", kind=MachineError):
        parse_cap("10%", TEN)
    assert parse_cap("0W", scoped("dynamic")).cap_w[0] == 0
    assert parse_cap("1W", scoped("jobs")).cap_w[0] == 1


def put(folder: Path, text: str) -> Path:
    path = folder / "cap.csv"
    path.write_text(text)
    return path


def test_a_cap_file(tmp_path: Path) -> None:
    path = put(tmp_path, "# evening\ntime_s,cap_w\n-100,600\n0.5,inf\n\n1e3,700.25\n2000,none\n")
    cap = parse_cap(str(path), TEN)
    assert cap.time_s.tolist() == [-100, 0.5, 1000, 2000]
    assert cap.cap_w.tolist() == [600, np.inf, 700.25, np.inf]
    swapped = parse_cap(str(put(tmp_path, "cap_w,time_s\n600,0\n")), TEN)
    assert (swapped.time_s.tolist(), swapped.cap_w.tolist()) == ([0], [600])


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("time_s,cap_w\n0,600\n0,700\n", ":3", ""),
        ("time_s,cap_w\n0,600\n5,-1\n", ":3", "-1"),
        ("time_s,cap_w\n0,600\n5,499\n", ":3", "499 W"),
        ("time_s,cap_w\n0,600\n5,nan\n", ":3", "'nan'"),
        ("time_s,cap_w\n0,600\n5,1e999\n", ":3", "'1e999'"),
        ("time_s,cap_w\n0,600\n5\n", ":3", "1 field"),
        ("time_s,cap_w\n0,600\n5,70%\n", ":3", "'70%'"),
        ("time_s,cap_w\n0,600\nlater,700\n", ":3", "'later'"),
        ("time_s,cap\n0,600\n", ":1", "cap_w"),
        ("0,600\n1,700\n", ":1", "time_s"),
        ("time_s,cap_w\n0,600,5\n", ":2", "3 fields"),
        ("time_s,cap_w\n1e300,600\n", ":2", "1e+300"),
        ("time_s,cap_w\n0,1e300\n", ":2", "1e+300"),
        ("time_s,cap_w\n", "", "row"),
        ("", "", "empty"),
        ('time_s,cap_w\n0,"600\n', ":2", ""),
    ],
)
def test_bad_cap_files(tmp_path: Path, text: str, line: str, fact: str) -> None:
    path = put(tmp_path, text)
    with refused(f"{path}{line}", fact, kind=WattQueueError):
        parse_cap(str(path), TEN)


def test_a_directory(tmp_path: Path) -> None:
    with refused(tmp_path):
        parse_cap(str(tmp_path), TEN)


def test_series_in_seconds_and_dates(tmp_path: Path) -> None:
    rows = read_steps(put(tmp_path, "time_s,price\n0,5\n3600,-1.5\n"))
    assert Series(rows.time_s, rows.value).at(np.array([-1.0, 0, 3599, 3600, 1e9])).tolist() == [5, 5, 5, -1.5, -1.5]
    path = put(
        tmp_path, "Date,Price,Other\n1970-01-01T02:00+01:00,1,7\n1970-01-01 02:00:00,2,8\n1970-01-01T03:00Z,3,9\n"
    )
    assert read_steps(path).time_s.tolist() == [3600, 7200, 10800]
    assert read_steps(path, epoch_s=7200).time_s.tolist() == [-3600, 0, 3600]
    assert read_steps(path, value_name="Other").value.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("time_s\n0\n", 1, "time_s"),
        ("0,1\n2,3\n", 1, ""),
        ("t,v\n2023-01-01,5\n7,5\n", 3, "'7'"),
        ("t,v\n5,5\n2023-01-01,5\n", 3, "'2023-01-01'"),
        ("t,v\n2023-02-30,5\n", 2, "'2023-02-30'"),
        ("t,v\n2023-01-01,inf\n", 2, "'inf'"),
        ("Date,Price\n2023-01-01T00:00,45,30\n", 2, "3 fields"),
        ("t,v\n1e18,5\n", 2, "1e+18"),
        ("t,v\n0,1e300\n", 2, "1e+300"),
    ],
)
def test_bad_series(tmp_path: Path, text: str, line: int, fact: str) -> None:
    path = put(tmp_path, text)
    with refused(f"{path}:{line}", fact):
        read_steps(path)


@pytest.mark.parametrize(
    ("name", "rows", "step_s"),
    [
        ("lwa_2020_gb_ci", 21_980, 1800),
        ("lwa_2020_ger_ci", 37_147, 900),
    ],
)
def test_real_series(data_dir: Path, name: str, rows: int, step_s: float) -> None:
    series = read_steps(data_dir / "grid" / f"{name}.csv.gz")
    assert len(series.time_s) == rows
    assert np.median(np.diff(series.time_s)) == step_s


def test_a_real_series_with_wrong_offsets_is_refused(data_dir: Path) -> None:
    # Three hours of this file bear an offset that Germany has not: line 1349 says +00:00 in February.
    path = data_dir / "grid" / "de_dayahead_prices_2023_hourly.csv.gz"
    with refused(f"{path}:1350"):
        read_steps(path)


def test_series_refuses_what_is_none() -> None:
    for time_s, value in (([], []), ([0, 0], [1, 1]), ([0, 1], [1, np.nan]), ([0], [1, 2])):
        with pytest.raises(InputError):
            Series(np.array(time_s, np.float64), np.array(value, np.float64))


@given(st.one_of(st.binary(max_size=60), st.text(max_size=40).map(lambda t: ("time_s,cap_w\n0,600\n" + t).encode())))
def test_any_bytes_give_a_cap_or_our_error(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "cap.csv"
    path.write_bytes(text)
    with contextlib.suppress(WattQueueError):
        assert (np.diff(parse_cap(str(path), TEN).time_s) > 0).all()
    with contextlib.suppress(WattQueueError):
        assert (np.diff(read_steps(path).time_s) > 0).all()


@given(st.text(max_size=12))
def test_any_text_is_a_cap_or_our_error(text: str) -> None:
    try:
        cap = parse_cap(text, TEN)
    except WattQueueError:
        return
    assert cap.cap_w[0] >= 500
