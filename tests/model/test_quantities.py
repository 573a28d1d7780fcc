"""The table of quantities is complete and says what it must."""

from __future__ import annotations

import csv
import math
from dataclasses import fields
from importlib.resources import files

import pytest

from wattqueue.model.consent import COLUMNS
from wattqueue.model.jobs import Jobs
from wattqueue.model.quantities import STATISTICS, quantities, quantity
from wattqueue.model.schedule import PowerSeries

METRICS = (
    "wait_s",
    "turnaround_s",
    "makespan_s",
    "bounded_slowdown",
    "utilization",
    "job_energy_j",
    "machine_energy_j",
    "edp_js",
    "power_utilization",
    "cap_overshoot_w",
    "cap_over_s",
    "cap_over_j",
    "target_overshoot_w",
    "target_over_s",
    "target_over_j",
    "mape_percent",
)
UNIT_OF_ENDING = {"_s": "s", "_w": "W", "_j": "J", "_hz": "Hz", "_js": "J s", "_percent": "%"}


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_unit_a_range_and_a_meaning(name: str) -> None:
    q = quantity(name)
    assert q.unit
    assert q.range is not None
    assert q.label
    assert q.meaning


def test_every_column_of_the_job_table_and_of_the_power_series_is_there() -> None:
    columns = {f.name for f in fields(Jobs)} - {"origin", "extra", "profile", "profiles", "consent"} | set(COLUMNS)
    columns |= {f.name for f in fields(PowerSeries)}
    assert columns <= set(quantities())


@pytest.mark.parametrize("name", quantities())
def test_the_ending_of_a_name_is_its_unit(name: str) -> None:
    ending = max((e for e in UNIT_OF_ENDING if name.endswith(e)), key=len, default="")
    if ending:
        assert quantity(name).unit == UNIT_OF_ENDING[ending]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_per_job_figure_is_found_with_its_statistic(statistic: str) -> None:
    q = quantity(f"wait_s_{statistic}")
    assert q.name == f"wait_s_{statistic}"
    assert q.axis == f"Waiting time, {statistic} (s)"
    assert q.meaning.startswith("Start less submit; ")


@pytest.mark.parametrize("name", ["no_such_thing", "wait_s_total", "no_such_thing_mean"])
def test_an_unknown_name_is_an_error(name: str) -> None:
    with pytest.raises(KeyError) as caught:
        quantity(name)
    assert caught.value.args == (name,)


def test_ranges() -> None:
    slowdown, walltime, success = (quantity(n).range for n in ("bounded_slowdown", "walltime_s", "success"))
    assert slowdown is not None
    assert walltime is not None
    assert success is not None
    assert 1.0 in slowdown
    assert math.inf not in slowdown
    assert 0.0 not in walltime
    assert 1.0 in success
    assert 2.0 not in success
    assert quantity("user").range is None


def test_every_row_of_the_table_has_five_cells() -> None:
    """An unquoted comma would shorten a meaning without an error."""
    text = files("wattqueue.model").joinpath("quantities.csv").read_text(encoding="utf-8")
    assert {len(row) for row in csv.reader(text.splitlines())} == {5}
