"""What once made the licences wrong, over the fake Slurm: ranges of nodes, refused pins, meters, requeues, het jobs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.live.drive import ACCEPTS_ALL, lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.live.cluster import ReleaseJob
from wattqueue.live.controller import Controller
from wattqueue.live.planner import Rules
from wattqueue.live.telemetry.base import NodePower, PowerSample, Reading
from wattqueue.live.watts.tracking import trusted
from wattqueue.model.signals import Cap

NODE_W = 200
"""Watts of a node above idle."""


def make_slurm(total_w: int = 1600) -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, total_w)


def over(slurm: FakeSlurm, folder: Path, net_w: float, rules: Rules | None = None, **more: object) -> Controller:
    """A controller under a cap that leaves so many watts above idle."""
    return make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(800.0 + net_w), rules=rules, **more  # type: ignore[arg-type]
    )  # fmt: skip


def run(controller: Controller, slurm: FakeSlurm, rounds: int) -> None:
    for _ in range(rounds):
        controller.round()
        slurm.step()
        assert all(len(j.held_nodes) * NODE_W <= j.licences["watts"] for j in slurm.running() if not j.comment)


def in_range(slurm: FakeSlurm, least: int, most: int, runtime_s: float = 20.0, **more: object) -> FakeJob:
    """A job with a range of nodes, as job_submit.lua leaves it: its watts are those of the greatest number."""
    return slurm.submit(least, runtime_s, watts=most * NODE_W, most_nodes=most, limit_s=60.0, **more)


def test_a_range_gets_what_fits_and_its_licence_counts_just_that(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 600.0)
    job = in_range(slurm, 1, 4)
    run(controller, slurm, 3)
    assert (len(job.held_nodes), job.licences["watts"]) == (3, 600)


def test_a_range_whose_greatest_number_exceeds_the_budget_is_not_refused(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 300.0)
    job = in_range(slurm, 1, 4)
    run(controller, slurm, 30)
    assert (job.state, job.starts) == ("COMPLETED", 1)


def test_a_range_takes_nothing_from_a_job_that_starts_with_it_or_waits_ahead(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 800.0)
    wide = in_range(slurm, 1, 4, partition="p1")
    other = slurm.submit(2, 20.0, watts=400, limit_s=60.0, partition="p2")
    run(controller, slurm, 3)
    assert other.state == wide.state == "RUNNING"
    assert len(wide.held_nodes) == 2
    head = slurm.submit(4, 20.0, watts=800, limit_s=60.0, partition="p2")
    late = in_range(slurm, 1, 4, runtime_s=500.0, partition="p1")
    late.limit_s = 600.0
    run(controller, slurm, 60)
    assert head.starts == 1
    assert late.start_s >= head.start_s, "it would have delayed the head"


def test_a_range_survives_a_start_that_is_taken_back(tmp_path: Path) -> None:
    slurm = make_slurm()
    rules = Rules(mode="control", write_priority=False, start_timeout_s=5.0)
    controller = over(slurm, tmp_path, 1600.0, rules)
    job = in_range(slurm, 1, 4)
    slurm.schedule = lambda: None  # type: ignore[method-assign]
    run(controller, slurm, 8)
    assert (job.nodes, job.most_nodes, job.priority) == (4, 4, 0), "pinned, then taken back"
    blocker = slurm.submit(3, 500.0, watts=600, limit_s=600.0, partition="p1")
    del slurm.schedule
    run(make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0), rules=rules), slurm, 60)
    assert blocker.state == "RUNNING"
    assert job.state == "COMPLETED", "on the one node that is left"


def test_more_nodes_than_counted_are_counted_after_the_start(tmp_path: Path) -> None:
    """The pin was lost on the way (an administrator changed the job): what it was given is read back."""
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 1600.0)
    job = slurm.submit(1, 500.0, watts=NODE_W, limit_s=600.0)
    controller.round()
    job.nodes = job.most_nodes = 3
    slurm.step()
    assert len(job.held_nodes) == 3
    controller.round()
    assert job.licences["watts"] == 3 * NODE_W
    writes = len(slurm.writes)
    controller.round()
    assert len(slurm.writes) == writes


def test_running_jobs_without_watts_are_taken_off_the_pool(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.hold_new = False
    old = slurm.submit(2, 30.0, watts=0, limit_s=600.0)
    old.licences, old.comment = {"matlab": 1}, "before the installation"
    slurm.step()
    slurm.hold_new = True
    controller = over(slurm, tmp_path, 1000.0)
    jobs = [slurm.submit(1, 200.0, watts=NODE_W, limit_s=300.0, partition="p1,p2") for _ in range(6)]
    run(controller, slurm, 5)
    assert slurm.open_w == 600
    assert sum(job.state == "RUNNING" for job in jobs) == 3
    run(controller, slurm, 40)
    assert old.state == "COMPLETED"
    assert slurm.open_w == 1000
    assert sum(job.state == "RUNNING" for job in jobs) == 5


def test_a_job_that_slurm_cannot_place_as_pinned_is_refused_with_a_back_off(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 800.0)
    bad = slurm.submit(1, 20.0, watts=NODE_W, least_nodes=2)
    fine = [slurm.submit(1, 100.0, watts=NODE_W, limit_s=200.0, partition="p1,p2") for _ in range(4)]
    run(controller, slurm, 25)
    releases = [w for w in slurm.writes if isinstance(w, ReleaseJob) and w.target == bad.name]
    assert len(releases) == 1, "tried again after 30 s, not every round"
    assert all(job.state == "RUNNING" for job in fine), "it holds no watts meanwhile"
    run(controller, slurm, 200)
    assert len([w for w in slurm.writes if isinstance(w, ReleaseJob) and w.target == bad.name]) <= 4
    assert controller.last is not None
    assert any(bad.name in text for text in controller.last.problems)
    bad.least_nodes = 0
    run(controller, slurm, 400)
    assert bad.state == "COMPLETED"


def test_a_release_that_never_came_is_no_refusal(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 800.0)
    job = slurm.submit(1, 20.0, watts=NODE_W)
    plan = controller.planner.plan(controller.cluster.observe(), {}, telemetry_ok=True)
    controller.planner.memory.place(plan.placed)
    run(over(slurm, tmp_path, 800.0), slurm, 3)
    assert job.state == "RUNNING", "at once: stored, but killed before the release"


@pytest.mark.parametrize(
    ("reading_w", "counts_w", "label"),
    [(1.0, 300.0, "missing"), (0.2, 300.0, "missing"), (79.0, 300.0, "missing"), (81.0, 100.0, "measured"),
     (100.0, 100.0, "measured"), (250.0, 250.0, "measured")],
)  # fmt: skip
def test_a_reading_below_idle_counts_as_idle_or_as_the_maximum(reading_w: float, counts_w: float, label: str) -> None:
    sample = NodePower(reading_w, "measured", 10.0, "meter")
    counted = trusted(sample, 100.0, 300.0, 0.2)
    assert (counted.power_w, counted.label) == (counts_w, label)
    stale = NodePower(300.0, "stale", 10.0, "meter")
    assert trusted(stale, 100.0, 300.0, 0.2) == stale


class Meter:
    """A source that reads one figure for every node."""

    name = "meter"
    resolution_w = 1e4  # so coarse that a figure which stays the same says nothing

    def __init__(self, slurm: FakeSlurm, watts: float) -> None:
        self.slurm, self.watts = slurm, watts

    def read(self, now_s: float) -> Reading:
        names = [n for part in self.slurm.partitions.values() for n in part]
        return Reading({n: PowerSample(self.watts, now_s, "meter") for n in names}, ())


TRACKED = Rules(
    mode="control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL, warm_up_s=3.0, margin=0.0
)


@pytest.mark.parametrize(("reads_w", "licence_w"), [(1.0, 200), (0.18, 200), (85.0, 40), (110.0, 40), (180.0, 80)])
def test_no_meter_makes_a_licence_fall_below_the_floor(tmp_path: Path, reads_w: float, licence_w: int) -> None:
    """A stuck meter (1 W) and one in kW count as the maximum; one that reads idle leaves a fifth."""
    slurm = make_slurm()
    meter = Meter(slurm, reads_w)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0), rules=TRACKED, sources=(meter,)
    )
    job = slurm.submit(1, 500.0, watts=NODE_W, limit_s=900.0)
    for _ in range(12):
        controller.round()
        slurm.step()
    assert job.licences["watts"] == licence_w
    assert controller.last is not None
    assert bool(controller.last.problems) == (reads_w < 80.0), "and it is told"
    written = len(slurm.writes)
    controller.round()
    assert len(slurm.writes) == written


def requeue_many(slurm: FakeSlurm, controller: Controller, wanted: int, seed: int, limit_w: int) -> int:
    """Requeue running jobs at random until there were so many; returns the most that jobs could draw."""
    random_, done, peak = random.Random(seed), 0, 0
    for _ in range(2 * limit_w // NODE_W):
        nodes = random_.choice([1, 1, 2])
        slurm.submit(nodes, 1e6, watts=nodes * NODE_W, limit_s=2e6, partition=random_.choice(["p1", "p2"]))
    while done < wanted:
        for job in slurm.running():
            if random_.random() < 0.5 and done < wanted:
                slurm.requeue(job)
                done += 1
        if random_.random() < 0.3:  # between two rounds, and within the delay
            slurm.step(random_.uniform(0.0, slurm.requeue_delay_s - 1.0))
            peak = max(peak, slurm.drawn_w)
        controller.round()
        slurm.step(random_.choice([1.0, 6.0]))
        peak = max(peak, slurm.drawn_w)
    for _ in range(3):
        controller.round()
        slurm.step(6.0)
        peak = max(peak, slurm.drawn_w)
    assert all(not job.freed for job in slurm.running())
    assert peak <= limit_w
    return peak


@pytest.mark.parametrize("requeues", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_requeues_on_a_slurm_that_frees_their_licences(tmp_path: Path, requeues: int) -> None:
    half = 4 if requeues < 1000 else 40
    names = {part: [f"{part}n{i}" for i in range(half)] for part in ("p1", "p2")}
    slurm, limit_w = FakeSlurm(names, 2 * half * NODE_W), half * NODE_W
    slurm.frees_requeued = True
    cap = Cap.constant(2 * half * 100.0 + limit_w)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=cap, machine=lab_machine(2 * half), state="sqlite:///:memory:"
    )
    controller.audit.head = None
    assert requeue_many(slurm, controller, requeues, 7, limit_w) == limit_w, "the pool was in full use"
    written = len(slurm.writes)
    controller.round()
    controller.round()
    assert len(slurm.writes) == written


def test_a_requeued_job_that_started_before_it_was_seen_is_counted_at_once(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.frees_requeued, slurm.requeue_delay_s = True, 0.0
    controller = over(slurm, tmp_path, 800.0)
    job = slurm.submit(4, 1e5, watts=800, limit_s=2e5)
    run(controller, slurm, 3)
    slurm.requeue(job)
    slurm.step()
    assert (job.state, slurm.used_w) == ("RUNNING", 0), "Slurm counts nothing for it"
    controller.round()
    assert slurm.used_w == 800, "also where one more watt than the pool would be refused"
    written = len(slurm.writes)
    controller.round()
    assert len(slurm.writes) == written


def test_a_requeue_that_keeps_the_submit_time_is_seen_too(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.frees_requeued = True
    controller = over(slurm, tmp_path, 400.0)
    job = slurm.submit(1, 1e5, watts=NODE_W, limit_s=2e5)
    for _ in range(2):
        run(controller, slurm, 4)
        assert (job.state, job.freed) == ("RUNNING", False)
        submitted = job.submit_s
        slurm.requeue(job)
        job.submit_s, job.restarts = submitted, 0
        run(controller, slurm, 12)
        assert (job.state, job.freed) == ("RUNNING", False)


def test_watts_that_slurm_returned_twice_are_withheld_until_it_counts_right(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = over(slurm, tmp_path, 600.0)
    jobs = [slurm.submit(1, 100.0, watts=NODE_W, limit_s=200.0) for _ in range(2)]
    run(controller, slurm, 3)
    slurm.returned_twice_w = 2 * NODE_W
    report = controller.round()
    assert report is not None
    assert slurm.open_w == 600 - 2 * NODE_W
    loose = slurm.submit(2, 50.0, watts=2 * NODE_W)
    slurm.release(loose)
    slurm.schedule()
    assert (loose.state, loose.reason) == ("PENDING", "Licenses"), "of 600 W two jobs hold 400 W"
    run(controller, slurm, 100)
    assert all(job.state == "COMPLETED" for job in jobs)
    slurm.returned_twice_w = 0
    run(controller, slurm, 3)
    assert slurm.open_w == 600


EVENTS = st.lists(
    st.sampled_from(
        ["submit", "range", "user-held", "user release", "admin release", "requeue", "comment", "bad", "unbad", "step",
         "long step", "bare"]
    ),
    min_size=5,
    max_size=25,
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, seed=st.integers(0, 10**6), frees=st.booleans())
def test_a_second_reconcile_writes_nothing_and_the_pool_holds(
    tmp_path_factory: pytest.TempPathFactory, events: list[str], seed: int, *, frees: bool
) -> None:
    """Whatever happened: once a round has written, the next one over the same Slurm has nothing to write."""
    slurm, random_ = make_slurm(), random.Random(seed)
    slurm.frees_requeued = frees
    controller = over(slurm, tmp_path_factory.mktemp("state"), 1000.0)

    def some(state: str) -> list[FakeJob]:
        return [j for j in slurm.jobs.values() if j.state == state]

    for event in events:
        waiting, running = some("PENDING"), some("RUNNING")
        if event == "submit":
            nodes = random_.choice([1, 2, 3])
            slurm.submit(nodes, random_.uniform(5, 50), watts=nodes * NODE_W, limit_s=60.0, partition="p1,p2")
        elif event == "range":
            in_range(slurm, 1, random_.choice([2, 4]))
        elif event == "user-held":
            slurm.submit(1, 20.0, watts=NODE_W, mark="wattqueue:user-held")
        elif event == "bare":
            slurm.submit(1, 20.0, watts=NODE_W).licences = {"matlab": 1}
        elif event == "bad":
            slurm.submit(1, 20.0, watts=NODE_W, least_nodes=2)
        elif event in ("user release", "admin release") and waiting:
            slurm.release(random_.choice(waiting))
        elif event == "requeue" and running:
            slurm.requeue(random_.choice(running))
        elif event == "comment" and waiting:
            random_.choice(waiting).mark = "the site's own"
        elif event == "unbad" and waiting:
            random_.choice(waiting).least_nodes = 0
        elif event.endswith("step"):
            slurm.step(1.0 if event == "step" else 31.0)
        controller.round()
        written = len(slurm.writes)
        controller.round()
        assert len(slurm.writes) == written, slurm.writes[written:]
        assert slurm.drawn_w <= 1000
