"""Predicted run times in a controller: they decide who is backfilled, survive a restart, and change no limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.kernels import codes
from wattqueue.live.controller import Controller
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Correction, FinishedRuns
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.run_times import planned_after

LIMIT_S = 3600.0
ROOMY = Cap.constant(2400.0)


def site() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def controller_of(slurm: FakeSlurm, folder: Path, policy: str | Policy, *, record: bool = False) -> Controller:
    return make_controller(
        slurm, folder, lambda: slurm.now_s, cap=ROOMY, machine=lab_machine(), policy=policy, record=record
    )


def rounds(controller: Controller, slurm: FakeSlurm, count: int) -> None:
    for _ in range(count):
        controller.round()
        slurm.step()


def taught(slurm: FakeSlurm, folder: Path, policy: str) -> Controller:
    """Two jobs of 10 s run, with limits of an hour."""
    controller = controller_of(slurm, folder, policy)
    for _ in range(2):
        slurm.submit(1, 10.0, watts=200, limit_s=LIMIT_S)
    rounds(controller, slurm, 14)
    assert not slurm.running()
    return controller


def contended(slurm: FakeSlurm) -> tuple[FakeJob, FakeJob]:
    """One that holds three of four nodes for ten minutes, the head that needs all, and one that fits beside it."""
    slurm.submit(3, 600.0, watts=600, limit_s=600.0, uid=2000)
    head = slurm.submit(4, 10.0, watts=800, limit_s=600.0, uid=2000)
    return head, slurm.submit(1, 10.0, watts=200, limit_s=LIMIT_S)


@pytest.mark.parametrize(("policy", "backfilled"), [("easy", False), ("easy++", True), ("easy-sjbf+rt-quantile", True)])
def test_a_short_job_with_a_long_limit_is_backfilled_once_its_user_is_known(
    policy: str, backfilled: bool, tmp_path: Path
) -> None:
    slurm = site()
    controller = taught(slurm, tmp_path, policy)
    head, short = contended(slurm)
    rounds(controller, slurm, 5)
    assert (short.state == "RUNNING") is backfilled
    assert head.state == "PENDING"
    assert short.limit_s == LIMIT_S, "the limit is the user's"
    assert not controller.troubles


def test_a_controller_that_was_restarted_knows_what_it_learned(tmp_path: Path) -> None:
    slurm = site()
    taught(slurm, tmp_path, "easy++")
    again = controller_of(slurm, tmp_path, "easy++")
    _, short = contended(slurm)
    rounds(again, slurm, 5)
    assert short.state == "RUNNING"


def test_a_job_that_outlives_its_prediction_is_planned_at_its_limit(tmp_path: Path) -> None:
    """The head waits for it: behind its limit there is no room for another job of an hour."""
    slurm = site()
    controller = taught(slurm, tmp_path, "easy++")
    long = slurm.submit(4, 500.0, watts=800, limit_s=LIMIT_S)
    rounds(controller, slurm, 2)
    jobs = controller.planner.jobs
    assert controller.last is not None
    assert (jobs.end_s[controller.last.plan.holding] - long.start_s).tolist() == pytest.approx([10.0], abs=1.0)
    rounds(controller, slurm, 12)
    assert controller.last is not None
    assert (jobs.end_s[controller.last.plan.holding] - long.start_s).tolist() == [LIMIT_S]


def test_run_times_are_recorded(tmp_path: Path) -> None:
    slurm = site()
    controller = controller_of(slurm, tmp_path, "easy++", record=True)
    for _ in range(3):
        slurm.submit(1, 5.0, watts=200, limit_s=LIMIT_S)
        rounds(controller, slurm, 8)
    lines = [json.loads(line) for line in (tmp_path / "views.jsonl").read_text().splitlines()]
    ended = [run[-1] for line in lines for run in line.get("ended", ())]
    assert ended == pytest.approx([5.0, 5.0, 5.0], abs=1.0)
    planned = [s for line in lines if "decided" in line for s in line["decided"].get("planned_s", ())]
    assert planned[:2] == [LIMIT_S, LIMIT_S]
    assert planned[2] == pytest.approx(sum(ended[:2]) / 2)


def test_what_is_not_known_exactly_teaches_nothing(tmp_path: Path) -> None:
    """A job that ended in a gap longer than it ran, one that stood still, and one that was requeued."""
    slurm = site()
    controller = controller_of(slurm, tmp_path, "easy++")
    gap, still, requeued = (slurm.submit(1, seconds, watts=200, limit_s=LIMIT_S) for seconds in (30.0, 200.0, 400.0))
    rounds(controller, slurm, 5)
    still.stopped_s = slurm.now_s
    rounds(controller, slurm, 2)
    slurm.go_on(still)
    slurm.requeue_and_hold(requeued)
    slurm.step(290.0)
    rounds(controller, slurm, 3)
    assert gap.state == still.state == "COMPLETED"
    runs = controller.planner.predictor.run_times
    assert runs is not None
    assert not runs.ended


class Wrong:
    """A run-time part that answers ``answer``, or raises."""

    asked: Asked = "at_submit"
    correction: Correction | None = "limit"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def seconds(self, jobs: Any, machine: Any) -> None:
        return None

    def seconds_of(self, rows: Any, now_s: float) -> Any:
        if self.answer is None:
            raise KeyError("no such user")
        return np.full(len(rows), self.answer)

    def learn_runs(self, finished: FinishedRuns) -> None:
        pass


@pytest.mark.parametrize(("answer", "text"), [(-1.0, "a run time of -1.0 s"), (np.inf, "inf s"), (None, "KeyError")])
def test_a_part_that_fails_is_named_and_limits_count(answer: Any, text: str, tmp_path: Path) -> None:
    slurm = site()
    controller = controller_of(slurm, tmp_path, replace(load_policy("easy"), runtime=Wrong(answer)))
    job = slurm.submit(1, 30.0, watts=200, limit_s=LIMIT_S)
    rounds(controller, slurm, 2)
    assert job.state == "RUNNING"
    assert any(text in trouble and "walltimes" in trouble for trouble in controller.troubles)
    assert controller.last is not None
    assert (controller.planner.jobs.end_s[controller.last.plan.holding] - job.start_s).tolist() == [LIMIT_S]


def test_plans_by_the_time_that_a_job_has_run() -> None:
    """Steps of the table in rule 3: a plan is over once a job has run for so long."""
    predicted, limit = np.full(6, 100.0), np.full(6, 1200.0)
    ran = np.array([0.0, 99.9, 100.0, 160.0, 400.0, 1100.0])
    assert planned_after(predicted, limit, ran, codes.LIMIT_AT_START).tolist() == [1200.0] * 6
    assert planned_after(predicted, limit, ran, codes.LIMIT_AT_OVERRUN).tolist() == [100.0, 100.0, *[1200.0] * 4]
    steps = planned_after(predicted, limit, ran, codes.STEPS_AT_OVERRUN)
    assert steps.tolist() == [100.0, 100.0, 160.0, 400.0, 1000.0, 1200.0]
