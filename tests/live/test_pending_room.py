"""What waits reserves room and is no power: jobs that Slurm alone schedules neither stop others nor lose their room."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_controller import Meter
from wattqueue.live.cluster import Snapshot
from wattqueue.live.controller import Controller
from wattqueue.live.features.ledger_meter import LedgerMeter, Metered
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.conditions import conditions
from wattqueue.live.state.memory import ReleasedJob
from wattqueue.live.telemetry.base import NodePower
from wattqueue.model.signals import Cap

IDLE_W, POOL_W, TIMEOUT_S = 800.0, 600, 30.0


def make_slurm(total_w: int = POOL_W) -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, total_w)


def make(slurm: FakeSlurm, folder: Path) -> Controller:
    return make_controller(slurm, folder, lambda: slurm.now_s, cap=Cap.constant(IDLE_W + POOL_W))


def of_components(seen: Snapshot, groups: Sequence[Sequence[FakeJob]], held: Collection[str] = ()) -> Snapshot:
    """The same Slurm in which each group of jobs is one job of several components, and waits; ``held``: held ones."""
    rows, details = {row.number: row for row in seen.jobs}, dict(seen.details)
    for group in groups:
        whole = str(group[0].id)
        for k, job in enumerate(group):
            row = rows[job.id]
            key = row.key._replace(name=f"{whole}+{k}")
            by = row.held_by if whole in held else ""
            rows[job.id] = row._replace(key=key, whole=whole, component=k, held_by=by, reason="Resources")
            details[key] = seen.details[row.key]._replace(parts=2, mark="wattqueue:needs-controller")
    return replace(seen, jobs=tuple(rows.values()), details=details)


def planned(controller: Controller, seen: Snapshot) -> RoundState:
    return controller.planner.plan(seen, {}, telemetry_ok=True)


def over_w(seen: Snapshot, plan: RoundState) -> float:
    return conditions(plan).over_cap_w


def running(slurm: FakeSlurm, watts: int, partition: str = "p1", nodes: int = 1) -> FakeJob:
    """A job that runs already."""
    job = slurm.submit(nodes, 1e6, watts=watts, partition=partition)
    job.state, job.reason, job.start_s = "RUNNING", "None", slurm.now_s
    job.held_nodes = tuple(name for name in slurm.partitions[partition] if slurm.node_state(name) == "idle")[:nodes]
    return job


def test_components_that_wait_are_no_power(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make(slurm, tmp_path)
    running(slurm, 450)
    group = [slurm.submit(1, 50.0, watts=200, partition=name) for name in ("p1", "p2")]
    seen = of_components(slurm.observe(), [group])
    plan = planned(controller, seen)
    assert (over_w(seen, plan), plan.counted_w) == (0.0, IDLE_W + 450.0)
    assert plan.reserved_w > 0


def test_a_released_job_whose_watts_slurm_gave_to_another_is_no_power(tmp_path: Path) -> None:
    """A job of a partition that the machine file does not name started on them; Slurm starts ours later."""
    slurm = make_slurm()
    slurm.partitions["debug"] = [*slurm.partitions["p1"], *slurm.partitions["p2"]]
    controller = make(slurm, tmp_path)
    ours = slurm.submit(1, 50.0, watts=300)
    slurm.release(ours)
    key = slurm.observe().jobs[0].key
    controller.planner.memory.place([ReleasedJob(key, slurm.now_s, "p1", 0, 300, 300.0, 3600.0, "n1")])
    running(slurm, 400, "debug", 2)
    seen = slurm.observe()
    plan = planned(controller, seen)
    assert plan.jobs.name[plan.under_way].tolist() == [ours.name]
    assert (over_w(seen, plan), plan.counted_w) == (0.0, IDLE_W + 400.0)


class Components:
    """A controller over a Slurm that starts nothing by itself."""

    def __init__(self, slurm: FakeSlurm, folder: Path) -> None:
        self.slurm, self.controller = slurm, make(slurm, folder)

    def submit(self, watts: int, partitions: Sequence[str] = ("p1", "p2")) -> str:
        """Submit a job of several components."""
        return self.slurm.submit_whole(partitions, 50.0, watts=watts)[0].whole

    def start(self, name: str) -> list[FakeJob]:
        """Slurm starts it; return its components."""
        group = [job for job in self.slurm.jobs.values() if job.whole == name]
        for job in group:
            job.state, job.reason, job.start_s = "RUNNING", "None", self.slurm.now_s
            job.held_nodes = tuple(
                node for node in self.slurm.partitions[job.partition] if self.slurm.node_state(node) == "idle"
            )[:1]
        return group

    def round(self) -> list[FakeJob]:
        """One round; return the jobs of the policy that it released."""
        before = self.waiting()
        assert self.controller.round() is not None
        return [job for job in self.waiting() if job not in before and not job.whole]

    def waiting(self) -> list[FakeJob]:
        """Jobs that wait and that nobody holds."""
        return [job for job in self.slurm.jobs.values() if job.state == "PENDING" and job.priority > 0]

    @property
    def plan(self) -> RoundState:
        """The plan of the last round."""
        assert self.controller.last is not None
        return self.controller.last.plan

    @property
    def released(self) -> list[str]:
        """The released jobs of several components."""
        return [job.whole for job in self.waiting() if job.whole and not job.component]


@pytest.mark.parametrize("what", ["watts", "nodes"])
def test_jobs_of_components_that_cannot_start_do_not_stop_the_others(tmp_path: Path, what: str) -> None:
    """One after the other waits for Slurm: for watts, or for nodes of p2. A job of the policy fits all the while."""
    slurm = make_slurm()
    world = Components(slurm, tmp_path)
    running(slurm, 300 if what == "watts" else 0, "p2", 4)
    ours = slurm.submit(1, 50.0, watts=200, partition="p1")
    for _ in range(20):
        world.submit(350 if what == "watts" else 250)
        if started := world.round():
            break
        slurm.now_s += TIMEOUT_S / 2.0
    assert started == [ours]
    assert world.released == [], "none is released while the policy may use its watts"


def test_a_job_of_components_is_released_only_while_its_watts_are_kept(tmp_path: Path) -> None:
    """Slurm does not test at the start whether it has the licences of all components."""
    slurm = make_slurm()
    world = Components(slurm, tmp_path)
    ends = running(slurm, 200, "p1")
    first, second = world.submit(200), world.submit(200)
    world.round()
    assert world.plan.reserved_w >= 400.0
    assert world.released == [first], "400 W of 400 W"
    started = world.start(first)
    world.round()
    assert world.released == []
    for job in (ends, *started):
        job.state = "COMPLETED"
    slurm.now_s += 1.0
    world.round()
    assert world.released == [second]


def test_a_component_in_a_partition_that_the_machine_file_lacks_counts(tmp_path: Path) -> None:
    """450 W of 600 W are kept for a released job, of which 250 W are for a component in debug."""
    slurm = make_slurm()
    slurm.partitions["debug"] = [*slurm.partitions["p1"], *slurm.partitions["p2"]]
    world = Components(slurm, tmp_path)
    world.submit(225, ("p1", "debug"))
    world.round()
    world.round()
    assert (world.plan.reserved_w, len(world.released)) == (450.0, 1)
    ours = slurm.submit(1, 50.0, watts=200)
    slurm.now_s += 5.0
    assert world.round() == []
    slurm.now_s += TIMEOUT_S + 1.0  # Slurm did not start it
    assert world.round() == [ours]
    assert world.released == []


def test_a_job_of_components_that_does_not_start_is_tried_again_later_each_time(tmp_path: Path) -> None:
    """It fits, and Slurm does not start it: 30 s, then twice as long each time up to an hour, also over restarts."""
    slurm = make_slurm()
    world = Components(slurm, tmp_path)
    whole, waits, held_s = world.submit(200), list[float](), 0.0
    for _ in range(2000):
        was = world.released
        world.round()
        if was and not world.released:
            held_s = slurm.now_s
        elif held_s and world.released and not was:
            waits.append(slurm.now_s - held_s)
            if waits[-1] >= 3600.0:
                break
            world = Components(slurm, tmp_path)
        slurm.now_s += 1.0 if len(waits) < 3 else 60.0
    assert waits[:3] == [30.0, 60.0, 120.0]
    assert waits[-1] == 3600.0
    refused = world.controller.planner.memory.refused
    assert [key.name for key in refused] == [f"{whole}+0"]


@pytest.mark.parametrize("length_s", [100.0, 1000.0])
def test_turns_become_longer_until_a_job_of_components_starts(tmp_path: Path, length_s: float) -> None:
    """Jobs of the policy of ``length_s`` arrive all the time and take what becomes free: both get on."""
    slurm = make_slurm()
    world = Components(slurm, tmp_path)
    whole, began = "", 0
    for step in range(4000):
        if step == 3:
            whole = world.submit(250)
        while sum(job.state == "PENDING" for job in slurm.jobs.values()) < 4:
            slurm.submit(1, length_s * (0.5 + len(slurm.jobs) * 0.37 % 1.0), watts=200, partition="p1")
        for job in world.round():
            job.state, job.start_s, job.held_nodes = "RUNNING", slurm.now_s, (f"n{1 + began % 4}",)
            began += 1
        for job in slurm.jobs.values():
            if job.state == "RUNNING" and slurm.now_s - job.start_s >= job.runtime_s:
                job.state = "COMPLETED"
        if whole in world.released and world.plan.held_w + 500 <= POOL_W:
            break  # Slurm starts it
        slurm.now_s += 5.0
    assert whole in world.released
    assert began > 3, "the policy's jobs start in the pauses"


def test_a_job_of_components_that_fits_keeps_its_room(tmp_path: Path) -> None:
    """The liveness twin: what Slurm is about to start is not overtaken."""
    slurm = make_slurm()
    controller = make(slurm, tmp_path)
    slurm.submit(1, 50.0, watts=200)
    group = [slurm.submit(1, 50.0, watts=250, partition=name) for name in ("p1", "p2")]
    plan = planned(controller, of_components(slurm.observe(), [group]))
    assert plan.placed == ()
    assert plan.reserved_w == 500.0


def test_the_oldest_job_of_components_gets_what_becomes_free_for_a_while(tmp_path: Path) -> None:
    """The other twin: jobs of the policy do not take every watt before it."""
    slurm = make_slurm()
    world = Components(slurm, tmp_path)
    slurm.submit(1, 50.0, watts=200)
    ends = [running(slurm, 200, "p1"), running(slurm, 200, "p2")]
    world.submit(250)
    assert world.round() == []
    slurm.now_s += 10.0
    ends[0].state = "COMPLETED"
    assert world.round() == []
    slurm.now_s += TIMEOUT_S
    assert len(world.round()) == 1


def test_a_job_without_watts_that_waits_is_no_power(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make(slurm, tmp_path)
    running(slurm, 600)
    bare = slurm.submit(2, 50.0, watts=0, partition="p2", priority=9)
    bare.licences, bare.priority, bare.reason = {}, 9, "None"
    seen = slurm.observe()
    plan = planned(controller, seen)
    assert (over_w(seen, plan), plan.counted_w) == (0.0, IDLE_W + 600.0)
    assert plan.reserved_w == 400.0, "Slurm would start it without asking for watts: nobody else starts on them"


def test_the_meter_of_a_ledger_learns_of_jobs_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watts of a job that waits are drawn by nobody: taken for drawn, they would teach that jobs draw less."""
    slurm = make_slurm()
    cap = Cap.constant(IDLE_W + POOL_W)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=cap, policy="easy+pc-adaptive-1", sources=(Meter(slurm),)
    )
    counted: list[list[int]] = []

    def observe(self: LedgerMeter, now_s: float, seen: Metered) -> None:
        counted.append(list(seen.counted_w))

    monkeypatch.setattr(LedgerMeter, "observe", observe)
    running(slurm, 100)
    group = [slurm.submit(1, 50.0, watts=100, partition=name) for name in ("p1", "p2")]
    power = {
        name: NodePower(150.0, "measured", 0.0, "meter") for name in [*slurm.partitions["p1"], *slurm.partitions["p2"]]
    }
    plan = controller.planner.plan(of_components(slurm.observe(), [group]), power, telemetry_ok=True)
    assert counted == [[100]]
    assert len(plan.holding) == 3
    assert np.isclose(plan.counted_w, IDLE_W + 100.0)
