"""The control that acts by measured power, live: through agents, by parking, and what the status says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.power_model import ModelMeter, PowerModel, follow
from tests.live.test_node_limits import MOST_W, Live
from wattqueue.errors import PolicyError
from wattqueue.live.cluster import ContinueJob, RequeueJob, StopJob
from wattqueue.live.consent_tags import CONSENT, SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.node_power import NO_CONTROL, NOTHING_MORE
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.replay import replay
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

NODES = 8
FULL_W, LOW_W = 800.0 + 4 * 200.0, 800.0 + 2 * 200.0
"""Four jobs of a node fit; then two do."""


def row(*order: str, **options: Any) -> Policy:
    one = {"part": "lower-measured", "order": list(order), "period_s": 2.0, **options}
    return load_policy("easy", controls=[one])


def with_agents(folder: Path, *order: str) -> Live:
    """Three of four nodes busy, at 360 W each, and one idle: 1,180 W under a cap that falls to 900 W."""
    live = Live(folder, row(*order), 4 * MOST_W, consent=SiteDefaults())
    for k in range(3):
        live.slurm.submit(1, 600.0, watts=260, limit_s=1200.0, comment=CONSENT if k == 0 else "")
    live.rounds(4)
    assert live.sums[-1] == pytest.approx(3 * MOST_W + 100.0)
    live.controller.planner.cap = Cap.constant(900.0)
    return live


def said(controller: Controller) -> str:
    assert controller.last is not None
    return "\n".join(line for line in controller.last.problems if line.startswith("measured power"))


def test_limits_of_agents_come_first_and_are_raised_again(tmp_path: Path) -> None:
    live = with_agents(tmp_path, "limits", "park")
    live.rounds(8, check=False)
    assert max(live.sums[-3:]) <= 900.0
    assert not any(isinstance(write, StopJob) for write in live.slurm.writes)
    live.controller.planner.cap = Cap.constant(4 * MOST_W)
    live.rounds(10, check=False)
    assert live.sums[-1] == pytest.approx(3 * MOST_W + 100.0 - 3 * 20.0), "the site allows 340 W a node"
    rows = list(replay(tmp_path / "views.jsonl", row("limits", "park")))
    assert all(recorded == now for _, recorded, now in rows)
    assert any("SetDeviceLimits" in recorded for _, recorded, _ in rows)


def test_an_agent_that_does_not_answer_leaves_the_next_step(tmp_path: Path) -> None:
    live = with_agents(tmp_path, "limits", "park")
    for name, node in live.cluster.nodes.items():
        node.alive = name == "n1"
    live.rounds(25, check=False)
    stopped = [job for job in live.slurm.running() if job.stopped_s >= 0]
    assert [CONSENT in job.comment for job in stopped] == [True]
    assert not any(isinstance(write, RequeueJob) for write in live.slurm.writes)


class Place:
    """A controller without agents over eight nodes with a meter."""

    def __init__(self, folder: Path, policy: Policy, reads: Callable[[str, float, float], float | None]) -> None:
        self.slurm = FakeSlurm({"p1": [f"n{k}" for k in range(4)], "p2": [f"m{k}" for k in range(4)]}, 1600)
        self.model = PowerModel(self.slurm)
        self.controller = make_controller(
            self.slurm, folder, lambda: self.slurm.now_s, cap=Cap.constant(FULL_W), machine=lab_machine(NODES),
            policy=policy, rules=Rules(mode="control", write_priority=False), consent=SiteDefaults(),
            sources=(ModelMeter(self.model, reads),),
        )  # fmt: skip

    def submit(self, seconds: float, comment: str = "") -> FakeJob:
        return self.slurm.submit(1, seconds, watts=200, limit_s=1200.0, partition="p1,p2", comment=comment)

    def rounds(self, count: int, cap_w: float = FULL_W) -> None:
        self.controller.planner.cap = Cap.constant(cap_w)
        follow(self.controller, self.model, cap_w, count)


def right(_: str, watts: float, __: float) -> float:
    return watts


CHECKPOINTS = f"{CONSENT},checkpoint=5"


def test_jobs_that_opted_in_are_stopped_and_go_on_when_there_is_room(tmp_path: Path) -> None:
    place = Place(tmp_path, row("park"), right)
    willing = [place.submit(60.0, CONSENT) for _ in range(2)]
    others = [place.submit(60.0) for _ in range(2)]
    place.rounds(5)
    late = place.submit(10.0)
    place.rounds(8, LOW_W)
    assert [job.stopped_s >= 0 for job in (*willing, *others)] == [True, True, False, False]
    assert place.model.power_w() <= LOW_W
    place.rounds(3, LOW_W)
    assert "stopped jobs" not in said(place.controller), "power is below the cap again"
    place.rounds(50, LOW_W)
    assert all(job.state == "COMPLETED" for job in others)
    place.rounds(120, LOW_W)
    assert all(job.state == "COMPLETED" for job in (*willing, late))
    assert late.start_s >= min(job.start_s for job in others) + 50.0, "nothing starts while a job stands still"
    assert any(isinstance(write, ContinueJob) for write in place.slurm.writes)


def test_checkpointed_jobs_are_requeued(tmp_path: Path) -> None:
    place = Place(tmp_path, row("requeue"), right)
    willing = [place.submit(40.0, CHECKPOINTS) for _ in range(2)]
    others = [place.submit(40.0) for _ in range(2)]
    place.rounds(15)
    place.rounds(4, LOW_W)
    assert {write.key.name for write in place.slurm.writes if isinstance(write, RequeueJob) and write.key} == {
        job.name for job in willing
    }
    place.rounds(250, LOW_W)
    assert all(job.state == "COMPLETED" for job in (*willing, *others))


def test_the_status_says_what_was_done_or_that_nothing_was(tmp_path: Path) -> None:
    place = Place(tmp_path, row("park"), right)
    for _ in range(2):
        place.submit(600.0, CONSENT)
        place.submit(600.0)
    place.rounds(5)
    place.controller.planner.cap = Cap.constant(LOW_W)
    report = place.controller.round()
    assert report is not None
    assert report.conditions.over_measured_w == pytest.approx(400.0, abs=10.0)
    assert "stopped jobs" in said(place.controller)
    assert report.plan.planner.above.counts == {"stop": 2}


@pytest.mark.parametrize(("policy", "words"), [(row("park"), NOTHING_MORE), (load_policy("easy"), NO_CONTROL)])
def test_where_nobody_opted_in_nobody_is_stopped(tmp_path: Path, policy: Policy, words: str) -> None:
    place = Place(tmp_path, policy, right)
    jobs = [place.submit(40.0) for _ in range(4)]
    place.rounds(5)
    place.rounds(5, LOW_W)
    assert words in said(place.controller)
    place.rounds(60, LOW_W)
    assert all(job.state == "COMPLETED" for job in jobs)
    assert not any(isinstance(write, StopJob | RequeueJob) for write in place.slurm.writes)


@pytest.mark.parametrize("shown_w", [110.0, 290.0])
def test_a_meter_that_stands_still_keeps_no_work_from_being_done(tmp_path: Path, shown_w: float) -> None:
    """Far below what jobs draw nothing is seen; above the cap whoever did not opt in goes on, then the others."""
    place = Place(tmp_path, row("park", "requeue"), lambda *_: shown_w)
    jobs = [place.submit(30.0, CONSENT if k % 2 else "") for k in range(6)]
    place.rounds(10)
    place.rounds(10, LOW_W)
    place.rounds(300, FULL_W)
    assert all(job.state == "COMPLETED" for job in jobs)


def test_a_meter_that_shows_nothing_stops_nobody(tmp_path: Path) -> None:
    place = Place(tmp_path, row("park"), lambda *_: None)
    for _ in range(4):
        place.submit(600.0, CONSENT)
    place.rounds(12)
    assert not any(isinstance(write, StopJob) for write in place.slurm.writes)


def test_what_is_only_predicted_is_not_called_measured(tmp_path: Path) -> None:
    """The meter is lost, then the cap falls: predictions are above it, and nothing says that they were measured."""
    place = Place(tmp_path, load_policy("easy"), lambda _, watts, now_s: watts if now_s < lost_s else None)
    lost_s = place.slurm.now_s + 20.0
    for _ in range(4):
        place.submit(600.0)
    place.rounds(10)
    place.rounds(1, LOW_W)
    assert said(place.controller), "it is measured"
    place.rounds(60, FULL_W)
    place.rounds(5, LOW_W)
    report = place.controller.last
    assert report is not None
    assert report.conditions.over_cap_w > 0.0
    assert (report.conditions.over_measured_w, said(place.controller)) == (0.0, "")


def test_without_telemetry_the_row_is_refused(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"]}, 400)
    with pytest.raises(PolicyError, match="nothing measures"):
        make_controller(
            slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(600.0), machine=lab_machine(2), policy=row("limits")
        )
