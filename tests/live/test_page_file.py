"""What a controller writes for the operator page: nodes, jobs, limits ahead, history, events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.bigview import NOW_S, BigSlurm
from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_job_energy import Meters
from tests.live.test_live_targets import Stated
from wattqueue.live.cluster import SetPool
from wattqueue.live.controller import Controller
from wattqueue.live.files.page_files import COLUMNS, EVENTS, HISTORY, MOST, PAGE, read_events, read_history
from wattqueue.live.planner import Mode, Rules
from wattqueue.live.reports.page_file import EVENTS_KEPT, PageFile
from wattqueue.live.reports.why import WHY, read_mode, read_why
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap
from wattqueue.page.live import LiveState
from wattqueue.parts.actions import Action, Suspend
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View


def rounds(controller: Controller, slurm: FakeSlurm, count: int, step_s: float) -> None:
    for _ in range(count):
        controller.round()
        slurm.step()
        slurm.now_s += step_s


def make(tmp_path: Path, cap: Cap) -> tuple[FakeSlurm, Controller]:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    return slurm, make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap)


def page(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / PAGE).read_text())
    return found


@pytest.mark.parametrize("text", ["{", "[]", '{"turns": {}}', '{"turns": {"job": "AA"}, "time_s": 0, "free_w": 0}'])
def test_explanations_that_cannot_be_read_do_not_end_a_round(tmp_path: Path, text: str) -> None:
    """Something else may have damaged it, or a controller of another version wrote it last."""
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"]}, 400)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(400.0), rules=Rules(mode="advise")
    )
    (tmp_path / "run").mkdir(exist_ok=True)
    for _ in range(3):
        rounds(controller, slurm, 1, 61.0)
        (tmp_path / "run" / WHY).write_text(text)
    rows = read_history(tmp_path / "run")
    assert len(rows) == 2
    assert [row[-2:] for row in rows] == [[0, 0], [0, 0]]


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_without_control_the_queue_is_that_of_the_policy(tmp_path: Path, mode: Mode) -> None:
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"]}, 400)
    clock = lambda: slurm.now_s  # noqa: E731
    controller = make_controller(slurm, tmp_path, clock, cap=Cap.constant(400.0), rules=Rules(mode=mode))
    slurm.hold_new = False
    jobs = [slurm.submit(1, 1e5, watts=0, limit_s=7200.0, partition="p1") for _ in range(3)]
    controller.round()
    state = LiveState(tmp_path / "run", tmp_path / "run", 60.0).sections(slurm.now_s)[0]
    waiting = {row[0] for row in state["queue"]["rows"]}
    assert waiting == {job.name for job in jobs if job.state == "PENDING"}
    assert waiting
    assert state["now"]["mode"] == mode
    assert read_mode(tmp_path / "run") == mode


def test_it_holds_what_the_cluster_shows(tmp_path: Path) -> None:
    slurm, controller = make(tmp_path, Cap.constant(1400.0))
    runs = slurm.submit(3, 1e5, watts=600, limit_s=7200.0, partition="p1")
    waits = [slurm.submit(2, 50.0, watts=400, limit_s=60.0, partition="p2") for _ in range(3)]
    rounds(controller, slurm, 4, 6.0)
    found = page(tmp_path)
    assert runs.state == "RUNNING"
    assert [row[0] for row in found["running"]] == [runs.name]
    assert found["running"][0][3] == 600
    assert [row[0] for row in found["waiting"]] == [job.name for job in waits]
    assert found["waiting"][0][1:3] == [2, "p2"]
    assert {name: sum(states.values()) for name, states in found["nodes"].items()} == {"p1": 4, "p2": 4}
    mode = (tmp_path / "run" / PAGE).stat().st_mode & 0o777
    assert mode == 0o640, "names of users and jobs are not for every account"


def test_limits_of_the_next_day_are_announced(tmp_path: Path) -> None:
    slurm, controller = make(tmp_path, Cap.constant(1400.0))
    begin_s = slurm.now_s
    slurm.submit(1, 50.0, watts=200, limit_s=60.0)
    controller.planner.cap = Cap(
        np.array([-np.inf, begin_s + 3600.0, begin_s + 90_000.0]), np.array([1400.0, 1200.0, 900.0])
    )
    controller.round()
    assert page(tmp_path)["ahead"] == [
        [round(begin_s), 1400.0, 1400.0],
        [round(begin_s + 3600.0), 1200.0, 1200.0],
    ]


def test_a_row_a_minute_holds_the_greatest_watts_and_what_the_cap_held(tmp_path: Path) -> None:
    slurm, controller = make(tmp_path, Cap.constant(1400.0))
    slurm.submit(3, 1e5, watts=600, limit_s=7200.0, partition="p1")
    slurm.submit(2, 50.0, watts=400, limit_s=60.0, partition="p2")
    rounds(controller, slurm, 20, 10.0)
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in read_history(tmp_path / "run")]
    assert len(rows) >= 3
    times = [row["time_s"] or 0 for row in rows]
    assert times == sorted(set(times))
    last = rows[-1]
    assert (last["cap_w"], last["counted_w"], last["measured_w"]) == (1400, 1400, None)
    assert (last["held_jobs"], last["kept_nodes"]) == (1, 2), "its two nodes are free, its watts are not"


def test_changes_of_the_cap_are_events(tmp_path: Path) -> None:
    slurm, controller = make(tmp_path, Cap.constant(1400.0))
    rounds(controller, slurm, 2, 6.0)
    controller.planner.cap = Cap.constant(1200.0)
    rounds(controller, slurm, 2, 6.0)
    kinds = [(one["kind"], one["text"]) for one in read_events(tmp_path / "run")]
    assert [kind for kind, _ in kinds] == ["cap", "start"]
    assert "1.40 kW to 1.20 kW" in kinds[0][1]


class Asks:
    """Asks in each round to suspend a job that is not there."""

    period_s: float = 1.0
    events: frozenset[str] = frozenset()

    def act(self, _view: View) -> list[Action]:
        return [Suspend("4711")]


def test_targets_failures_and_refusals_are_events_and_sources_have_their_health(tmp_path: Path) -> None:
    """Words of others stand in the version with names alone."""
    slurm, target = FakeSlurm({"p1": ["n1", "n2"], "p2": ["m1", "m2"]}, 1600), Stated()
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1200.0), policy=load_policy("easy", controls=[Asks()]),
        targets=target, sources=(Meters(slurm, lambda _: 170.0),), machine=lab_machine(2),
    )  # fmt: skip
    rounds(controller, slurm, 2, 2.0)
    target.stated = LoadTargets.of(LoadTarget(slurm.now_s, slurm.now_s + 60.0, 900.0, notice_s=np.inf))
    slurm.fault = lambda what: "fail" if isinstance(what, SetPool) else ""
    rounds(controller, slurm, 2, 2.0)
    slurm.fault = lambda _what: ""
    rounds(controller, slurm, 8, 10.0)
    events = {one["text"]: (one["kind"], one["detail"]) for one in read_events(tmp_path / "run")}
    assert events["a load target is in force: 0.90 kW"] == ("target", "")
    assert events["a load target is over; the limit is 1.20 kW"] == ("target", "")
    assert events["Suspend refused"] == ("refusal", "wrong state")
    failed = next(pair for text, pair in events.items() if text.endswith("failed"))
    assert failed[0] == "failure"
    assert "refused" in failed[1]
    plain, named = LiveState(tmp_path / "run", tmp_path / "run", 120.0).sections(slurm.now_s)
    assert [row[1] for row in plain["health"]] == ["ok"] * 5
    assert [row[0] for row in plain["health"]] == ["controller", "Slurm", "power: meters", "cap", "state database"]
    assert [row[2] for row in named["events"] if "wrong state" in row[2]] == ["Suspend refused: wrong state"]
    assert not [row for row in plain["events"] if "wrong state" in row[2]]


def test_what_the_cap_costs_is_jobs_and_node_hours(tmp_path: Path) -> None:
    slurm, controller = make(tmp_path, Cap.constant(1400.0))
    slurm.submit(3, 1e5, watts=600, limit_s=7200.0, partition="p1")
    slurm.submit(2, 50.0, watts=400, limit_s=60.0, partition="p2")
    rounds(controller, slurm, 32, 20.0)
    now = LiveState(tmp_path / "run", tmp_path / "run", 120.0).sections(slurm.now_s)[0]["now"]
    minutes = sum(row[6] == 2 for row in read_history(tmp_path / "run"))
    assert minutes >= 8
    assert (now["held"], now["kept_nodes"], now["kept_hours"]) == (1, 2, round(2 * minutes / 60.0, 1))
    assert now["summary"].startswith("1.40 of 1.40 kW; 1 job waits for watts, the first until about ")


def test_files_stay_short(tmp_path: Path) -> None:
    file = PageFile(tmp_path)
    for k in range(5000):
        file._append(EVENTS, [json.dumps({"time_s": k, "kind": "cap", "text": "x", "detail": ""})], EVENTS_KEPT)
    found = read_events(tmp_path)
    assert EVENTS_KEPT <= len(found) <= 1.2 * EVENTS_KEPT
    assert [one["time_s"] for one in found] == list(range(4999, 4999 - len(found), -1))
    again = PageFile(tmp_path)  # a controller that starts again and again leaves no long file either
    again._append(EVENTS, ["{}"], EVENTS_KEPT)
    assert len((tmp_path / EVENTS).read_text().splitlines()) == EVENTS_KEPT


def test_rows_that_were_cut_off_are_left_out(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_text("60,1,1,1,,0,0\n120,1,1\n\nx,1,1,1,1,1,1\n,1,1,1,1,1,1\n180,1,1,1,5,0,0\n")
    (tmp_path / EVENTS).write_text('{"time_s":1,"kind":"cap","text":"a","detail":""}\n{"time_s":2,"ki\n[]\n')
    assert [row[0] for row in read_history(tmp_path)] == [60, 180]
    assert [one["time_s"] for one in read_events(tmp_path)] == [1]


def test_a_folder_that_cannot_be_written_ends_no_round(tmp_path: Path) -> None:
    _, controller = make(tmp_path, Cap.constant(1400.0))
    (tmp_path / "run" / PAGE).mkdir()
    (tmp_path / "run" / EVENTS).mkdir()
    report = controller.round()
    assert report is not None
    assert any("files of the page" in text for text in report.problems)


@pytest.mark.compiled
def test_the_first_of_ten_thousand_are_written_in_the_order_of_the_reasons(tmp_path: Path) -> None:
    slurm = BigSlurm(10_000, 400, 100)
    clock = [NOW_S]
    controller = make_controller(
        SlurmCluster(slurm),
        tmp_path,
        lambda: clock[0],
        cap=Cap.constant(41_000.0),
        machine=lab_machine(400),
        checked=False,
    )
    for _ in range(2):
        controller.round()
        clock[0] += 6.0
    names = [row[0] for row in page(tmp_path)["waiting"]]
    assert MOST <= len(names) <= 2 * MOST, "those that have a turn, then others"
    places = [read_why(tmp_path / "run", name)[0][1][1] for name in names[:5]]
    assert places == [1, 2, 3, 4, 5]
    assert (tmp_path / "run" / PAGE).stat().st_size < 40_000
