"""Parts in plain Python, live: controls stop and wake nodes, orders rank anew; and the other database."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import TOTAL_W, Site
from tests.live.slurmlab import real, wait_for
from tests.store import postgres
from wattqueue.live.cluster import JobKey, PowerNode
from wattqueue.live.decision import Decider
from wattqueue.live.features.learning import MeasuredJobs
from wattqueue.live.planner import Rules
from wattqueue.live.predictor import Predictor
from wattqueue.live.requests import JobRequest, MeasuredJob, ObservedJob
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.state.audit import rows_of, verify
from wattqueue.live.state.database import open_state
from wattqueue.live.telemetry.base import JobEnergy
from wattqueue.live.world import Layout
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StopNode, WakeNode
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


class StopIdle:
    """Stops every free unit after a while without arrivals, wakes as many as the head of the queue needs."""

    period_s = 5.0
    events = frozenset({"arrival"})

    def act(self, view: View) -> Sequence[Action]:
        if len(view.queue):
            return [WakeNode(int(u)) for u in range(len(view.unit_state)) if view.unit_state[u] == 2]
        return [StopNode(u) for u in range(len(view.unit_state)) if view.unit_is_free(u) and view.unit_state[u] == 0]


def with_control(control: Any) -> Policy:
    return replace(load_policy("easy"), controls=(control,))


def test_idle_nodes_are_stopped_and_woken_and_the_base_moves_with_them(tmp_path: Path) -> None:
    slurm = make_slurm()
    rules = Rules(mode="control", write_priority=False, power_nodes=True)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), rules=rules, policy=with_control(StopIdle())
    )
    for _ in range(8):
        controller.round()
        slurm.step()
    assert {state for state, _ in slurm.power.values()} == {"off"}
    assert len(slurm.power) == 8
    report = controller.round()
    assert report is not None
    assert report.plan.view.base_uw == 0, "nodes that are off draw nothing here"
    assert report.plan.pool_w == 1600, "their idle watts are free for jobs"
    job = slurm.submit(2, 10.0, watts=400, partition="p1")
    for _ in range(30):
        controller.round()
        slurm.step()
    assert job.state == "COMPLETED"
    said: dict[str, list[str]] = {}
    for write in slurm.writes:
        if isinstance(write, PowerNode):
            said.setdefault(write.target, []).append(write.after)
    assert all(one != other for words in said.values() for one, other in pairwise(words))


def test_a_node_is_told_once_though_slurm_shows_it_late_and_again_if_nothing_comes_of_it(
    tmp_path: Path,
) -> None:
    slurm = make_slurm()
    rules = Rules(mode="control", write_priority=False, power_nodes=True, start_timeout_s=10.0)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), rules=rules, policy=with_control(StopIdle())
    )
    slurm.fault = lambda what: "ignored" if isinstance(what, PowerNode) else None
    for _ in range(15):
        controller.round()
        slurm.step()
    told = [what.target for what in slurm.calls if isinstance(what, PowerNode)]
    assert [told.count(name) for name in ("n1", "n4")] == [2, 2]


def test_without_the_right_nodes_are_left_and_what_needs_an_agent_is_refused(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.submit(1, 100.0, watts=200)

    class Wishes:
        period_s, events = 1.0, frozenset[str]()

        def act(self, view: View) -> Sequence[Action]:
            return [StopNode(0), *(SetFrequency(job, 0) for job in view.job_ids(view.running))]

    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.none(), policy=with_control(Wishes()))
    for _ in range(4):
        report = controller.round()
        slurm.step()
    assert report is not None
    assert slurm.power == {}
    assert {type(r.action) for r in report.plan.refusals} == {StopNode, SetFrequency}


def test_a_control_takes_a_job_back_to_its_place(tmp_path: Path) -> None:
    slurm = make_slurm()

    class Once:
        period_s, events, calls = 1.0, frozenset[str](), 0

        def act(self, view: View) -> Sequence[Action]:
            self.calls += 1
            return [Requeue(view.job_id(view.running[0]))] if self.calls == 4 else []

    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1000.0), policy=with_control(Once())
    )
    first, second = slurm.submit(1, 10.0, watts=200), slurm.submit(1, 10.0, watts=200)
    for _ in range(60):
        controller.round()
        slurm.step()
    assert (first.state, second.state) == ("COMPLETED", "COMPLETED")
    assert (first.starts, first.restarts, second.starts) == (2, 1, 1)
    assert first.start_s < second.start_s


class LastFirst(Fcfs):
    """Ranks anew at each pass: who came last goes first."""

    def rerank(self, view: View) -> Any:
        rows = [view.entry_job(int(entry)) for entry in view.queue]
        return view.jobs.submit_s[rows] * 1e-9 + [float(row) for row in rows]


def test_an_order_that_ranks_anew_is_asked_live(tmp_path: Path) -> None:
    slurm = make_slurm()
    policy = replace(load_policy("easy"), order=LastFirst())
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1000.0), policy=policy)
    jobs = [slurm.submit(1, 5.0, watts=200, limit_s=60.0) for _ in range(4)]
    for _ in range(60):
        controller.round()
        slurm.step()
    begins = [job.start_s for job in jobs]
    assert begins == sorted(begins, reverse=True)
    assert len(set(begins)) == 4


def learned(name: str, user: str, watts: float) -> MeasuredJob:
    request = JobRequest(JobKey(name, 10.0), user, "app", "p1", 1, 600.0)
    return MeasuredJob(request, 20.0, 100.0 + float(name), watts, watts, 300.0)


def test_measured_jobs_teach_and_a_restart_forgets_nothing(tmp_path: Path) -> None:
    layout = Layout.of(lab_machine(), make_controller_nodes(), {})
    policy = load_policy("easy", estimator="history-mean")
    measured_jobs = MeasuredJobs(open_state(tmp_path / "l.db"))
    assert len(measured_jobs.keep([learned("1", "u1", 180.0), learned("2", "u1", 180.0)])) == 2
    assert measured_jobs.keep([learned("1", "u1", 180.0)]) == [], "stored once"
    for again in range(2):
        predictor = Predictor(Decider(policy, layout, power_nodes=False, timeout_s=1.0).session, layout)
        predictor.learn(MeasuredJobs(open_state(tmp_path / "l.db")).recall())
        mine = JobRequest(JobKey("9", 500.0 + again), "u1", "app", "p1", 1, 600.0)
        predictor.predict([mine], 600.0)
        found = predictor.of(mine.key)
        assert found is not None
        assert found[0][0] == pytest.approx(180.0, abs=1.0)


def make_controller_nodes() -> Any:
    return [*make_slurm().observe().nodes]


def test_accounting_teaches_what_telemetry_did_not_see(tmp_path: Path) -> None:
    ratios: list[float] = []
    measured_jobs = MeasuredJobs(open_state(tmp_path / "l.db"), ratios.append)
    measured_jobs.ended(ObservedJob(JobRequest(JobKey("7", 10.0), "u1", "app", "p1", 2, 600.0), 300.0), 120.0)
    energies = [
        JobEnergy("7", 10.0, 20.0, 120.0, 2, 30_000.0, "COMPLETED", "slurmdbd"),
        JobEnergy("8", 10.0, 20.0, 120.0, 2, 30_000.0, "COMPLETED", "slurmdbd"),
    ]
    found = measured_jobs.keep(measured_jobs.from_accounting(energies))
    assert [(one.request.key.name, one.mean_node_w) for one in found] == [("7", 150.0)]
    assert ratios == [0.5]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    reason = postgres.missing()
    if reason:
        pytest.skip(reason)
    with postgres.server() as url:
        yield url


@pytest.mark.postgres
def test_state_and_audit_in_postgresql(tmp_path: Path, database: str) -> None:
    slurm = make_slurm()
    for _ in range(2):  # the second controller goes on from what the first one left
        controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), state=database)
        jobs = [slurm.submit(1, 5.0, watts=200) for _ in range(8)]
        for _ in range(30):
            controller.round()
            slurm.step()
        assert all(job.state == "COMPLETED" for job in jobs)
        verdict = verify(controller.audit.engine, head=tmp_path / "audit.head")
        assert verdict.broken == 0
        controller.audit.engine.dispose()
    assert verdict.rows > 30


@real
def test_a_real_node_is_stopped_and_woken(site: Site, tmp_path: Path) -> None:
    """Administrator's right: here as root. The node goes down and comes back, and a job runs on it."""
    commands = site.lab.commands

    class Last:
        period_s, events = 0.5, frozenset({"arrival"})
        stop = True

        def act(self, view: View) -> Sequence[Action]:
            return [StopNode(7)] if self.stop else [WakeNode(7)]

    last = Last()
    # Slurm on a busy machine may take longer than the 30 s after which a write without effect is made again.
    rules = Rules(mode="control", write_priority=False, power_nodes=True, start_timeout_s=600.0)
    controller = make_controller(
        SlurmCluster(commands),
        tmp_path,
        time.time,
        cap=Cap.constant(8 * 100.0 + TOTAL_W),
        rules=rules,
        policy=with_control(last),
    )

    def state() -> str:
        controller.round()
        return site.lab.run(["sinfo", "-h", "-N", "-n", "n8", "-o", "%T"]).out.strip()

    wait_for("the node to be off", lambda: state() == "idle~", step_s=0.5)
    last.stop = False
    wait_for("the node to be back", lambda: state() == "idle", step_s=0.5)
    powered = [row["after"] for row in rows_of(controller.audit.engine) if row["kind"] == "power"]
    assert powered == ["off", "on"], "each said once"
