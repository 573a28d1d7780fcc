"""Interval data of a meter: units, labels, gaps, and what is refused with its line."""

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.schedule import PowerSeries
from wattqueue_grid.meter import of_power, read_meter

HEAD = "# wattqueue meter interval_s=900 label=measured source=utility-17\n"


def file(folder: Path, text: str) -> Path:
    path = folder / "meter.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_that_are_missing_or_empty_are_gaps(tmp_path: Path) -> None:
    found = read_meter(
        file(
            tmp_path,
            HEAD + "time,power_kw,label\n2023-03-01T00:00+01:00,412.5,\n2023-03-01T00:15+01:00,,\n"
            "2023-03-01T00:45+01:00,0.4096,counted\n",
        )
    )
    assert (found.begin_s, found.interval_s, found.source) == (1_677_625_200, 900, "utility-17")
    np.testing.assert_array_equal(found.power_w, [412_500.0, np.nan, np.nan, 410.0])
    assert found.label.values().tolist() == ["measured", "", "", "counted"]


def test_energy_of_an_interval_is_its_mean_watts(tmp_path: Path) -> None:
    # 25 kWh in a quarter of an hour are 100 kW
    found = read_meter(file(tmp_path, HEAD + "time,energy_kwh\n2023-03-01T00:00Z,25\n2023-03-01T00:15Z,12.5\n"))
    assert found.power_w.tolist() == [100_000.0, 50_000.0]


def test_an_interval_that_is_not_stated_is_the_shortest_distance(tmp_path: Path) -> None:
    found = read_meter(file(tmp_path, "# wattqueue meter label=generated\ntime,power_w\n0,5\n3600,6\n10800,7\n"))
    assert (found.interval_s, len(found)) == (3_600, 4)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("time,power_kw,label\n0,1,measured\n0,1,measured\n", 3),
        ("# meter interval_s=900 label=measured\ntime,power_kw\n0,1\n100,1\n1800,1\n", 4),
        ("time,power_kw,label\n0,-1,measured\n", 2),
        ("time,power_kw,label\n0,one,measured\n", 2),
        ("time,power_kw,label\n0,1,guessed\n", 2),
        ("time,power_kw\n0,1\n", 2),
        ("time,power_kw,label\n0,1\n", 2),
        ("time,power_kw,label\nyesterday,1,measured\n", 2),
        ("time,load,label\n0,1,measured\n", 1),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = file(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_meter(path)
    assert error.value.where == f"{path}:{line}"


def test_no_rows_and_a_wrong_interval_are_refused(tmp_path: Path) -> None:
    for text in (HEAD + "time,power_kw\n", "# wattqueue meter interval_s=soon label=measured\ntime,power_w\n0,1\n"):
        with pytest.raises(InputError):
            read_meter(file(tmp_path, text))


def test_the_power_of_a_run_becomes_whole_intervals_of_its_mean() -> None:
    # 100 W until 1,350 s, then 300 W until 3,000 s; the 0 of the run is at 900 s of Unix time.
    time = np.array([0.0, 1_350.0, 3_000.0])
    zero = np.zeros(3)
    power = PowerSeries(time, np.array([100.0, 300.0, 0.0]), zero, zero, zero.astype(np.int32))
    found = of_power(power, 900.0, 900, "run")
    assert found.begin_s == 900
    # 0-900: 100; 900-1,800: half at 100, half at 300; 1,800-2,700: 300; the rest is no whole interval
    assert found.power_w.tolist() == [100.0, 200.0, 300.0]
    assert set(found.label.values()) == {"simulated"}


def test_a_run_shorter_than_an_interval_is_refused() -> None:
    time = np.array([0.0, 100.0])
    power = PowerSeries(time, np.array([1.0, 0.0]), np.zeros(2), np.zeros(2), np.zeros(2, np.int32))
    with pytest.raises(InputError):
        of_power(power, 0.0, 900, "run")
