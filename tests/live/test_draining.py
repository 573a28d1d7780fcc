"""Nodes that a control drains stop when their jobs have ended, and only these are brought back; over the fake Slurm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_live_targets import Stated
from wattqueue.live.cluster import PowerNode, SetDrain
from wattqueue.live.controller import Controller
from wattqueue.live.decision import NO_POWER_RIGHT
from wattqueue.live.planner import Rules
from wattqueue.live.release import ReleaseSettings, release_all
from wattqueue.live.restore import Restorer
from wattqueue.live.state.memory import ControllerState
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap


def over(slurm: FakeSlurm, source: Stated, folder: Path, *, power_nodes: bool = True) -> Controller:
    rules = Rules(mode="control", write_priority=False, power_nodes=power_nodes)
    return make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(2400.0), targets=source,
        policy="fcfs+controls=target-drain", rules=rules, machine=lab_machine(),
    )  # fmt: skip


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def target(slurm: FakeSlurm, seconds: float) -> LoadTargets:
    """Watts of three busy nodes and a third: the others drain, idle ones first."""
    return LoadTargets.of(LoadTarget(slurm.now_s, slurm.now_s + seconds, 1000.0, notice_s=np.inf))


def rounds(controller: Controller, slurm: FakeSlurm, count: int) -> None:
    for _ in range(count):
        assert controller.round() is not None
        slurm.step()


def test_a_busy_node_drains_stops_when_its_job_ends_and_comes_back(slurm: FakeSlurm, tmp_path: Path) -> None:
    source = Stated()
    controller = over(slurm, source, tmp_path)
    short = slurm.submit(2, 20.0, watts=400, limit_s=60.0, partition="p1")
    long = slurm.submit(2, 400.0, watts=400, limit_s=600.0, partition="p1")
    slurm.drained["m4"] = "an administrator's"
    rounds(controller, slurm, 4)
    source.stated = target(slurm, 100.0)
    rounds(controller, slurm, 4)
    ours = [name for name, why in slurm.drained.items() if why.startswith("wattqueue")]
    node = short.held_nodes[0]
    assert sorted(ours) == sorted(["m1", "m2", "m3", node]), (
        "three idle ones, and one that is expected to be idle first"
    )
    assert slurm.node_state(node) == "draining"
    controller = over(slurm, source, tmp_path)  # killed, and started again
    rounds(controller, slurm, 30)
    assert short.state == "COMPLETED"
    assert {slurm.node_state(name) for name in ours} == {"off"}
    assert slurm.node_state("m4") == "drained"
    rounds(controller, slurm, 80)
    assert {slurm.node_state(name) for name in ours} == {"idle"}
    assert slurm.drained == {"m4": "an administrator's"}
    assert controller.planner.memory.drained == {}
    assert long.state == "RUNNING"
    assert {w.target for w in slurm.writes if isinstance(w, SetDrain | PowerNode)} == set(ours)


def test_a_drain_that_somebody_took_over_is_left_alone(slurm: FakeSlurm, tmp_path: Path) -> None:
    source = Stated()
    controller = over(slurm, source, tmp_path)
    job = slurm.submit(2, 50.0, watts=400, limit_s=60.0, partition="p1")
    slurm.submit(2, 400.0, watts=400, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 4)
    source.stated = target(slurm, 100.0)
    rounds(controller, slurm, 2)
    (node,) = (name for name in slurm.drained if name in job.held_nodes)
    slurm.drained[node] = "its fan is loud"
    source.stated = LoadTargets.none()
    rounds(controller, slurm, 3)
    assert slurm.drained == {node: "its fan is loud"}
    assert node not in controller.planner.memory.drained
    rounds(controller, slurm, 60)
    assert controller.planner.memory.drained == {}
    assert job.state == "COMPLETED"
    assert slurm.node_state(node) == "drained"


def test_without_the_right_to_power_nodes_a_drain_is_refused_with_the_reason(slurm: FakeSlurm, tmp_path: Path) -> None:
    source = Stated()
    controller = over(slurm, source, tmp_path, power_nodes=False)
    for _ in range(2):
        slurm.submit(2, 50.0, watts=400, limit_s=60.0, partition="p1")
    rounds(controller, slurm, 4)
    source.stated = target(slurm, 100.0)
    rounds(controller, slurm, 2)
    assert slurm.drained == {}
    assert any("DrainNode" in text and NO_POWER_RIGHT in text for text in controller.refusals)


def test_without_a_controller_drained_nodes_come_back_when_the_target_is_over(slurm: FakeSlurm, tmp_path: Path) -> None:
    source = Stated()
    controller = over(slurm, source, tmp_path)
    rounds(controller, slurm, 2)
    source.stated = target(slurm, 50.0)
    rounds(controller, slurm, 8)
    drained = set(slurm.drained)
    assert {slurm.node_state(name) for name in drained} == {"off"}
    restorer, settings = (
        Restorer(ControllerState(controller.audit.engine)),
        ReleaseSettings(controller.run_dir.folder, away_s=0.5),
    )
    assert release_all(settings, slurm, now_s=slurm.now_s, restorer=restorer).restored == 0
    slurm.now_s += 50.0
    assert release_all(settings, slurm, now_s=slurm.now_s, restorer=restorer).restored == len(drained)
    slurm.step(5.0)
    assert {slurm.node_state(name) for name in drained} == {"idle"}
    assert ControllerState(controller.audit.engine).drained == {}
