"""Reports that events ask for arrive at a real VTN process, valid by the document, once; opt-outs too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.wattqueue_grid.openadr.grid import KW, Grid, Json, date, limit, rules, soon, ven
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.memory import opt
from wattqueue_grid.openadr.ven import Ven

WANTED = ["USAGE", "DEMAND", "BASELINE", "OPERATING_STATE", "LOAD_SHED_DELTA_AVAILABLE", "DATA_QUALITY"]


def measured(one: Ven, begin_s: float, end_s: float, power_w: float) -> None:
    """Give the VEN a sample each ten seconds."""
    for time_s in np.arange(begin_s, end_s, 10.0):
        one.power.add(float(time_s), power_w, measured=True)


def payloads(report: Json) -> list[list[tuple[str, Any]]]:
    """Payloads of a report's intervals as (type, value)."""
    (resource,) = report["resources"]
    return [[(p["type"], p["values"][0]) for p in row["payloads"]] for row in resource["intervals"]]


def test_each_kind_of_report_on_the_intervals_of_an_event(grid: Grid, tmp_path: Path) -> None:
    begin_s = soon(-1800)
    asked = [{"payloadType": kind} for kind in WANTED]
    program = grid.program()
    body = limit("IMPORT_CAPACITY_LIMIT", 60, 40, start_s=begin_s, duration="PT10M", reportDescriptors=asked)
    grid.event(program, **body)
    one = ven(grid.url, tmp_path)
    measured(one, begin_s, begin_s + 590, 50 * KW)
    measured(one, begin_s + 600, time.time(), 30 * KW)
    one.baseline_w = Series(np.array([0.0]), np.array([80 * KW]))
    one.step(time.time())
    found = {r["payloadDescriptors"][0]["payloadType"]: r for r in grid.reports()}
    assert set(found) == set(WANTED)
    # 600 s of 50 kW and of 30 kW in kWh; the guide's rule: one report after the last interval, on all of them
    assert payloads(found["USAGE"]) == [
        [("USAGE", pytest.approx(50 / 6)), ("DATA_QUALITY", "OK")],
        [("USAGE", pytest.approx(5.0)), ("DATA_QUALITY", "OK")],
    ]
    assert payloads(found["DEMAND"]) == [
        [("DEMAND", pytest.approx(50.0)), ("DATA_QUALITY", "OK")],
        [("DEMAND", pytest.approx(30.0)), ("DATA_QUALITY", "OK")],
    ]
    assert payloads(found["BASELINE"]) == [[("BASELINE", 80.0), ("DATA_QUALITY", "ESTIMATED")]] * 2
    assert (
        payloads(found["LOAD_SHED_DELTA_AVAILABLE"])
        == [[("LOAD_SHED_DELTA_AVAILABLE", 10.0), ("DATA_QUALITY", "ESTIMATED")]] * 2
    )
    assert payloads(found["OPERATING_STATE"]) == [[("OPERATING_STATE", "RUNNING_CURTAILED")]] * 2
    assert payloads(found["DATA_QUALITY"]) == [[("DATA_QUALITY", "OK")]] * 2
    rows = found["USAGE"]["resources"][0]["intervals"]
    assert [row["id"] for row in rows] == [0, 1]
    assert [row["intervalPeriod"]["duration"] for row in rows] == ["PT600S", "PT600S"]
    assert found["USAGE"]["payloadDescriptors"][0]["units"] == "KWH"
    one.step(time.time(), notified=True)
    assert len(grid.reports()) == len(WANTED)


def test_a_report_is_sent_once_over_a_restart(grid: Grid, tmp_path: Path) -> None:
    before = len(grid.reports())
    body = limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-4000), reportDescriptors=[{"payloadType": "USAGE"}])
    grid.event(grid.program(), **body)
    for _ in range(2):
        ven(grid.url, tmp_path).step(time.time())
    assert len(grid.reports()) == before + 1


def test_a_report_that_fails_is_sent_later(grid: Grid, tmp_path: Path) -> None:
    before = len(grid.reports())
    body = limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-4000), reportDescriptors=[{"payloadType": "USAGE"}])
    grid.event(grid.program(), **body)
    one = ven(grid.url, tmp_path)
    grid.fault(path="/reports", status=503, count=1)
    now_s = time.time()
    one.step(now_s)
    assert "503" in one.problems["reports"]
    assert len(grid.reports()) == before
    one.step(now_s + 6.0)
    assert len(grid.reports()) == before + 1
    assert not one.problems


def test_a_power_that_is_not_known_is_missing(grid: Grid, tmp_path: Path) -> None:
    event = grid.event(
        grid.program(),
        **limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-4000), reportDescriptors=[{"payloadType": "USAGE"}]),
    )
    ven(grid.url, tmp_path).step(time.time())
    (report,) = (r for r in grid.reports() if r["eventID"] == event)
    assert payloads(report) == [[("USAGE", 0.0), ("DATA_QUALITY", "MISSING")]]


@pytest.mark.parametrize(
    "request_", [{"payloadType": "STORAGE_CHARGE_LEVEL"}, {"payloadType": "USAGE", "units": "THERMS"},
                 {"payloadType": "DEMAND", "readingType": "FORECAST"}],
)  # fmt: skip
def test_a_report_that_this_site_has_not_is_refused_once(grid: Grid, tmp_path: Path, request_: Json) -> None:
    before = len(grid.reports())
    grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-4000), reportDescriptors=[request_]))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    one.step(time.time(), notified=True)
    assert len(grid.reports()) == before
    assert sum(f"report {request_['payloadType']}" in line for line in one.pop_log()) == 1


def test_a_report_only_event_is_answered(grid: Grid, tmp_path: Path) -> None:
    event = grid.event(
        grid.program(),
        intervalPeriod={"start": "0001-01-01T00:00:00Z", "duration": "PT0S"},
        reportDescriptors=[{"payloadType": "OPERATING_STATE", "frequency": 0, "reportIntervals": "OPEN_INTERVALS"}],
    )
    one = ven(grid.url, tmp_path)
    now_s = time.time()
    one.step(now_s)
    one.step(now_s + 60.0, notified=True)
    states = [payloads(r) for r in grid.reports() if r["eventID"] == event]
    assert states == [[[("OPERATING_STATE", "RUNNING_NORMAL")]]]
    grid.event(grid.program("limits"), **limit("IMPORT_CAPACITY_LIMIT", 60, start_s=now_s - 60))
    one.step(now_s + 120.0, notified=True)
    states = [payloads(r) for r in grid.reports() if r["eventID"] == event]
    assert states[1:] == [[[("OPERATING_STATE", "RUNNING_CURTAILED")]]]
    assert not one.outcome(time.time()).refused


def test_opting_out_ends_the_target_and_is_reported(grid: Grid, tmp_path: Path) -> None:
    start_s = soon(-60)
    event = grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 60, start_s=start_s))
    one = ven(grid.url, tmp_path)
    measured(one, time.time() - 50, time.time(), 40 * KW)
    one.step(time.time())
    assert len(one.outcome(time.time()).targets) == 1
    opt(tmp_path, event, out=True)
    one.step(time.time(), notified=True)
    assert len(one.outcome(time.time()).targets) == 0
    assert one.outcome(time.time()).refused == (f"event {event}: opted out",)
    again = ven(grid.url, tmp_path)
    again.step(time.time())
    (report,) = (r for r in grid.reports() if r["eventID"] == event)
    assert payloads(report) == [[("OPERATING_STATE", "RUNNING_OPTED_OUT")]]
    opt(tmp_path, event, out=False)
    again.step(time.time(), notified=True)
    assert len(again.outcome(time.time()).targets) == 1
    states = [payloads(r)[0][0][1] for r in grid.reports() if r["eventID"] == event]
    assert states == ["RUNNING_OPTED_OUT", "RUNNING_CURTAILED"]


def test_an_idle_machine_that_opts_out_says_so(grid: Grid, tmp_path: Path) -> None:
    event = grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-60)))
    one = ven(grid.url, tmp_path, rules(idle_w=10 * KW))
    measured(one, time.time() - 50, time.time(), 10.2 * KW)
    opt(tmp_path, event, out=True)
    one.step(time.time())
    (report,) = (r for r in grid.reports() if r["eventID"] == event)
    assert payloads(report) == [[("OPERATING_STATE", "IDLE_OPTED_OUT")]]


def test_no_report_is_sent_where_reports_are_off(grid: Grid, tmp_path: Path) -> None:
    before = len(grid.reports())
    body = limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-4000), reportDescriptors=[{"payloadType": "USAGE"}])
    grid.event(grid.program(), **body)
    ven(grid.url, tmp_path, reports=False).step(time.time())
    assert len(grid.reports()) == before
    assert date(0) == "1970-01-01T00:00:00Z"


def test_load_that_can_be_shed_is_that_of_jobs_with_consent(grid: Grid, tmp_path: Path) -> None:
    """It counts before what is drawn above the limit of an emergency."""
    asked = [{"payloadType": "LOAD_SHED_DELTA_AVAILABLE"}]
    body = limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(-1800), duration="PT5M", reportDescriptors=asked)
    before = len(grid.reports())
    grid.event(grid.program(), **body)
    one = ven(grid.url, tmp_path)
    measured(one, time.time() - 60.0, time.time(), 30 * KW)
    one.consenting_w = 7.5 * KW
    one.step(time.time())
    (report,) = grid.reports()[before:]
    assert payloads(report) == [[("LOAD_SHED_DELTA_AVAILABLE", 7.5), ("DATA_QUALITY", "ESTIMATED")]]
