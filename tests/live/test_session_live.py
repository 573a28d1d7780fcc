"""The session live: parts in plain Python act on a fake Slurm as they do in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.cluster import PowerNode, ReleaseJob, RequeueJob, SetPool
from wattqueue.live.controller import Controller
from wattqueue.live.planner import Rules
from wattqueue.live.requests import MeasuredJob
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, StopNode, WakeNode
from wattqueue.parts.contracts import Start
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import simulate

POWERS = Rules(mode="control", write_priority=False, power_nodes=True)
NODES = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}


def policy_of(*controls: Any, **parts: Any) -> Policy:
    return replace(load_policy("easy"), controls=controls, **parts)


class Live:
    """A fake Slurm of four and four nodes with a controller, round by round."""

    def __init__(self, folder: Path, policy: Policy, cap_w: float = 2400.0, machine: Machine | None = None) -> None:
        self.slurm = FakeSlurm(NODES, 1600)
        self.controller: Controller = make_controller(
            self.slurm, folder, lambda: self.slurm.now_s, cap=Cap.constant(cap_w), rules=POWERS, policy=policy,
            machine=machine,
        )  # fmt: skip

    def rounds(self, count: int, step_s: float = 1.0) -> None:
        for _ in range(count):
            assert self.controller.round() is not None
            self.slurm.step(step_s)

    def written(self, kind: type) -> list[Any]:
        return [write for write in self.slurm.writes if isinstance(write, kind)]


class Control:
    """Does what ``plan`` says for each call, and keeps what it saw."""

    events: frozenset[str] = frozenset()

    def __init__(self, *plan: Any, period_s: float = 1.0, events: frozenset[str] = frozenset()) -> None:
        self.plan, self.period_s, self.events = plan, period_s, events
        self.calls: list[float] = []

    def act(self, view: View) -> Sequence[Action]:
        self.calls.append(view.now_s)
        done = self.plan[len(self.calls) - 1] if len(self.calls) <= len(self.plan) else ()
        return done(view) if callable(done) else list(done)


class ShortestFirst:
    """A pass in plain Python: the shortest job that fits, partition by partition."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, found = view.free.copy(), []
        queue = sorted(view.queue.tolist(), key=lambda e: (view.jobs.walltime_s[view.entry_job(e)], e))
        for entry in queue:
            p, need = view.entry_partition(entry), int(view.jobs.nodes[view.entry_job(entry)])
            if need <= free[p]:
                free[p] -= need
                found.append(Start(entry, view.entry_options(entry)[0]))
        return found


def test_a_pass_in_plain_python_starts_the_same_jobs_as_in_the_simulator(tmp_path: Path) -> None:
    sizes, limits, seconds = [4, 2, 3, 1, 2, 4], [400, 300, 100, 200, 250, 50], [40.0, 30.0, 10.0, 20.0, 25.0, 5.0]
    jobs = Jobs.build(np.zeros(6), sizes, seconds, walltime_s=[60.0 * limit for limit in limits], partition=["p1"] * 6)
    run = simulate(jobs, lab_machine(), policy_of(backfill=ShortestFirst()))
    live = Live(tmp_path, policy_of(backfill=ShortestFirst()))
    there = [
        live.slurm.submit(n, s, watts=200 * n, limit_s=60.0 * m, partition="p1")
        for n, s, m in zip(sizes, seconds, limits, strict=True)
    ]
    live.rounds(150)
    assert [job.state for job in there] == ["COMPLETED"] * 6
    simulated = sorted(range(6), key=lambda k: (run.schedule.start_s[k], k))
    assert sorted(range(6), key=lambda k: (there[k].start_s, k)) == simulated


class Remembers(Control):
    """Requeues the job that it saw running first, ten seconds later: by name."""

    def __init__(self) -> None:
        super().__init__()
        self.job, self.since_s = "", np.inf
        self.rows: list[int] = []

    def act(self, view: View) -> Sequence[Action]:
        if not self.job and len(view.running):
            self.job, self.since_s = view.job_ids(view.running)[0], view.now_s
        self.rows.append(view.job_row(self.job))
        late = view.now_s >= self.since_s + 10.0
        self.since_s = np.inf if late else self.since_s
        return [Requeue(self.job)] if late else []


def test_a_control_that_remembers_a_job_means_the_same_one_in_both_worlds(tmp_path: Path) -> None:
    """Live, the row of the remembered job changes while others come and go; the job does not."""
    simulated, live_one = Remembers(), Remembers()
    jobs = Jobs.build([0.0, 3.0, 6.0], [1, 1, 1], [30.0, 30.0, 30.0])
    run = simulate(jobs, lab_machine(), policy_of(simulated))
    assert (simulated.job, run.schedule.start_s.tolist()) == ("1", [11.0, 3.0, 6.0])
    live = Live(tmp_path, policy_of(live_one))
    there = []
    for _ in range(3):
        there.append(live.slurm.submit(1, 30.0, watts=200))
        live.rounds(3)
    live.rounds(80)
    assert len(set(live_one.rows) - {-1}) > 1, "the row changes"
    assert live_one.job == "1"
    assert [(job.state, job.restarts) for job in there] == [("COMPLETED", 1), ("COMPLETED", 0), ("COMPLETED", 0)]


def test_a_requeue_releases_nothing_before_it_is_observed_and_causes_no_back_off(tmp_path: Path) -> None:
    """All nodes of p1 are held, more jobs wait, and all running ones are requeued in one round."""

    def all_running(view: View) -> list[Action]:
        return [Requeue(job) for job in view.job_ids(view.running)]

    control = Control((), (), (), all_running)
    live = Live(tmp_path, policy_of(control), cap_w=1600.0)
    first = [live.slurm.submit(2, 20.0, watts=400) for _ in range(2)]
    second = [live.slurm.submit(2, 5.0, watts=400) for _ in range(2)]
    live.rounds(3)
    assert [job.state for job in (*first, *second)] == ["RUNNING", "RUNNING", "PENDING", "PENDING"]
    before = len(live.slurm.writes)
    live.rounds(1)
    kinds = [type(write) for write in live.slurm.writes[before:]]
    assert kinds.count(RequeueJob) == 2
    assert ReleaseJob not in kinds
    live.rounds(60)
    assert [job.restarts for job in first] == [1, 1]
    assert live.controller.planner.memory.refused == {}
    assert live.slurm.peak_w <= 800
    assert all(job.state == "COMPLETED" for job in second)


def costly() -> Machine:
    """The lab's machine, whose nodes draw 250 W while they boot and 5 W when they are off."""
    machine = lab_machine()
    parts = tuple(replace(p, boot_w=250.0, boot_s=10.0, off_w=5.0) for p in machine.partitions)
    return replace(machine, partitions=parts)


def test_watts_of_a_boot_leave_the_pool_in_the_round_that_wakes_the_node(tmp_path: Path) -> None:
    stop, wake = [StopNode(7), StopNode(6)], [WakeNode(7), WakeNode(6)]
    control = Control(stop, *[()] * 9, wake)
    live = Live(tmp_path, policy_of(control), cap_w=800.0 + 200.0, machine=costly())
    live.slurm.boot_s = 3.0
    live.rounds(9)
    assert {state for state, _ in live.slurm.power.values()} == {"off"}
    assert live.controller.last is not None
    assert live.controller.last.plan.pool_w == 1000 - 610  # six nodes idle, two off
    live.slurm.submit(2, 60.0, watts=400)  # needs 400 W, only 390 are left
    live.rounds(1)
    live.slurm.boot_s = 20.0  # Slurm shows nothing of it for a while
    before = len(live.slurm.writes)
    live.rounds(1)
    report = live.controller.last
    assert [refusal.reason for refusal in report.plan.refusals] == ["not enough power below the cap"]
    assert report.plan.pool_w == 1000 - 610 - 245  # one boots: 250 W instead of 5
    written = live.slurm.writes[before:]
    assert [type(write) for write in written] == [SetPool, PowerNode]
    live.rounds(3)
    assert live.controller.last.plan.pool_w == 1000 - 610 - 245, "it still counts"


def test_a_node_that_is_told_to_stop_takes_no_job_in_that_round(tmp_path: Path) -> None:
    live = Live(tmp_path, policy_of(Control([StopNode(u) for u in range(4)])))
    job = live.slurm.submit(1, 5.0, watts=200, partition="p1")
    live.rounds(1)
    assert live.written(ReleaseJob) == []
    assert len(live.written(PowerNode)) == 4
    assert job.starts == 0


def test_an_arrival_in_the_round_of_a_start_is_an_event(tmp_path: Path) -> None:
    """As many jobs wait as before, and as many run: one arrives while one starts, one ends while one starts."""
    arrivals, ends = (Control(period_s=0.0, events=frozenset({name})) for name in ("arrival", "completion"))
    live = Live(tmp_path, policy_of(arrivals, ends))
    for _ in range(4):
        live.slurm.submit(4, 10.0, watts=800, partition="p1")
        live.rounds(12)
    live.rounds(12)
    assert len(arrivals.calls) == 4
    assert len(ends.calls) == 4


def test_passes_keep_their_interval(tmp_path: Path) -> None:
    policy = load_policy("easy", backfill={"part": "easy", "pass_interval_s": 10.0})
    live = Live(tmp_path, policy)
    starts = []
    for _ in range(6):
        job = live.slurm.submit(1, 5.0, watts=200)
        live.rounds(3)
        starts.append(job)
    live.rounds(12)
    begun = {job.start_s - 1_000_000.0 for job in starts}
    assert begun == {1.0, 11.0, 21.0}


class Order(HistoryMean):
    """Keeps the order in which it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, int]] = []

    def learn(self, finished: Any) -> None:
        self.heard.append(("learn", len(finished.rows)))
        super().learn(finished)

    def predict_rows(self, rows: Any, now_s: float) -> Any:
        self.heard.append(("predict", len(rows)))
        return super().predict_rows(rows, now_s)


def test_completions_are_learned_before_the_jobs_of_the_same_round_are_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = Order()
    live = Live(tmp_path, policy_of(estimator=estimator))
    tracker = live.controller.planner.tracker
    live.slurm.submit(1, 5.0, watts=200)
    live.rounds(4)
    jobs = live.controller.planner.jobs
    requests = {key: jobs.request[slot] for key, slot in jobs.slot.items()}

    def ended(running: set[Any]) -> list[MeasuredJob]:
        gone = [request for key, request in requests.items() if key not in running]
        return [MeasuredJob(request, 0.0, 5.0, 180.0, 190.0, 300.0) for request in gone]

    live.rounds(3)
    monkeypatch.setattr(tracker, "ended", ended)
    live.slurm.submit(1, 5.0, watts=200)
    live.rounds(1)
    assert estimator.heard[-2:] == [("learn", 1), ("predict", 1)]


def test_two_controls_see_each_other_and_are_asked_before_the_pass(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def look(view: View) -> list[Action]:
        seen.append((len(view.units_stopping), len(view.queue)))
        return []

    live = Live(tmp_path, policy_of(Control([StopNode(7)]), Control(look)))
    live.slurm.submit(1, 5.0, watts=200)
    live.rounds(1)
    assert seen == [(1, 1)]
