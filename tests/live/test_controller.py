"""The controller over the fake Slurm: the budget held, every job to its end, killed at every write, deaf and blind."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import ACCEPTS_ALL, lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.profiles import sampled
from wattqueue.live.cluster import ChangeJob, HoldJob, JobFields, ReleaseJob, Write
from wattqueue.live.controller import Controller
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.replay import replay
from wattqueue.live.state.audit import rows_of, verify
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.signals import Cap

CAP_W = 8 * 100.0 + 1000.0
"""Idle watts of eight nodes, and five jobs of a node at 200 W above idle."""


def make_slurm(total_w: int = 1600) -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, total_w)


def fill(slurm: FakeSlurm, count: int, seed: int = 1, longest_s: float = 300.0) -> list[FakeJob]:
    random_ = random.Random(seed)
    jobs = []
    for _ in range(count):
        nodes = random_.choice([1, 1, 1, 2, 3])
        limit_s = random_.choice([60.0, 120.0, 300.0])
        partition = random_.choice(["p1", "p2", "p1,p2"])
        runtime_s = random_.uniform(5.0, min(limit_s, longest_s))
        jobs.append(slurm.submit(nodes, runtime_s, watts=200 * nodes, limit_s=limit_s, partition=partition))
    return jobs


def run(controller: Controller, slurm: FakeSlurm, rounds: int) -> None:
    for _ in range(rounds):
        controller.round()
        slurm.step()


def ended(jobs: Sequence[FakeJob]) -> bool:
    return all(job.state == "COMPLETED" for job in jobs)


def run_to_the_end(controller: Controller, slurm: FakeSlurm, jobs: Sequence[FakeJob], most: int = 3000) -> None:
    for _ in range(most):
        controller.round()
        slurm.step()
        if ended(jobs):
            return
    raise AssertionError(
        f"not ended: {[(j.id, j.state, j.reason, j.priority) for j in jobs if j.state != 'COMPLETED']}"
    )


def run_to_starts(controller: Controller, slurm: FakeSlurm, jobs: Sequence[FakeJob], most: int = 3000) -> None:
    """Until all have started, for tests of their order."""
    for _ in range(most):
        controller.round()
        slurm.step()
        if all(job.starts for job in jobs):
            return
    raise AssertionError(f"not started: {[(j.id, j.state, j.reason, j.priority) for j in jobs if not j.starts]}")


def test_forty_jobs_under_a_cap(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    jobs = fill(slurm, 40)
    run_to_the_end(controller, slurm, jobs)
    assert slurm.peak_w <= 1000
    assert slurm.open_w == 1000
    assert [job.starts for job in jobs] == [1] * 40
    assert verify(controller.audit.engine, head=tmp_path / "audit.head").broken == 0


def test_nothing_to_change_nothing_written(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    for _ in range(20):
        slurm.submit(1, 5000.0, watts=200, limit_s=9000.0)
    run(controller, slurm, 5)
    written = len(slurm.writes)
    before = len(list(rows_of(controller.audit.engine)))
    run(controller, slurm, 60)
    assert len(slurm.writes) == written
    assert len(list(rows_of(controller.audit.engine))) == before


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_observe_writes_nothing_and_advise_only_comments(tmp_path: Path, mode: str) -> None:
    slurm = make_slurm()
    slurm.hold_new = False
    rules = Rules(mode=mode)  # type: ignore[arg-type]
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), rules=rules)
    jobs = fill(slurm, 10)
    users_own = slurm.submit(1, 10.0, watts=200, comment="mine")
    report = controller.round()
    assert report is not None
    assert any(w.kind == "pool" for w in report.would)
    assert len(report.plan.starts) > 0
    if mode == "observe":
        assert slurm.writes == []
    else:
        fields = [w.fields if isinstance(w, ChangeJob) else None for w in slurm.writes]
        assert fields
        assert all(one == JobFields(comment=one.comment) for one in fields if one is not None)
        assert None not in fields
        count = len(slurm.writes)
        controller.round()
        assert len(slurm.writes) == count, "said once"
    assert users_own.comment == "mine"
    run(controller, slurm, 800)
    assert ended(jobs)


def test_the_order_is_that_of_the_policy(tmp_path: Path) -> None:
    """A wide job at the head holds back what would delay it, and lets by what would not (EASY)."""
    slurm = make_slurm()
    cap = Cap.constant(8 * 100.0 + 800.0)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap)
    first = slurm.submit(3, 100.0, watts=600, limit_s=120.0, partition="p1")
    wide = slurm.submit(4, 50.0, watts=800, limit_s=60.0, partition="p2")
    long = slurm.submit(1, 400.0, watts=200, limit_s=600.0, partition="p1")
    short = slurm.submit(1, 50.0, watts=200, limit_s=60.0, partition="p1")
    run_to_starts(controller, slurm, [first, wide, long, short])
    assert first.start_s == short.start_s < wide.start_s < long.start_s


@pytest.mark.parametrize("short_of", ["watts", "nodes"])
@pytest.mark.parametrize("before", ["nodes", "jobs", "pool"])
@pytest.mark.parametrize("event", ["ends", "starts"])
def test_nobody_overtakes_because_a_job_came_between_two_lists(
    tmp_path: Path, event: str, before: str, short_of: str
) -> None:
    """The lists of one round are read one after the other; a job that ends or starts meanwhile belongs to nobody."""
    slurm = make_slurm()
    cap = Cap.constant(8 * 100.0 + (800.0 if short_of == "watts" else 1600.0))
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap)
    first = slurm.submit(3, 100.0, watts=600, limit_s=3000.0, partition="p1")
    controller.round()  # released, not started yet
    if event == "ends":
        slurm.step()
        assert first.state == "RUNNING"
    wide = slurm.submit(4, 50.0, watts=800, limit_s=60.0, partition="p2" if short_of == "watts" else "p1")
    long = slurm.submit(1, 400.0, watts=200, limit_s=6000.0, partition="p1")
    waited: list[str] = []

    def meanwhile(what: str | Write) -> None:
        if what == before and not waited:
            waited.append(before)
            slurm.step(100.0 if event == "ends" else 0.0)

    slurm.fault = meanwhile
    run_to_starts(controller, slurm, [first, wide, long])
    assert waited
    assert wide.start_s < long.start_s


def test_a_node_that_is_busy_without_a_job_counts_as_free_once_and_as_taken_from_then_on(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    hidden = slurm.submit(4, 1000.0, watts=0, partition="p1", priority=1)
    run(controller, slurm, 3)
    assert hidden.state == "RUNNING"
    slurm.listed = lambda: [j for j in slurm.jobs.values() if j is not hidden]  # type: ignore[method-assign]
    used = [len(report.plan.view.unusable) for report in (controller.round() for _ in range(3)) if report]
    assert used == [0, 4, 4]


def test_cap_lowered_and_raised_midway(tmp_path: Path) -> None:
    slurm = make_slurm()
    start = slurm.now_s
    times = np.array([-np.inf, start + 100.0, start + 200.0])
    cap = Cap(times, np.array([CAP_W, 800.0 + 400.0, 800.0 + 1600.0]))
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap)
    jobs = [slurm.submit(1, 40.0, watts=200, limit_s=60.0, partition="p1,p2") for _ in range(40)]
    used: list[tuple[float, int, int]] = []
    for _ in range(600):
        controller.round()
        slurm.step()
        used.append((slurm.now_s - start, slurm.used_w, slurm.open_w))
        if ended(jobs):
            break
    assert ended(jobs)
    assert max(u for t, u, _ in used if t < 100) == 1000
    assert {o for t, _, o in used if 102 < t < 200} == {400}
    assert max(u for t, u, _ in used if 145 < t < 200) == 400, "running jobs are not killed, none starts above"
    assert max(u for t, u, _ in used if t > 202) == 1600
    assert slurm.reserved_w == 0, "the whole pool is open"


class Killed(BaseException):
    """The controller is gone at this very point: nothing after it runs."""


def killed_at(point: int, tmp_path: Path) -> tuple[int, FakeSlurm, list[FakeJob]]:
    """Run a workload; at write boundary ``point`` the controller dies, a new one takes over."""
    slurm = make_slurm()
    passed = 0

    def boundary(_: str) -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            raise Killed

    since_s = slurm.now_s

    def fresh() -> Controller:
        cap = Cap(np.array([-np.inf, since_s + 10.0]), np.array([CAP_W, 800.0 + 600.0]))
        return make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap, boundary=boundary)

    jobs = fill(slurm, 10, seed=3, longest_s=8.0)
    controller = fresh()
    for _ in range(1500):
        try:
            controller.round()
        except Killed:
            slurm.step()
            controller = fresh()
        slurm.step()
        if ended(jobs):
            break
    assert verify(controller.audit.engine, head=tmp_path / "audit.head").broken == 0
    controller.audit.engine.dispose()
    return passed, slurm, jobs


@pytest.mark.compiled
@pytest.mark.parametrize("first", sampled(range(1, 6), {3}))
def test_killed_after_every_write_boundary_it_converges(tmp_path: Path, first: int) -> None:
    (tmp_path / "0").mkdir()
    boundaries, _, _ = killed_at(0, tmp_path / "0")
    assert boundaries > 50, "the workload crosses enough boundaries"
    for point in range(first, boundaries + 1, 5):
        folder = tmp_path / str(point)
        folder.mkdir()
        _, slurm, jobs = killed_at(point, folder)
        assert ended(jobs), f"boundary {point}: {[(j.id, j.state, j.priority) for j in jobs]}"
        assert [j.starts for j in jobs] == [1] * len(jobs), f"boundary {point}: a job ran twice"
        assert slurm.peak_w <= 1000


@pytest.mark.parametrize("fault", ["fail", "lost", "ignored"])
@pytest.mark.parametrize("seed", sampled(range(3), {0}))
def test_a_cluster_that_fails_lies_or_loses_its_answers(tmp_path: Path, fault: str, seed: int) -> None:
    slurm, random_ = make_slurm(), random.Random(seed)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    jobs = fill(slurm, 12, seed)
    slurm.fault = lambda _: fault if random_.random() < 0.15 else None
    for _ in range(400):
        controller.round()
        slurm.step()
    slurm.fault = lambda _: None
    run_to_the_end(controller, slurm, jobs)
    assert slurm.peak_w <= 1600
    assert [j.starts for j in jobs] == [1] * len(jobs)


def test_ten_thousand_faults_and_no_crash(tmp_path: Path) -> None:
    slurm, random_, faults = make_slurm(), random.Random(5), 0

    def fault(_: str | Write) -> str | None:
        nonlocal faults
        if random_.random() < 0.7:
            faults += 1
            return random_.choice(["fail", "lost", "ignored"])
        return None

    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    jobs = fill(slurm, 12)
    slurm.fault = fault
    while faults < 10_000:
        controller.round()
        slurm.step()
    slurm.fault = lambda _: None
    run_to_the_end(controller, slurm, jobs)
    assert controller.wait_s(1.0) == 1.0


def test_a_slurm_that_does_not_answer_is_asked_less_and_less_often(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    slurm.fault = lambda _: "fail"
    waits = []
    for _ in range(8):
        assert controller.round() is None
        waits.append(controller.wait_s(1.0))
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    assert slurm.writes == []


def test_a_start_that_slurm_does_not_carry_out_is_taken_back_and_tried_later(tmp_path: Path) -> None:
    slurm = make_slurm()
    rules = Rules(mode="control", write_priority=False, start_timeout_s=10.0)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), rules=rules)
    stuck = slurm.submit(1, 10.0, watts=200, partition="p1", begin_s=0.0)
    slurm.schedule = lambda: None  # type: ignore[method-assign]
    run(controller, slurm, 3)
    assert stuck.priority > 0
    run(controller, slurm, 10)
    assert stuck.priority == 0
    assert controller.last is not None
    refused = controller.planner.memory.refused
    assert [r.times for r in refused.values()] == [1]
    del slurm.schedule
    run(controller, slurm, 60)
    assert stuck.state == "COMPLETED"
    assert stuck.starts == 1


def test_a_job_that_slurm_will_never_update_again_is_told_and_holds_nobody_up(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    lost, other = slurm.submit(5, 10.0, watts=1000, partition="p1"), slurm.submit(1, 10.0, watts=200)
    lost.nodes = 4
    slurm.fault = lambda what: "fail" if isinstance(what, ReleaseJob) and what.target == lost.name else None
    run(controller, slurm, 40)
    assert other.state == "COMPLETED"
    run(controller, slurm, 100)
    assert controller.last is not None
    (told,) = controller.last.problems
    assert lost.name in told.split()
    assert "release 1: refused" in told, "with what the cluster answered"
    slurm.fault = lambda _: None
    run_to_the_end(controller, slurm, [lost])
    run(controller, slurm, 2)
    assert controller.last.problems == [], "and it is forgotten when it is gone"


@pytest.mark.parametrize("fault", ["silent", "lost"])
def test_a_cluster_that_was_slow_for_long_starts_its_jobs_soon_afterwards(tmp_path: Path, fault: str) -> None:
    """An answer that does not come says nothing about the job: its back-off does not double."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1600.0))
    job = slurm.submit(1, 50.0, watts=200)
    slurm.start_delay_s = 1e9  # a slow one starts nothing either
    slurm.fault = lambda what: fault if isinstance(what, ReleaseJob) else None
    run(controller, slurm, 600)
    slurm.start_delay_s, slurm.fault = 0.0, lambda _: None
    run(controller, slurm, 40)
    assert job.state == "RUNNING"


def test_a_cap_file_is_read_again_when_it_changes_and_the_last_good_one_stays(tmp_path: Path) -> None:
    slurm, file = make_slurm(), tmp_path / "cap.csv"
    file.write_text("time_s,cap_w\n0,1800\n")
    caps = CapFile(str(file), lab_machine())
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=caps)
    controller.round()
    assert slurm.open_w == 1000
    for number, (text, open_w, problem) in enumerate(
        (
            ("time_s,cap_w\n0,1200\n", 400, False),
            ("time_s,cap_w\n0,lots\n", 400, True),
            ("time_s,cap_w\n0,100\n", 0, True),  # below what the idle machine draws: an emergency closes the pool
            ("time_s,cap_w\n0,2400\n", 1600, False),
        )
    ):
        file.write_text(text)
        os.utime(file, ns=(0, number))
        report = controller.round()
        assert slurm.open_w == open_w
        assert report is not None
        assert bool(report.problems) == problem
    file.unlink()
    report = controller.round()
    assert slurm.open_w == 1600
    assert report is not None
    assert report.problems == [caps.problem] != [""]
    notes = [row["why"] for row in rows_of(controller.audit.engine) if row["event"] == "note"]
    assert [why.startswith("read again") for why in notes] == [True, True, True], (
        "each change that took is in the audit log"
    )


def test_a_job_under_way_counts_until_it_runs(tmp_path: Path) -> None:
    """Two jobs that do not fit together: the second is not released while the first has not started."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 400.0))
    a = slurm.submit(2, 10.0, watts=400)
    b = slurm.submit(2, 10.0, watts=400, partition="p2")
    schedule = slurm.schedule
    slurm.schedule = lambda: None  # type: ignore[method-assign]
    run(controller, slurm, 4)
    assert (a.priority > 0, b.priority) == (True, 0)
    slurm.schedule = schedule  # type: ignore[method-assign]
    run_to_the_end(controller, slurm, [a, b])
    assert slurm.peak_w == 400


def test_what_others_released_is_held_again(tmp_path: Path) -> None:
    """While the controller was away jobs were released: they are held at once, and the policy's in the same round."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    jobs = fill(slurm, 12)
    for job in jobs:
        slurm.release(job)
    before = len(slurm.writes)
    controller.round()
    written = [(w.kind, w.target) for w in slurm.writes[before:] if isinstance(w, HoldJob | ReleaseJob)]
    assert written[: len(jobs)] == [("hold", j.name) for j in jobs]
    started = [name for verb, name in written[len(jobs) :] if verb == "release"]
    assert started == [j.name for j in jobs if j.priority > 0]
    assert started
    run_to_the_end(controller, slurm, jobs)
    assert slurm.peak_w <= 1000


def test_a_job_that_its_user_holds_or_that_waits_for_another_is_left(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    own = slurm.submit(1, 10.0, watts=200, mark="wattqueue:user-held")
    later = slurm.submit(1, 10.0, watts=200, begin_s=slurm.now_s + 50.0)
    after = slurm.submit(1, 10.0, watts=200, dependency="afterok:1(unfulfilled)")
    foreign = slurm.submit(1, 10.0, watts=200, mark="someone else's")
    run(controller, slurm, 20)
    assert [j.state for j in (own, later, after)] == ["PENDING"] * 3
    assert foreign.state == "COMPLETED", "the AdminComment is the site's: watts and the hold make a job ours"
    run(controller, slurm, 80)
    assert [j.state for j in (own, later, after)] == ["PENDING", "COMPLETED", "PENDING"]
    slurm.release(own)
    after.dependency = "(null)"
    run(controller, slurm, 40)
    assert [j.state for j in (own, later, after)] == ["COMPLETED", "COMPLETED", "COMPLETED"]


def test_marks_that_others_change_or_remove_change_nothing(tmp_path: Path) -> None:
    """The AdminComment is read once: what it said about a job stands in the controller's own state from then on."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0))  # nothing fits
    own = slurm.submit(1, 10.0, watts=200, mark="ticket 5 wattqueue:user-held")
    plain = slurm.submit(1, 10.0, watts=200)
    run(controller, slurm, 2)
    own.mark = plain.mark = "audited by the site"
    run(controller, slurm, 2)
    again = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    run(again, slurm, 20)
    assert (own.state, plain.state) == ("PENDING", "COMPLETED")
    slurm.release(own)
    run(again, slurm, 20)
    assert own.state == "COMPLETED"
    slurm.step(10.0)
    again.round()
    assert again.planner.memory.marks == {}, "and is forgotten with the job"


def test_a_requeued_job_keeps_its_place(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 200.0))
    a, b, c = (slurm.submit(1, 30.0, watts=200) for _ in range(3))
    run(controller, slurm, 5)
    slurm.requeue_and_hold(a)
    run_to_the_end(controller, slurm, [a, b, c])
    assert a.start_s < b.start_s < c.start_s


def test_ids_given_out_again_are_other_jobs(tmp_path: Path) -> None:
    """slurmctld lost its last seconds: the id of a job under way now belongs to another job."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    schedule = slurm.schedule
    slurm.schedule = lambda: None  # type: ignore[method-assign]
    slurm.submit(1, 10.0, watts=200)
    run(controller, slurm, 2)
    slurm.jobs.clear()
    slurm.last_id = 0
    slurm.step(3)
    other = slurm.submit(4, 10.0, watts=800, partition="p2")
    slurm.schedule = schedule  # type: ignore[method-assign]
    run_to_the_end(controller, slurm, [other])
    assert other.held_nodes == ("m1", "m2", "m3", "m4")
    controller.round()
    assert controller.planner.memory.placed.keys() <= controller.cluster.observe().by_key.keys()


class Meter:
    """A source whose watts the test sets; None: it has nothing to say."""

    name = "meter"
    resolution_w = 1e4  # so coarse that a figure which stays the same says nothing

    def __init__(self, slurm: FakeSlurm) -> None:
        self.slurm = slurm
        self.busy_w: float | None = 180.0

    def read(self, now_s: float) -> Reading:
        if self.busy_w is None:
            return Reading({}, ("gone",))
        busy = {n for j in self.slurm.running() for n in j.held_nodes}
        names = [n for part in self.slurm.partitions.values() for n in part]
        return Reading({n: PowerSample(self.busy_w if n in busy else 100.0, now_s, "meter") for n in names}, ())


TRACKED = Rules(
    mode="control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL, warm_up_s=5.0, margin=0.0
)


def test_licences_follow_what_is_measured_and_more_jobs_run(tmp_path: Path) -> None:
    slurm = make_slurm()
    meter = Meter(slurm)
    cap = Cap.constant(800.0 + 400.0)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap, rules=TRACKED, sources=(meter,))
    jobs = [slurm.submit(1, 500.0, watts=200, limit_s=900.0, partition="p1,p2") for _ in range(6)]
    run(controller, slurm, 3)
    assert sum(j.state == "RUNNING" for j in jobs) == 2
    run(controller, slurm, 30)
    running = [j for j in jobs if j.state == "RUNNING"]
    assert sum(j.licences["watts"] == 80 for j in running) >= 2, "180 W measured, 100 W of them idle"
    assert len(running) > 2
    assert slurm.peak_w <= 400
    meter.busy_w = 220.0
    run(controller, slurm, 10)
    assert slurm.used_w <= 400, "raised only into room that nobody holds"


def test_without_telemetry_it_stops_raising_and_admits_by_maxima_within_two_periods(tmp_path: Path) -> None:
    slurm = make_slurm()
    meter = Meter(slurm)
    cap = Cap.constant(800.0 + 600.0)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap, rules=TRACKED, sources=(meter,))
    jobs = [slurm.submit(1, 60.0, watts=200, limit_s=90.0, partition="p1,p2") for _ in range(12)]
    run(controller, slurm, 25)
    assert sum(j.state == "RUNNING" for j in jobs) > 3
    meter.busy_w = None
    run(controller, slurm, 4)  # stale after three periods without a sample
    raised = [w for w in slurm.writes if isinstance(w, ChangeJob) and w.fields.watts is not None]
    run(controller, slurm, 2)
    report = controller.last
    assert report is not None
    assert not report.plan.telemetry_ok
    counted = report.plan.jobs.net_w[report.plan.holding].sum()
    assert counted == 200 * len(report.plan.holding), "each counts as the most it can draw"
    starts = [j for j in jobs if j.state == "RUNNING"]
    run(controller, slurm, 3)
    assert [w for w in slurm.writes if isinstance(w, ChangeJob) and w.fields.watts is not None] == raised
    assert {j.id for j in jobs if j.state == "RUNNING"} <= {j.id for j in starts}
    run(controller, slurm, 60)
    assert max(len(slurm.running()), 0) <= 3
    run_to_the_end(controller, slurm, jobs)


def test_recorded_views_are_decided_again_byte_for_byte(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), machine=lab_machine(8), record=True
    )
    jobs = fill(slurm, 20)
    run_to_the_end(controller, slurm, jobs)
    lines = list(replay(tmp_path / "views.jsonl"))
    assert len(lines) > 20
    assert all(recorded == again for _, recorded, again in lines)
    assert sum('"StartJob"' in recorded for _, recorded, _ in lines) > 5


def test_a_job_that_slurm_does_not_start_is_held_again_and_says_so(tmp_path: Path) -> None:
    """Its watts serve others meanwhile, and it is tried again later."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    job = slurm.submit(1, 100.0, watts=200, limit_s=600.0, partition="p1")
    controller.round()
    assert job.priority > 0
    slurm.now_s += 1_800.0
    controller.round()
    assert job.priority == 0
    (found,) = controller.planner.memory.refused.values()
    assert found.reason.startswith("not started in time: ")
    assert (found.times, found.until_s) == (1, slurm.now_s + 30.0)
