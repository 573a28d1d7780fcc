"""Events of a real VTN process become load targets, prices and intensities; faults of it change nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_grid.openadr.grid import KW, Grid, client, date, limit, rules, soon, ven
from wattqueue.model.load_target import WATTS
from wattqueue_grid.openadr.client import VtnError


def test_a_ven_registers_once(grid: Grid, tmp_path: Path) -> None:
    first = ven(grid.url, tmp_path)
    first.register()
    again = ven(grid.url, tmp_path / "other")
    again.register()
    assert first.ven_id == again.ven_id
    made = [one for one in grid.objects() if one["objectType"] in ("VEN", "RESOURCE")]
    assert [one.get("venName", one.get("resourceName")) for one in made] == ["hpc-centre", "cluster"]
    assert made[1]["attributes"] == [{"type": "MAX_POWER_CONSUMPTION", "values": [100.0]}]


def test_an_import_limit_becomes_a_target(grid: Grid, tmp_path: Path) -> None:
    start_s = soon()
    event = grid.event(grid.program(), eventName="evening", **limit("IMPORT_CAPACITY_LIMIT", 60, 40, start_s=start_s))
    one = ven(grid.url, tmp_path)
    now_s = time.time()
    one.step(now_s)
    targets = one.outcome(now_s).targets
    assert list(targets.start_s) == [start_s, start_s + 3600]
    assert list(targets.end_s) == [start_s + 3600, start_s + 7200]
    assert list(targets.limit) == [60 * KW, 40 * KW]
    assert set(targets.unit) == {WATTS}
    assert set(targets.correlation_id) == {event}
    assert targets.notice_s[0] == pytest.approx(start_s - now_s)
    assert one.outcome(now_s).taken == (f"event {event} ('evening'): 2 limits of 40 to 60 kW",)
    assert not one.outcome(now_s).refused


@pytest.mark.parametrize("digits", [10**400, -(10**400)])
def test_a_value_that_no_float_holds_is_refused_and_later_events_are_read(
    grid: Grid, tmp_path: Path, digits: int
) -> None:
    program = grid.program()
    first = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", digits, start_s=soon(60)))
    later = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 60, start_s=soon(7200)))
    one = ven(grid.url, tmp_path)
    for _ in range(2):  # also after a restart, from what was kept
        one.step(time.time())
        outcome = one.outcome(time.time())
        assert set(outcome.targets.correlation_id) == {later}
        (refused,) = outcome.refused
        assert refused.startswith(f"event {first}: IMPORT_CAPACITY_LIMIT: value '")
        assert not one.problems
        one = ven(grid.url, tmp_path)


def test_prices_and_intensities_become_series(grid: Grid, tmp_path: Path) -> None:
    start_s, program = soon(), grid.program()
    grid.event(program, **limit("PRICE", 0.17, -0.03, units="KWH", currency="EUR", start_s=start_s))
    grid.event(program, **limit("GHG", 410.5, units="GHG", start_s=start_s))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    outcome = one.outcome(time.time())
    assert outcome.price is not None
    assert outcome.intensity is not None
    np.testing.assert_allclose(outcome.price.value, [170.0, -30.0])
    assert list(outcome.price.time_s) == [start_s, start_s + 3600]
    assert list(outcome.intensity.value) == [410.5]
    assert not len(outcome.targets)


def test_an_alert_limits_to_the_emergency_load(grid: Grid, tmp_path: Path) -> None:
    program = grid.program()
    grid.event(
        program,
        intervalPeriod={"start": "0001-01-01T00:00:00Z", "duration": "P9999Y"},
        intervals=[{"id": 0, "payloads": [{"type": "ALERT_GRID_EMERGENCY", "values": ["frequency is low"]}]}],
    )
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    outcome = one.outcome(time.time())
    assert [alert.text for alert in outcome.alerts] == ["frequency is low"]
    assert outcome.targets.in_force(time.time()) == 0
    assert list(outcome.targets.limit) == [20 * KW]


def test_more_events_than_a_page_are_read(grid: Grid, tmp_path: Path) -> None:
    program = grid.program()
    for i in range(53):
        grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon(60 + 7200 * i)))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    assert len(one.outcome(time.time()).targets) == 53


def test_only_events_of_the_programs_that_are_named_are_taken(grid: Grid, tmp_path: Path) -> None:
    wanted, other = grid.program("limits"), grid.program("prices")
    grid.event(wanted, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    grid.event(other, **limit("IMPORT_CAPACITY_LIMIT", 30, start_s=soon()))
    one = ven(grid.url, tmp_path, programs=["limits", "missing"])
    one.step(time.time())
    assert list(one.outcome(time.time()).targets.limit) == [50 * KW]
    assert "missing" in one.problems["programs"]


def test_units_of_the_program_hold_where_the_event_states_none(grid: Grid, tmp_path: Path) -> None:
    descriptor = {"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": "IMPORT_CAPACITY_LIMIT", "units": "PERCENT"}
    program = grid.program(payloadDescriptors=[descriptor])
    body = limit("IMPORT_CAPACITY_LIMIT", 0.8, start_s=soon())
    del body["payloadDescriptors"]
    grid.event(program, **body)
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    assert list(one.outcome(time.time()).targets.limit) == [80 * KW]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "no intervals, and no report is asked for"),
        (limit("IMPORT_CAPACITY_LIMIT", 50, units="KWH", start_s=4e9), "units KWH"),
        (limit("IMPORT_CAPACITY_LIMIT", 50, units=None, start_s=4e9), "units none"),
        (limit("IMPORT_CAPACITY_LIMIT", -5, start_s=4e9), "-5 KW"),
        (limit("IMPORT_CAPACITY_LIMIT", "much", start_s=4e9), "'much'"),
        (limit("IMPORT_CAPACITY_LIMIT", 80, units="PERCENT", start_s=4e9), "0.8 is 80 %"),
        (limit("IMPORT_CAPACITY_LIMIT", 50, start_s=1e9), "in the past"),
        (limit("PRICE", 0.2, units="KWH", currency="USD", start_s=4e9), "currency USD"),
        (limit("PRICE", 0.2, units="THERMS", currency="EUR", start_s=4e9), "units THERMS"),
        (limit("GHG", -1, units="GHG", start_s=4e9), "0 or more"),
        (limit("CONTROL_SETPOINT", 50, start_s=4e9), "its meaning is not stated"),
        (limit("SIMPLE", 2, units=None, start_s=4e9), "is not acted on"),
        ({"intervals": [{"id": 3, "payloads": [{"type": "PRICE", "values": [1]}]}]}, "interval 3 has no start"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_reason(
    grid: Grid, tmp_path: Path, body: dict[str, object], reason: str
) -> None:
    program = grid.program()
    event = grid.event(program, **body)
    good = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    outcome = one.outcome(time.time())
    (why,) = outcome.refused
    assert f"event {event}" in why
    assert reason in why
    assert set(outcome.targets.correlation_id) == {good}
    assert not one.problems


def test_a_limit_below_idle_is_held_at_idle(grid: Grid, tmp_path: Path) -> None:
    grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 4, start_s=soon()))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    outcome = one.outcome(time.time())
    assert list(outcome.targets.limit) == [10 * KW]
    assert "below the 10 kW of the idle machine" in outcome.refused[0]


@pytest.mark.parametrize(
    ("setpoint", "value", "watts"), [("absolute", 55, 45 * KW), ("relative", -15, 75 * KW), ("relative", 20, 110 * KW)]
)
def test_a_setpoint_means_what_the_site_states(
    grid: Grid, tmp_path: Path, setpoint: str, value: float, watts: float
) -> None:
    site = rules(setpoint=setpoint, reference_w=100 * KW, other_w=10 * KW)
    grid.event(grid.program(), **limit("CONTROL_SETPOINT", value, start_s=soon()))
    one = ven(grid.url, tmp_path, site)
    one.step(time.time())
    assert list(one.outcome(time.time()).targets.limit) == [watts]


def test_overlapping_events_the_priority_prevails_then_the_lowest(grid: Grid, tmp_path: Path) -> None:
    start_s, program = soon(), grid.program()
    low = grid.event(program, priority=2, **limit("IMPORT_CAPACITY_LIMIT", 30, start_s=start_s, duration="PT3H"))
    high = grid.event(program, priority=1, **limit("IMPORT_CAPACITY_LIMIT", 70, start_s=start_s + 3600))
    lower = grid.event(program, priority=2, **limit("IMPORT_CAPACITY_LIMIT", 20, start_s=start_s + 9000))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    targets = one.outcome(time.time()).targets
    found = [(t.start_s - start_s, t.end_s - start_s, t.limit, t.correlation_id) for t in map(targets.row, range(4))]
    assert found == [
        (0.0, 3600.0, 30 * KW, low),
        (3600.0, 7200.0, 70 * KW, high),
        (7200.0, 9000.0, 30 * KW, low),
        (9000.0, 12600.0, 20 * KW, lower),
    ]


def test_a_changed_event_replaces_the_one_before(grid: Grid, tmp_path: Path) -> None:
    program, start_s = grid.program(), soon()
    event = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=start_s))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    grid.change(event, programID=program, **limit("IMPORT_CAPACITY_LIMIT", 35, start_s=start_s + 600))
    one.step(time.time(), notified=True)
    targets = one.outcome(time.time()).targets
    assert (list(targets.start_s), list(targets.limit)) == ([start_s + 600], [35 * KW])
    assert one.pop_log()[-2:] == [f"event {event}: new", f"event {event}: changed"]


def test_a_change_that_cannot_be_read_leaves_the_version_before(grid: Grid, tmp_path: Path) -> None:
    event = grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    broken = next(o for o in grid.objects() if o["id"] == event) | {
        "intervals": [{"id": "x"}],
        "modificationDateTime": "?",
    }
    grid.fault(path="/events", body=_json([broken]), status=200)
    one.step(time.time(), notified=True)
    outcome = one.outcome(time.time())
    assert list(outcome.targets.limit) == [50 * KW]
    assert event in outcome.refused[0]


def test_an_older_version_that_comes_late_changes_nothing(grid: Grid, tmp_path: Path) -> None:
    program, start_s = grid.program(), soon()
    event = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=start_s))
    old = next(o for o in grid.objects() if o["id"] == event)
    grid.change(event, programID=program, **limit("IMPORT_CAPACITY_LIMIT", 35, start_s=start_s))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    grid.fault(path="/events", body=_json([old]), status=200, count=2)
    one.step(time.time(), notified=True)
    assert list(one.outcome(time.time()).targets.limit) == [35 * KW]


@pytest.mark.parametrize("how", ["deleted", "no duration"])
def test_a_cancelled_event_ends_at_once(grid: Grid, tmp_path: Path, how: str) -> None:
    program = grid.program()
    event = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon(-600)))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    assert one.outcome(time.time()).targets.in_force(time.time()) == 0
    if how == "deleted":
        grid.delete(event)
    else:
        body = limit("IMPORT_CAPACITY_LIMIT", 50, start_s=0)
        body["intervalPeriod"] = {"start": "0001-01-01T00:00:00Z", "duration": "PT0S"}
        grid.change(event, programID=program, **body)
    one.step(time.time(), notified=True)
    now_s = time.time()
    assert one.outcome(now_s).targets.in_force(now_s) == -1
    one.step(now_s + 2 * 3600, notified=True)
    assert not len(one.outcome(now_s + 2 * 3600).targets)


def test_a_vtn_that_repeats_itself_changes_nothing(grid: Grid, tmp_path: Path) -> None:
    grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    first = one.outcome(time.time()).targets
    same = [o for o in grid.objects() if o["objectType"] == "EVENT"]
    one.pop_log()
    grid.fault(path="/events", body=_json(same * 3), status=200, count=50)  # whatever page is asked for
    one.step(time.time(), notified=True)
    assert one.pop_log() == []
    assert not one.problems
    again = one.outcome(time.time()).targets
    assert (list(again.limit), list(again.notice_s)) == (list(first.limit), list(first.notice_s))


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 200, "body": "not JSON"},
        {"status": 200, "body": '{"an": "object"}'},
        {"status": 200, "body": "[" * 100_000},
        {"status": 302, "headers": {"Location": "http://example.invalid/"}},
        {"delay_s": 4.0},
    ],
)
def test_what_is_known_stays_in_force_while_the_vtn_fails(grid: Grid, tmp_path: Path, fault: dict[str, object]) -> None:
    grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    one = ven(grid.url, tmp_path, timeout_s=3.0 if "delay_s" in fault else 60.0)
    one.step(time.time())
    grid.fault(path="/events", count=100, **fault)
    now_s = time.time()
    one.step(now_s, notified=True)
    assert "stays in force" in one.problems["vtn"]
    assert list(one.outcome(time.time()).targets.limit) == [50 * KW]
    assert one.next_s == now_s + 5.0
    one.step(now_s, notified=True)
    assert one.next_s == now_s + 10.0
    grid.fault()
    one.step(now_s + 11.0)
    assert not one.problems
    assert one.next_s == now_s + 11.0 + 60.0


def test_a_vtn_that_asks_for_time_gets_it(grid: Grid, tmp_path: Path) -> None:
    one = ven(grid.url, tmp_path)
    grid.fault(status=429, headers={"Retry-After": "700"})
    one.step(1000.0)
    assert one.next_s == 1700.0


def test_events_outlast_a_restart_while_the_vtn_is_away(document: Path, tmp_path: Path) -> None:
    (tmp_path / "vtn").mkdir()
    grid = Grid(tmp_path / "vtn", document)
    try:
        event = grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
        before = ven(grid.url, tmp_path)
        before.step(time.time())
        expected = before.outcome(time.time()).targets
        grid.stop()
        after = ven(grid.url, tmp_path)
        after.step(time.time())
        found = after.outcome(time.time()).targets
        assert set(found.correlation_id) == {event}
        assert list(found.notice_s) == list(expected.notice_s)
        assert "vtn" in after.problems
    finally:
        grid.close()


def test_events_of_another_vtn_are_forgotten(grid: Grid, tmp_path: Path) -> None:
    grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    ven(grid.url, tmp_path).step(time.time())
    assert not ven("https://other.example", tmp_path).memory.events


def test_what_was_kept_and_is_damaged_is_read_again(grid: Grid, tmp_path: Path) -> None:
    grid.event(grid.program(), **limit("IMPORT_CAPACITY_LIMIT", 50, start_s=soon()))
    ven(grid.url, tmp_path).step(time.time())
    path = tmp_path / "openadr.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes()[:-40])
    again = ven(grid.url, tmp_path)
    assert "cannot be read" in again.problems["memory"]
    again.step(time.time())
    assert list(again.outcome(time.time()).targets.limit) == [50 * KW]


def test_a_clock_that_is_off_is_reported(grid: Grid, tmp_path: Path) -> None:
    one = ven(grid.url, tmp_path)
    one.step(time.time())
    assert not one.problems
    grid.fault(path="/events", clock_offset_s=-90.0)
    one.step(time.time(), notified=True)
    assert "90 s behind ours" in one.problems["clock"] or "89 s behind ours" in one.problems["clock"]


def test_a_clock_that_is_set_back_puts_no_look_off(grid: Grid, tmp_path: Path) -> None:
    one = ven(grid.url, tmp_path)
    assert one.step(time.time() + 7200.0)
    assert one.step(time.time())
    assert not one.step(time.time() + 1.0)


def test_a_token_that_is_refused_is_fetched_again(grid: Grid) -> None:
    asked = client(grid.url)
    assert list(asked.all_of("/programs")) == []
    grid.forget_tokens()
    grid.start_token()
    assert list(asked.all_of("/programs")) == []


def test_a_wrong_secret_is_a_clear_error(grid: Grid) -> None:
    asked = client(grid.url, "wrong")
    with pytest.raises(VtnError, match="invalid_client") as caught:
        asked.get("/programs")
    assert caught.value.status == 401


def _json(data: object) -> str:
    return json.dumps(data)


def test_dates_of_events_are_as_the_document_wants() -> None:
    assert date(0.0) == "1970-01-01T00:00:00Z"
