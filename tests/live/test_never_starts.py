"""Jobs that can start under no limit to come: set aside live as in the simulator, named, and taken up again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_conditions import value
from tests.live.test_controller import make_slurm
from tests.live.test_live_targets import Stated
from tests.live.typical import Typical
from wattqueue.live.consent_tags import SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.reports.metrics import LiveMetrics
from wattqueue.live.reports.report import ControllerLog, describe
from wattqueue.live.reports.why import read_why, sentence
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.schedule import Reason, reason_of
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import simulate

BASE_W = 8 * 100.0
HUGE: dict[str, Any] = {"part": "chance", "deviations": 9.0, "own": 1.0, "common": 0.0}
"""Nine times the watts of a single job: of 100 W above idle a node, as ``Typical`` predicts them."""
MARGIN = "cannot start under this ledger: margin 1800 W"
"""Of two nodes."""


def policy_of(backfill: str = "easy", ledger: Any = None) -> Policy:
    return replace(load_policy("easy", backfill=backfill, ledger=ledger or HUGE), estimator=Typical())


def run_of(slurm: FakeSlurm, folder: Path, cap: Cap | CapFile, policy: Policy | None = None, **more: Any) -> Controller:
    return make_controller(slurm, folder, lambda: slurm.now_s, cap=cap, policy=policy or policy_of(), **more)


def rounds(controller: Controller, slurm: FakeSlurm, count: int) -> None:
    for _ in range(count):
        controller.round()
        slurm.step()


def pair(slurm: FakeSlurm, nodes: int = 2) -> tuple[FakeJob, FakeJob]:
    """One job at the head that no ledger of these lets start, and one of a node behind it: its maximum fits."""
    wide = slurm.submit(nodes, 20.0, watts=200 * nodes, limit_s=60.0, partition="p1")
    return wide, slurm.submit(1, 20.0, watts=200, limit_s=60.0, partition="p1")


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative", "easy-sjbf", "first-fit"])
def test_a_job_that_never_starts_holds_nobody_back(tmp_path: Path, backfill: str) -> None:
    slurm = make_slurm()
    room_w, ledger = (150.0, "predicted") if backfill == "conservative" else (350.0, HUGE)  # it takes no margin
    controller = run_of(slurm, tmp_path, Cap.constant(BASE_W + room_w), policy_of(backfill, ledger))
    wide, narrow = pair(slurm)
    rounds(controller, slurm, 40)
    assert (wide.state, narrow.state) == ("PENDING", "COMPLETED")
    assert wide.priority == 0, "it stays held"


def test_it_is_named_with_its_margin_by_status_log_metric_and_why(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = run_of(slurm, tmp_path, Cap.constant(BASE_W + 350.0))
    controller.meter = LiveMetrics("control")
    wide, narrow = pair(slurm)
    said: list[str] = []
    log = ControllerLog(said.append)
    for _ in range(10):
        report = controller.round()
        assert report is not None
        log.round(report)
        slurm.step()
    assert report is not None
    line = f"1 job is set aside until the highest limit to come rises: {wide.name} ({MARGIN})"
    assert line in report.problems
    assert said.count(line) == 1
    assert describe(report, "control", controller.telemetry)["jobs"]["never"] == 1
    assert value(controller, "jobs", state="never") == 1.0
    ((_, record),) = read_why(tmp_path / "run", wide.name)
    assert sentence(wide.name, record).startswith(f"job {wide.name}: {MARGIN}")
    assert not [name for name in json.loads((tmp_path / "run/why.json").read_text())["turns"]["names"] if name == "1"]
    assert narrow.state == "RUNNING"


@pytest.mark.parametrize(("room_w", "reason"), [(350.0, Reason.LEDGER), (150.0, Reason.NEVER_FITS)])
def test_the_words_are_those_of_the_simulator(tmp_path: Path, room_w: float, reason: Reason) -> None:
    slurm = make_slurm()
    controller = run_of(slurm, tmp_path, Cap.constant(BASE_W + room_w))
    wide, _ = pair(slurm)
    report = controller.round()
    assert report is not None
    said = {report.plan.jobs.name[slot]: text for slot, text in report.plan.never.items()}
    jobs = Jobs.build([0.0], [2], [20.0], walltime_s=[60.0])
    schedule = simulate(jobs, lab_machine(), policy_of(), cap=Cap.constant(BASE_W + room_w)).schedule
    margin = np.nan if schedule.margin_w is None else float(schedule.margin_w[0])
    assert Reason(int(schedule.reason[0])) == reason
    assert said[wide.name] == reason_of(reason, margin)


def test_it_is_taken_up_again_when_the_highest_limit_to_come_rises(tmp_path: Path) -> None:
    slurm = make_slurm()
    file = tmp_path / "cap.csv"
    file.write_text(f"time_s,cap_w\n0,{BASE_W + 350.0}\n")
    controller = run_of(slurm, tmp_path, CapFile(str(file), lab_machine()))
    wide, _ = pair(slurm)
    rounds(controller, slurm, 40)
    assert wide.state == "PENDING"
    file.write_text(f"time_s,cap_w\n0,{BASE_W + 350.0}\n{slurm.now_s + 30.0:.0f},{BASE_W + 400.0}\n")
    report = controller.round()
    assert report is not None
    assert not report.plan.never, "a cap to come lets it start"
    rounds(controller, slurm, 80)
    assert wide.state == "COMPLETED"


def test_nodes_that_are_off_leave_their_idle_watts_to_it(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = run_of(slurm, tmp_path, Cap.constant(BASE_W + 350.0))
    wide, _ = pair(slurm)
    rounds(controller, slurm, 40)
    assert wide.state == "PENDING"
    slurm.power["m1"] = ("off", slurm.now_s)  # somebody else switches a node off
    rounds(controller, slurm, 40)
    assert wide.state == "COMPLETED"


def test_a_job_that_fits_slowed_alone_waits_for_no_target_that_is_not_known(tmp_path: Path) -> None:
    """With ``by_target`` a job is slowed during a target alone: 400 W at full speed, 100 W slowed; 350 W are left."""
    slurm, source = make_slurm(), Stated()
    controller = run_of(
        slurm, tmp_path, Cap.constant(BASE_W + 350.0), load_policy("dr-fcfs+frequency=target-at-start"), targets=source,
        machine=lab_machine(frequencies=(2e9, 1e9)), consent=SiteDefaults(others=True),
    )  # fmt: skip
    wide, narrow = pair(slurm)
    rounds(controller, slurm, 30)
    assert (wide.state, narrow.state) == ("PENDING", "COMPLETED")
    for room_w, aside in ((50.0, True), (150.0, False)):
        target = LoadTarget(slurm.now_s, slurm.now_s + 100.0, BASE_W + room_w, notice_s=np.inf)
        source.stated = LoadTargets.of(target)
        report = controller.round()
        assert report is not None
        assert [report.plan.jobs.name[slot] for slot in report.plan.never] == [wide.name] * aside
        rounds(controller, slurm, 10)
        assert wide.state == ("PENDING" if aside else "RUNNING")


def test_a_restart_finds_the_same(tmp_path: Path) -> None:
    slurm = make_slurm()
    run_of(slurm, tmp_path, Cap.constant(BASE_W + 350.0)).round()
    wide, _ = pair(slurm)
    report = run_of(slurm, tmp_path, Cap.constant(BASE_W + 350.0)).round()
    assert report is not None
    assert [report.plan.jobs.name[slot] for slot in report.plan.never] == [wide.name]


def test_while_the_cap_is_not_known_nobody_is_set_aside(tmp_path: Path) -> None:
    slurm = make_slurm()
    file = tmp_path / "cap.csv"
    caps = CapFile(str(file), lab_machine())
    assert caps.closed
    controller = run_of(slurm, tmp_path, caps)
    pair(slurm)
    report = controller.round()
    assert report is not None
    assert not report.plan.never


class Meter:
    """Power of idle nodes, while it answers."""

    name, resolution_w = "meter", 0.0

    def __init__(self, slurm: FakeSlurm) -> None:
        self.slurm, self.answers = slurm, True

    def read(self, now_s: float) -> Reading:
        nodes = [name for names in self.slurm.partitions.values() for name in names]
        return Reading({name: PowerSample(100.0, now_s, "meter") for name in nodes if self.answers}, ())


def test_lost_telemetry_sets_nobody_aside(tmp_path: Path) -> None:
    """Jobs then start by their maxima; what the estimator predicted decides whether a job can ever start."""
    slurm = make_slurm()
    meter = Meter(slurm)
    controller = run_of(slurm, tmp_path, Cap.constant(BASE_W + 350.0), policy_of(ledger="predicted"), sources=(meter,))
    meter.answers = False
    rounds(controller, slurm, 3)  # one round without samples is tolerated
    wide, _ = pair(slurm)
    for _ in range(20):
        report = controller.round()
        assert report is not None
        assert not report.plan.never
        slurm.step()
    assert report is not None
    assert not report.plan.telemetry_ok
    assert wide.state == "PENDING", "400 W at its maximum"
    meter.answers = True
    rounds(controller, slurm, 60)
    assert wide.state == "COMPLETED", "200 W as predicted"


def test_a_round_over_many_that_never_start_rebuilds_nothing(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = run_of(slurm, tmp_path, Cap.constant(BASE_W + 350.0))
    for _ in range(30):
        pair(slurm)
    rounds(controller, slurm, 3)
    tables = {id(report.plan.view.entries) for report in (controller.round(), controller.round()) if report}
    assert len(tables) == 1
