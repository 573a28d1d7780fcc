"""Dates of series whose offsets are wrong, and on which date a trace begins."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.formats.refusal import refused
from wattqueue.errors import InputError
from wattqueue.formats.epoch import date_words, parse_date, trace_epoch_s
from wattqueue.formats.series import read_steps
from wattqueue.formats.times import Repair

GERMAN = [f"2023-02-26T{h:02d}:00+01:00,{h}" for h in range(12)]


def put(folder: Path, rows: list[str]) -> Path:
    path = folder / "prices.csv"
    path.write_text("\n".join(["Date,Price", *rows]) + "\n")
    return path


def with_offset(rows: list[str], changes: dict[int, str]) -> list[str]:
    return [row.replace("+01:00", changes[k]) if k in changes else row for k, row in enumerate(rows)]


@pytest.mark.parametrize("changes", [{5: "+00:00"}, {5: "+02:00"}, {5: "+02:00", 6: "+02:00"}, {11: "+02:00"}])
def test_an_offset_that_its_neighbours_contradict_is_mended_and_told(tmp_path: Path, changes: dict[int, str]) -> None:
    path = put(tmp_path, with_offset(GERMAN, changes))
    with pytest.raises(InputError) as caught:
        read_steps(path)
    assert str(caught.value.where).startswith(f"{path}:")
    assert "--repair" in str(caught.value.hint)
    found = read_steps(path, repair=True)
    assert (np.diff(found.time_s) == 3_600).all()
    assert found.repairs == tuple(Repair(k + 2, was, "+01:00") for k, was in changes.items())


def test_the_change_of_the_clocks_is_no_fault(tmp_path: Path) -> None:
    rows = [
        "2023-10-29T01:00+02:00,1",
        "2023-10-29T02:00+02:00,2",
        "2023-10-29T02:00+01:00,3",
        "2023-10-29T03:00+01:00,4",
    ]
    found = read_steps(put(tmp_path, rows), repair=True)
    assert (np.diff(found.time_s) == 3_600).all()
    assert found.repairs == ()


@pytest.mark.parametrize(
    "rows",
    [
        [*GERMAN[:6], GERMAN[4], *GERMAN[6:]],  # a row twice
        [*GERMAN[:6], *GERMAN[4:]],
        [f"{k},1" for k in (0, 1, 2, 2)],
    ],
)
def test_what_no_offset_explains_is_refused(tmp_path: Path, rows: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_steps(put(tmp_path, rows), repair=True)
    assert "--repair" not in str(caught.value.hint)


def test_the_real_series_has_three_such_rows(data_dir: Path) -> None:
    found = read_steps(data_dir / "grid" / "de_dayahead_prices_2023_hourly.csv.gz", repair=True)
    assert [(r.line, r.was, r.now) for r in found.repairs] == [
        (1349, "+00:00", "+01:00"),
        (6508, "+03:00", "+02:00"),
        (6509, "+03:00", "+02:00"),
    ]
    assert len(found.time_s) == 8_760
    assert (np.diff(found.time_s) == 3_600).all()


def test_when_a_trace_begins(tmp_path: Path) -> None:
    swf = tmp_path / "a.swf"
    swf.write_text("; Version: 2.2\n; UnixStartTime: 843480031\n1 0 -1 60 1 -1 -1 1 60 -1 1 1 1 1 -1 -1 -1 -1\n")
    assert trace_epoch_s(swf, np.array([0.0])) == 843_480_031
    packed = tmp_path / "a.swf.gz"
    packed.write_bytes(gzip.compress(swf.read_bytes()))
    assert trace_epoch_s(packed, np.array([0.0])) == 843_480_031
    swf.write_text("; UnixStartTime: unknown\n1 0 -1 60 1 -1 -1 1 60 -1 1 1 1 1 -1 -1 -1 -1\n")
    assert trace_epoch_s(swf, np.array([0.0])) is None
    assert trace_epoch_s(swf, np.array([1.6e9])) == 0.0  # Unix time as it is


def test_dates_as_people_write_them() -> None:
    assert parse_date("1970-01-02T01:00+01:00", "--start") == 86_400
    assert parse_date("1970-01-02", "--start") == 86_400
    assert date_words(86_400.0) == "Fri 1970-01-02 00:00 UTC"
    with refused("--start", "'soon'"):
        parse_date("soon", "--start")
