"""Idle nodes are switched off for a waiting job, those of other partitions, too, and on again; over the fake Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.cluster import PowerNode
from wattqueue.live.controller import Controller
from wattqueue.live.planner import Rules
from wattqueue.model.signals import Cap

P1, P2 = [f"n{i}" for i in range(1, 5)], [f"m{i}" for i in range(1, 5)]


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm({"p1": P1, "p2": P2}, 1600)


def over(slurm: FakeSlurm, folder: Path, cap_w: float) -> Controller:
    rules = Rules(mode="control", write_priority=False, power_nodes=True)
    return make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(cap_w), policy="easy+controls=idle-off", rules=rules,
        machine=lab_machine(),
    )  # fmt: skip


def rounds(controller: Controller, slurm: FakeSlurm, count: int) -> None:
    for _ in range(count):
        assert controller.round() is not None
        assert slurm.drawn_w <= slurm.open_w
        slurm.step()


def off(slurm: FakeSlurm) -> set[str]:
    return {name for name in P1 + P2 if slurm.node_state(name) == "off"}


def test_nodes_of_another_partition_are_switched_off_for_a_job_and_on_for_the_next(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    """1,300 W: 800 W idle leave 500 W of the 800 W that the first job adds. Three idle nodes of p2 give the rest."""
    controller = over(slurm, tmp_path, 1300.0)
    wide = slurm.submit(4, 60.0, watts=800, limit_s=120.0, partition="p1")
    rounds(controller, slurm, 30)
    assert (wide.state, len(off(slurm)), off(slurm) <= set(P2)) == ("RUNNING", 3, True)
    other = slurm.submit(2, 30.0, watts=400, limit_s=60.0, partition="p2")
    rounds(controller, slurm, 10)
    assert other.state == "PENDING", "neither a second node nor watts while the first job runs"
    controller = over(slurm, tmp_path, 1300.0)  # killed, and started again
    rounds(controller, slurm, 120)
    assert (wide.state, other.state) == ("COMPLETED", "COMPLETED")
    woken = [write for write in slurm.writes if isinstance(write, PowerNode)]
    assert {write.target for write in woken} <= set(P2), "nodes of p1 were needed, and stayed on"


def test_without_a_job_that_lacks_watts_every_node_stays_on(slurm: FakeSlurm, tmp_path: Path) -> None:
    controller = over(slurm, tmp_path, 1600.0)
    job = slurm.submit(4, 30.0, watts=800, limit_s=60.0, partition="p1")
    rounds(controller, slurm, 20)
    assert (job.state, off(slurm)) == ("RUNNING", set())
