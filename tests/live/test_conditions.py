"""What a person should act on: in the status, the log and the metrics, each while it holds and no longer."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_live_targets import Stated
from wattqueue.live.cluster import ReleaseJob
from wattqueue.live.controller import Controller
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.files.stamp import stamp_of
from wattqueue.live.files.status import heartbeat_of
from wattqueue.live.planner import Rules
from wattqueue.live.reports.metrics import LiveMetrics
from wattqueue.live.reports.report import ControllerLog, Report
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain

IDLE_W = 800.0


def make_slurm(*, hold_new: bool = True) -> FakeSlurm:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    slurm.hold_new = hold_new
    return slurm


def value(controller: Controller, name: str, **labels: str) -> float | None:
    assert isinstance(controller.meter, LiveMetrics)
    return controller.meter.registry.get_sample_value(f"wattqueue_{name}", labels)


def status(folder: Path) -> dict[str, object]:
    values: dict[str, object] = json.loads((folder / "run/status.json").read_text())
    return values


def run(controller: Controller, slurm: FakeSlurm, rounds: int = 1) -> Report:
    for _ in range(rounds):
        report = controller.round()
        slurm.step(6.0)  # the status is written every five seconds
    assert report is not None
    return report


def test_counted_power_above_a_cap_that_came_down(tmp_path: Path) -> None:
    slurm, file = make_slurm(), tmp_path / "cap.csv"
    file.write_text("time_s,cap_w\n0,2400\n")
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=CapFile(str(file), lab_machine()))
    for _ in range(4):
        slurm.submit(1, 5000.0, watts=200)
    report = run(controller, slurm, 2)
    assert report.conditions.over_cap_w == 0.0
    assert value(controller, "counted_over_cap_watts") == 0.0
    file.write_text("time_s,cap_w\n0,1200\n")
    report = run(controller, slurm)
    assert report.conditions.over_cap_w == IDLE_W + 800.0 - 1200.0
    assert value(controller, "counted_over_cap_watts") == 400.0
    assert status(tmp_path)["over_cap_w"] == 400.0
    assert any("400 W above the cap" in text for text in report.problems)


@pytest.mark.parametrize(("cap_w", "over_cap_w"), [(2400.0, 0.0), (1500.0, 100.0)])
def test_power_above_a_load_target_is_not_called_above_the_cap(tmp_path: Path, cap_w: float, over_cap_w: float) -> None:
    slurm, source, file = make_slurm(), Stated(), tmp_path / "cap.csv"
    file.write_text("time_s,cap_w\n0,2400\n")
    cap = CapFile(str(file), lab_machine())
    meter = Meter(200.0, works=True)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap, targets=source, sources=(meter,))
    for _ in range(4):
        slurm.submit(1, 5000.0, watts=200)
    run(controller, slurm, 2)
    file.write_text(f"time_s,cap_w\n0,{cap_w}\n")
    row = LoadTarget(slurm.now_s, slurm.now_s + 12.0, 1200.0, ramp_w_per_s=1.0, correlation_id="e1")
    source.stated = LoadTargets.of(row)
    for what in ("load target", "load target", "limit after the load target"):
        report = run(controller, slurm)
        limit_w = report.plan.stated_w
        over_w = IDLE_W + 800.0 - limit_w
        assert (report.conditions.over_cap_w, report.conditions.over_target_w) == (over_cap_w, over_w)
        assert value(controller, "counted_over_target_watts") == over_w
        assert any(f"{over_w:,.0f} W above the {what} of {limit_w:,.0f} W" in text for text in report.problems)
        assert any("above the cap" in text for text in report.problems) == bool(over_cap_w)
        kept = status(tmp_path)
        assert (kept["cap_w"], kept["limit_w"], kept["over_target_w"]) == (cap_w, limit_w, over_w)
    assert value(controller, "cluster_power_cap_watts") == cap_w
    assert (value(controller, "target_violation_seconds_total") or 0.0) > 0.0
    assert ((value(controller, "cap_violation_seconds_total") or 0.0) > 0.0) == bool(over_cap_w)


def test_a_cap_below_idle_closes_the_pool_and_opens_it_again(tmp_path: Path) -> None:
    slurm, file = make_slurm(), tmp_path / "cap.csv"
    file.write_text("time_s,cap_w\n0,2400\n")
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=CapFile(str(file), lab_machine()))
    runs = slurm.submit(1, 5000.0, watts=200)
    run(controller, slurm)
    file.write_text("time_s,cap_w\n0,300\n")
    waits = slurm.submit(1, 50.0, watts=200)
    report = run(controller, slurm, 3)
    assert slurm.open_w == 0
    assert (runs.state, waits.state) == ("RUNNING", "PENDING")
    assert value(controller, "cap_below_idle_watts") == 500.0
    assert value(controller, "cluster_power_cap_watts") == 300.0
    assert any("closed" in text for text in report.problems)
    file.write_text("time_s,cap_w\n0,2400\n")
    run(controller, slurm, 2)
    assert waits.state in ("RUNNING", "COMPLETED")
    assert value(controller, "cap_below_idle_watts") == 0.0


def test_a_bad_cap_file_is_a_metric_too(tmp_path: Path) -> None:
    slurm, file = make_slurm(), tmp_path / "cap.csv"
    file.write_text("time_s,cap_w\n0,2400\n")
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=CapFile(str(file), lab_machine()))
    run(controller, slurm)
    assert value(controller, "cap_unreadable") == 0.0
    file.write_text("time_s,cap_w\n0,many\n")
    assert run(controller, slurm).conditions.cap_unreadable
    assert value(controller, "cap_unreadable") == 1.0


def test_the_message_is_about_the_state_that_the_caps_file_has_now(tmp_path: Path) -> None:
    """A file that cannot be used becomes a folder of the same age and inode: only its kind differs."""
    file = tmp_path / "cap.csv"
    file.write_text("no cap\n")
    caps = CapFile(str(file), lab_machine())
    before, mode = caps.problem, stat.S_IMODE(file.stat().st_mode)
    size, times = file.stat().st_size, (1e9, 1e9)
    os.utime(file, times)
    caps.changed()
    file.unlink()
    file.mkdir()
    os.utime(file, times)
    assert not caps.changed()
    assert "directory" in caps.problem
    assert caps.problem != before
    file.rmdir()
    file.write_text("x" * size)
    file.chmod(mode)
    caps.changed()
    assert "directory" not in caps.problem


def test_a_stamp_tells_kinds_permissions_and_obstacles_apart(tmp_path: Path) -> None:
    file = tmp_path / "folder/cap.csv"
    seen = [stamp_of(file)]
    assert seen == [()]
    file.parent.mkdir()
    for change in (file.touch, partial(file.chmod, 0), file.unlink, file.mkdir, file.rmdir):
        change()
        seen.append(stamp_of(file))
    file.parent.rmdir()
    file.parent.write_text("")  # no folder any more
    seen.append(stamp_of(file))
    assert [one == () for one in seen] == [True, False, False, True, False, True, False]
    assert len({one for one in seen if one}) == 4


def test_foreign_unlicensed_stuck_and_failed_jobs(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0))
    bare = slurm.submit(1, 5000.0, watts=0, priority=1)
    bare.licences = {}
    bare.priority, bare.reason = 9, "None"
    foreign = slurm.submit(4, 5000.0, watts=0, partition="p2")
    foreign.licences, foreign.priority, foreign.begin_s = {}, 8, slurm.now_s + 1e6
    failed = slurm.submit(1, 50.0, watts=200)
    failed.reason = "launch failed requeued held"
    broken = slurm.submit(1, 50.0, watts=200)
    slurm.fault = lambda what: "fail" if isinstance(what, ReleaseJob) and what.target == broken.name else None
    slurm.step()
    for _ in range(40):
        report = run(controller, slurm)
    assert report.conditions.unlicensed == (bare.name,)
    assert report.conditions.foreign == (foreign.name,)
    assert report.conditions.failed == (failed.name,)
    assert [one.key.name for one in report.conditions.stuck] == [broken.name]
    counts = {state: value(controller, "jobs", state=state) for state in ("unlicensed", "foreign", "failed", "stuck")}
    assert counts == dict.fromkeys(counts, 1.0)
    assert failed.priority == 0, "it waits for a person"


def test_observe_logs_changes_and_that_the_site_is_above_the_cap(tmp_path: Path) -> None:
    slurm = make_slurm(hold_new=False)
    for _ in range(4):
        slurm.submit(1, 5000.0, watts=-1).licences.clear()
    slurm.step()
    waits = slurm.submit(4, 50.0, watts=-1, partition="p1")
    waits.licences.clear()
    rules = Rules(mode="observe")
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1500.0), rules=rules)
    lines: list[str] = []
    journal = ControllerLog(lines.append)
    for _ in range(50):
        report = controller.round()
        assert report is not None
        journal.round(report)
        slurm.step()
    assert sum("100 W above the cap of 1,500 W" in line for line in lines) == 1
    assert sum(line.startswith("would write") for line in lines) == 1, lines
    for job in slurm.running():
        job.runtime_s = 0.0
    waits.state = "CANCELLED"
    slurm.step()
    for _ in range(2):
        report = controller.round()
        assert report is not None
        journal.round(report)
        slurm.step()
    assert any(line.startswith("no more: ") and "above the cap" in line for line in lines)


class Meter:
    """A source that measures every node, or none."""

    name = "meter"
    resolution_w = 1e4  # so coarse that a figure which stays the same says nothing

    def __init__(self, power_w: float = 150.0, *, works: bool = False) -> None:
        self.power_w, self.works = power_w, works

    def read(self, now_s: float) -> Reading:
        names = [f"{kind}{i}" for kind in "nm" for i in range(1, 5)]
        return Reading({n: PowerSample(self.power_w, now_s, self.name) for n in names} if self.works else {}, ())


def test_power_that_nobody_measures_is_no_zero(tmp_path: Path) -> None:
    slurm, meter = make_slurm(), Meter()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0), sources=(meter,))
    run(controller, slurm)
    assert value(controller, "cluster_power_watts") is None
    meter.works = True
    run(controller, slurm)
    assert value(controller, "cluster_power_watts") == 8 * 150.0
    meter.works = False
    run(controller, slurm, 2)
    assert value(controller, "cluster_power_watts") is None


@pytest.mark.parametrize(
    ("age_s", "says"), [(10.0, ""), (80.0, "after 120 s"), (500.0, "alone"), (-900.0, "future"), (None, "no heartbeat")]
)
def test_an_old_heartbeat_is_reported(tmp_path: Path, age_s: float | None, says: str) -> None:
    if age_s is not None:
        (tmp_path / "beat").write_text(f"control {int(1e6 - age_s)}\n")
    found = heartbeat_of(tmp_path, "control", 1e6, 120.0)
    assert found.age_s == age_s
    assert says in " ".join(found.problems)
    assert bool(found.problems) == bool(says)
    assert heartbeat_of(tmp_path, "observe", 1e6, 120.0).problems == ()


def test_counted_watts_of_power_domains(tmp_path: Path) -> None:
    """Two racks that can carry all their nodes: what runs there counts, with losses and base, beside idle watts."""
    slurm = make_slurm()
    racks = (
        SupplyDomain(name="r1", parent="row", nodes="p1", limit_w=2_000.0, efficiency=0.8, base_w=40.0),
        SupplyDomain(name="r2", parent="row", nodes="p2", limit_w=1_600.0),
        SupplyDomain(name="row", limit_w=4_000.0),
    )
    machine = replace(lab_machine(), supply=racks)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2_400.0), machine=machine)
    run(controller, slurm)
    assert value(controller, "domain_counted_power_watts", domain="r1") == 40.0 + 400.0 / 0.8
    slurm.submit(2, 5000.0, watts=200)
    run(controller, slurm, 3)
    assert value(controller, "domain_counted_power_watts", domain="r1") == 40.0 + (400.0 + 2 * 200.0) / 0.8
    assert value(controller, "domain_counted_power_watts", domain="r2") == 400.0
    assert value(controller, "domain_counted_power_watts", domain="row") == 40.0 + 800.0 / 0.8 + 400.0
    assert value(controller, "domain_power_limit_watts", domain="r1") == 2_000.0
