"""A site adds and removes nodes while the controller runs, and between two runs of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import Site, cap_text
from tests.live.slurmlab import real, wait_for
from wattqueue.errors import MachineError
from wattqueue.live.cluster import JobKey
from wattqueue.model.signals import Cap

CAP_W = 10 * 100.0 + 1600.0


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def test_a_node_that_is_added_is_used_and_its_idle_watts_count(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    first = slurm.submit(2, 900.0, watts=400)
    wide = slurm.submit(5, 10.0, watts=1000)
    for _ in range(3):
        controller.round()
        slurm.step()
    assert (first.state, wide.state) == ("RUNNING", "PENDING")
    pool_w = slurm.open_w
    slurm.partitions["p1"].append("n5")
    slurm.partitions["p1"] += ["n6", "n7"]
    reports = []
    for _ in range(4):
        controller = controller.renewed()
        reports.append(controller.round())
        slurm.step()
    assert wide.state == "RUNNING"
    assert first.starts == 1
    assert slurm.open_w == min(pool_w, int(CAP_W - 11 * 100.0)), "three more nodes draw idle watts"
    last = reports[-1]
    assert last is not None
    assert len(last.plan.holding) == 2, "what ran before is known still"


def test_a_node_that_is_removed_is_forgotten_with_the_job_that_runs_on(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    jobs = [slurm.submit(1, 30.0, watts=200, limit_s=60.0) for _ in range(8)]
    controller.round()
    slurm.step()
    slurm.partitions["p1"].remove("n4")
    for _ in range(100):
        controller = controller.renewed()
        controller.round()
        slurm.step()
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert len(controller.planner.layout.names) == 7
    assert slurm.peak_w <= 1600
    again = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    report = again.round()
    assert report is not None
    assert any("p1" in text and "3 nodes" in text for text in report.problems), "the machine file has four"


def test_a_job_that_is_requeued_while_the_nodes_change_keeps_its_place(tmp_path: Path) -> None:
    """Between the last snapshot of one planner and the first of the next; Slurm started it, so no release is stored."""
    slurm = make_slurm()
    slurm.hold_new = False
    adopted = slurm.submit(4, 900.0, watts=800)
    slurm.step()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    for _ in range(3):
        controller.round()
        slurm.step()
    assert adopted.state == "RUNNING"
    assert not controller.planner.memory.placed
    first_s = adopted.submit_s
    slurm.partitions["p2"].append("m5")
    controller.round()
    slurm.step()
    slurm.requeue_and_hold(adopted)
    other = controller.renewed()
    assert other is not controller
    other.round()
    assert other.planner.memory.origin == {JobKey(adopted.name, adopted.submit_s): first_s}


def test_a_partition_without_any_node_is_an_error(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1"], "other": ["m1"]}, 1600)
    with pytest.raises(MachineError):
        make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))


@real
def test_a_node_moves_to_another_partition_of_a_real_slurm(site: Site) -> None:
    """The running controller takes it up, and the next one starts over a machine file that is not right any more."""
    config = site.begin(cap_text(1600))
    conf = site.root / "etc/slurm.conf"
    before = conf.read_text()
    wide = site.gated("-N4", "-p", "p1")
    site.wait_running([wide])
    moved = before.replace("Nodes=n[1-4]", "Nodes=n[1-5]").replace("Nodes=n[5-8]", "Nodes=n[6-8]")
    conf.write_text(moved)
    try:
        site.lab.run(["scontrol", "reconfigure"])
        one = site.gated("-N1", "-p", "p1")
        site.wait_running([one])
        assert site.lab.field(one, "NodeList") == "n5"
        site.open_gate(one, wide)
        wider = site.gated("-N5", "-p", "p1")
        site.wait_running([wider])
        assert site.lab.field(wider, "Licenses") == "watts:1000"
        site.stop()
        site.start(config)
        site.wait_up()
        wait_for("the note in the log", lambda: "the machine file 4" in site.log.read_text(), step_s=0.2)
        site.open_gate(wider)
    finally:
        conf.write_text(before)
        site.lab.run(["scontrol", "reconfigure"])
