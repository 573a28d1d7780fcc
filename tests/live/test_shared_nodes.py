"""Nodes that jobs share, over the fake Slurm: each counts its maximum once, and the pool is what is left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.live.drive import ACCEPTS_ALL, lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import MachineError
from wattqueue.live.cluster import Node, SetPool
from wattqueue.live.controller import Controller
from wattqueue.live.partitions import inspect_partitions
from wattqueue.live.planner import Rules
from wattqueue.live.reports.metrics import LiveMetrics
from wattqueue.live.reports.report import describe
from wattqueue.live.reports.why import read_why, sentence
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.live.world import Layout
from wattqueue.model.machine import CapScope, Partition
from wattqueue.model.signals import Cap

NET_W = 200
"""Watts of a managed node above idle."""
SHARED = SharedNodes((Partition("s", 2, idle_w=50.0, max_w=150.0, off_w=5.0),))
CAP_W = 800.0 + 600.0 + 300.0
"""Idle watts of eight managed nodes, three busy ones, and two shared nodes."""


def make_slurm(total_w: int = 1600) -> FakeSlurm:
    parts = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)], "s": ["s1", "s2"]}
    return FakeSlurm(parts, total_w, shared=frozenset({"s"}))


def over(slurm: FakeSlurm, folder: Path, cap_w: float = CAP_W, **more: object) -> Controller:
    return make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(cap_w), shared_nodes=SHARED, **more  # type: ignore[arg-type]
    )  # fmt: skip


def run(controller: Controller, slurm: FakeSlurm, rounds: int) -> None:
    for _ in range(rounds):
        controller.round()
        slurm.step()


def most_w(slurm: FakeSlurm) -> float:
    """What the machine may draw at most: every managed node that holds a job, and every shared node that can."""
    held = {name for job in slurm.running() for name in job.held_nodes}
    managed = sum(300.0 if name in held else 100.0 for part in ("p1", "p2") for name in slurm.partitions[part])
    shared = 0.0
    for name in slurm.partitions["s"]:
        closed = name in slurm.drained and name not in held
        shared += 150.0 if not closed else 5.0 if slurm.power.get(name, ("on", 0.0))[0] == "off" else 50.0
    return managed + shared


def test_eleven_jobs_on_two_shared_nodes_count_two_nodes(tmp_path: Path) -> None:
    """Counted by jobs they would hold 11 x 150 W; the managed partitions get all that two nodes leave."""
    slurm = make_slurm()
    controller = over(slurm, tmp_path)
    shared = [slurm.submit_shared(1, 500.0, "s") for _ in range(11)]
    managed = [slurm.submit(1, 500.0, watts=NET_W, partition="p1") for _ in range(4)]
    run(controller, slurm, 4)
    assert [job.state for job in shared] == ["RUNNING"] * 11
    assert sum(job.state == "RUNNING" for job in managed) == 3
    assert slurm.open_w == 600
    assert most_w(slurm) == CAP_W
    report = controller.last
    assert report is not None
    assert (report.plan.shared.watts, report.plan.shared.open) == (300.0, 2)
    assert report.plan.counted_w == CAP_W
    assert report.conditions.lines(CAP_W, CAP_W) == []


def test_nothing_is_written_to_jobs_on_shared_nodes(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path)
    job = slurm.submit_shared(4, 3.0, "s")
    run(controller, slurm, 6)
    assert job.state == "COMPLETED"
    assert [write for write in slurm.writes if not isinstance(write, SetPool)] == []


def test_the_pool_holds_while_the_controller_is_away(tmp_path: Path) -> None:
    slurm = make_slurm()
    run(over(slurm, tmp_path), slurm, 2)
    slurm.hold_new = False  # as job_submit.lua does without a heartbeat
    for _ in range(8):
        slurm.submit(1, 500.0, watts=NET_W, partition="p1")
        slurm.submit_shared(3, 500.0, "s")
    for _ in range(5):
        slurm.step()
        assert most_w(slurm) <= CAP_W
    assert slurm.used_w == 600


def test_a_cap_that_falls_closes_the_pool_and_says_what_shared_nodes_count(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path)
    run(controller, slurm, 1)
    controller.planner.cap = Cap.constant(1000.0)  # below 800 W of idle nodes and 300 W of shared ones
    job = slurm.submit(1, 5.0, watts=NET_W)
    run(controller, slurm, 3)
    assert (slurm.open_w, job.state) == (0, "PENDING")
    report = controller.last
    assert report is not None
    assert report.conditions.cap_below_idle_w == 100.0
    (aside, *others) = sorted(report.problems, key=lambda text: "set aside" not in text)
    assert f"set aside until the highest limit to come rises: {job.name} (never fits under the cap)" in aside
    (over_w, below) = sorted(others, key=lambda text: "idle" in text)
    assert "counted power is 100 W above the cap" in over_w
    assert "shared ones count (300 W)" in below
    slurm.drained |= {"s1": "the site's own", "s2": "the site's own"}  # an administrator makes room: 2 x 50 W are left
    run(controller, slurm, 1)
    assert slurm.open_w == 100


@pytest.mark.parametrize(
    ("scope", "open_w", "drained_w", "off_w"), [("machine", 150, 50, 5), ("dynamic", 100, 0, 0), ("jobs", 150, 0, 0)]
)
def test_a_node_counts_less_only_while_no_job_can_start_there(
    scope: CapScope, open_w: int, drained_w: int, off_w: int
) -> None:
    shared = SharedNodes(SHARED.partitions, scope)

    def counted(state: str, power: str = "on", **more: object) -> float:
        node = Node("s1", state, power, False, False, ("s",))  # type: ignore[arg-type]
        return shared.count((node,), **more).watts  # type: ignore[arg-type]

    for state in ("idle", "mixed", "allocated", "draining", "down", "maint", "reserved", "unknown"):
        assert counted(state) == open_w
    assert counted("idle", "off") == counted("powered_down", "off") == counted("idle", "booting") == open_w
    assert counted("drained") == drained_w
    assert counted("drained", "off") == off_w
    slurm = make_slurm()
    slurm.submit_shared(1, 500.0, "s")
    slurm.step()
    assert counted("drained", jobs=slurm.observe().jobs) == open_w, "a suspended job may be on a node shown as drained"


def test_a_node_of_two_shared_partitions_counts_once_at_the_dearest() -> None:
    shared = SharedNodes((*SHARED.partitions, Partition("t", 1, idle_w=50.0, max_w=180.0)), "machine", {"tt": "t"})
    nodes = (Node("s1", "idle", "on", True, False, ("s", "tt")), Node("s2", "idle", "on", True, False, ("s",)))
    assert shared.count(nodes).watts == 330.0
    assert shared.count(nodes).partitions == {"s", "tt"}
    assert shared.only("s,tt")
    assert not shared.only("s,p1")


def test_a_job_that_names_a_managed_partition_too_waits_for_watts_and_starts_there(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path)
    job = slurm.submit(1, 500.0, watts=NET_W, partition="s,p1")
    run(controller, slurm, 3)
    assert (job.state, job.partition, job.licences) == ("RUNNING", "p1", {"watts": NET_W})


@pytest.mark.parametrize("mark", ["wattqueue:held", "wattqueue:user-held"])
def test_a_waiting_job_that_staff_move_to_a_shared_partition_is_let_go_without_watts(tmp_path: Path, mark: str) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 800.0 + 300.0)  # no watts for managed jobs
    job = slurm.submit(1, 500.0, watts=NET_W, partition="p1", mark=mark)
    run(controller, slurm, 2)
    assert job.state == "PENDING"
    job.partition, job.cpus = "s", 2
    run(controller, slurm, 3)
    assert job.licences == {}
    assert job.state == ("PENDING" if "user" in mark else "RUNNING")


def test_why_says_that_such_a_job_waits_for_slurm_alone(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path)
    jobs = [slurm.submit_shared(16, 500.0, "s") for _ in range(3)]
    slurm.step()
    controller.round()
    ((name, record),) = read_why(tmp_path / "run", jobs[2].name)
    assert "partition s is scheduled by Slurm alone, and does not wait for watts" in sentence(name, record)


def test_status_and_metrics_show_what_shared_nodes_count(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path)
    slurm.drained["s2"] = "the site's own"
    run(controller, slurm, 1)
    report = controller.last
    assert report is not None
    values = describe(report, "control", controller.telemetry)
    assert values["shared_nodes"] == {"counted_w": 200.0, "open": 1, "closed": 1}
    assert isinstance(controller.meter, LiveMetrics)
    assert controller.meter.registry.get_sample_value("wattqueue_shared_nodes_watts") == 200.0


class Meters:
    """Every node is measured; shared ones too."""

    name = "meters"
    resolution_w = 1e4  # so coarse that a figure which stays the same says nothing
    counts_jobs = False

    def __init__(self, watts: dict[str, float]) -> None:
        self.watts = watts

    def read(self, now_s: float) -> Reading:
        return Reading({name: PowerSample(watts, now_s, self.name) for name, watts in self.watts.items()})

    def close(self) -> None:
        """Nothing is open."""


def test_what_shared_nodes_draw_is_measured_and_taught_to_nobody(tmp_path: Path) -> None:
    slurm = make_slurm()
    names = [name for part in slurm.partitions.values() for name in part]
    meters = Meters(dict.fromkeys(names, 120.0))
    rules = Rules("control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL, warm_up_s=1.0)
    controller = over(slurm, tmp_path, sources=(meters,), rules=rules)
    job = slurm.submit_shared(2, 5.0, "s")
    run(controller, slurm, 10)
    assert job.state == "COMPLETED"
    report = controller.last
    assert report is not None
    assert report.power["s1"][:2] == (120.0, "measured")
    assert sum(power.power_w for power in report.power.values()) == 1200.0
    assert controller.planner.tracker.ended(set()) == []


def test_a_node_in_a_shared_and_a_managed_partition_is_refused_and_counts_both(tmp_path: Path) -> None:
    slurm = make_slurm()
    layout = Layout.of(lab_machine(), slurm.observe().nodes, {})
    SHARED.refuse_mixed(layout, slurm.observe().nodes)
    controller = over(slurm, tmp_path)
    run(controller, slurm, 1)
    slurm.partitions["s"].append("n4")  # an administrator does so while the controller runs
    nodes = slurm.observe().nodes
    with pytest.raises(MachineError, match="n4"):
        SHARED.refuse_mixed(layout, nodes)
    run(controller, slurm, 1)
    assert slurm.open_w == 450, "the node counts its maximum as a shared one, and idle watts as a managed one"
    assert any("shared partition s holds 1 managed nodes" in text for text in inspect_partitions(layout, nodes, SHARED))
    assert controller.last is not None
    assert any("shared partition s holds 1" in text for text in controller.last.problems)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_no_order_of_events_exceeds_the_cap(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Submissions of any kind, drains by staff, nodes that fail, stop and boot, a controller that is away and returns.

    Only a node that is taken back into service while its watts are in use exceeds it, so staff here do so while the
    pool is empty.
    """
    r, slurm = random.Random(seed), make_slurm()
    folder = tmp_path_factory.mktemp("run")
    controller: Controller | None = over(slurm, folder)
    assert controller is not None
    controller.round()
    for _ in range(60):
        kind = r.random()
        if kind < 0.35:
            slurm.submit_shared(r.randint(1, 16), r.uniform(1.0, 20.0), "s")
        elif kind < 0.7:
            nodes, partition = r.randint(1, 3), r.choice(["p1", "p2", "p1,p2", "s,p1", "p2,s"])
            slurm.submit(nodes, r.uniform(1.0, 20.0), watts=nodes * NET_W, partition=partition)
        elif kind < 0.75:
            slurm.drained.setdefault(r.choice(["s1", "s2"]), "the site's own")
        elif kind < 0.8 and slurm.used_w == 0 and controller is not None and len(slurm.drained) == 1:
            waiting = [job for job in slurm.jobs.values() if job.state == "PENDING" and job.priority > 0]
            if not waiting:
                slurm.drained.clear()
        elif kind < 0.85:
            name = r.choice(["s1", "s2"])
            (slurm.down.discard if name in slurm.down else slurm.down.add)(name)
        elif kind < 0.9:
            controller = None if controller is not None else over(slurm, folder)
            slurm.hold_new = controller is not None
        if controller is not None:
            controller.round()
        slurm.step(r.uniform(0.5, 3.0))
        assert most_w(slurm) <= CAP_W, (seed, slurm.running())
