"""A site adds and removes nodes while the controller runs, and between two runs of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import Site, cap_text
from tests.live.slurmlab import real, wait_for
from wattqueue.errors import MachineError
from wattqueue.live.cluster import JobKey
from wattqueue.model.signals import Cap

PARTS = lab_machine().partitions
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


@pytest.mark.parametrize("restarts", [False, True])
def test_nodes_that_leave_slurm_count_their_idle_watts_until_the_file_says_that_they_are_gone(
    tmp_path: Path, restarts: bool
) -> None:
    """They may stand there and draw as before: one after the other, across restarts; the corrected file frees them."""
    slurm, cap = make_slurm(), Cap.constant(8 * 100.0 + 1200.0)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap)
    for name in ("n4", "n3"):
        controller.round()
        slurm.step()
        slurm.partitions["p1"].remove(name)
        for _ in range(3):
            controller = controller.renewed()
            report = controller.round()
            slurm.step()
        if restarts:
            controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap)
            report = controller.round()
    assert len(controller.planner.layout.names) == 6
    assert slurm.open_w == 1200, "the cap less the idle watts of eight nodes"
    assert report is not None
    assert any("the idle watts of those that are missing count until then" in text for text in report.problems)
    corrected = replace(lab_machine(), partitions=(replace(lab_machine().partitions[0], nodes=2), *PARTS[1:]))
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap, machine=corrected)
    controller.round()
    assert slurm.open_w == 1400


def test_a_partition_that_leaves_slurm_counts_its_idle_watts(tmp_path: Path) -> None:
    """The running controller goes on with the nodes that it knew, and says so; the other partition runs jobs."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(8 * 100.0 + 1200.0))
    controller.round()
    del slurm.partitions["p2"]
    job = slurm.submit(2, 10.0, watts=400)
    for _ in range(4):
        controller = controller.renewed()
        report = controller.round()
        slurm.step()
    assert slurm.open_w == 1200
    assert report is not None
    assert any("are not taken up: " in text and "p2" in text for text in report.problems)
    assert job.state == "RUNNING"


def test_a_node_that_gets_another_name_counts_as_before(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(8 * 100.0 + 1200.0))
    controller.round()
    slurm.partitions["p1"][1] = "x2"
    wide = slurm.submit(4, 10.0, watts=800)
    for _ in range(4):
        controller = controller.renewed()
        controller.round()
        slurm.step()
    assert controller.planner.layout.names[:4] == ("n1", "n3", "n4", "x2")
    assert (slurm.open_w, wide.state) == (1200, "RUNNING")


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
