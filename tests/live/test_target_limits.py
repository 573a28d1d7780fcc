"""Limits that agents set for a load target slow nobody without consent, neither who runs nor who starts later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.fakeslurm import FakeJob
from tests.live.test_live_targets import Stated
from tests.live.test_node_limits import HIGH_W, LOW_W, NODES, OTHER_W, Live
from wattqueue.live.consent_tags import CONSENT, SiteDefaults
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.parts.actions import Action, SetDeviceLimits
from wattqueue.policy import consented, session
from wattqueue.policy.actions import NO_CONSENT
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View

MOST_LIMIT_W, LEAST_LIMIT_W = OTHER_W + 2 * HIGH_W, OTHER_W + 2 * LOW_W
CAP_W = 4 * 360.0


class LimitEach:
    """Limits some nodes as low as they go while a target is in force, each by an action of its own."""

    period_s, events, sets_limits = 1.0, frozenset[str](), True

    def __init__(self, nodes: Sequence[str] = NODES) -> None:
        self.units = [NODES.index(name) for name in nodes]

    def act(self, view: View) -> Sequence[Action]:
        if view.target_w == float("inf"):
            return []
        return [SetDeviceLimits((unit,), (LEAST_LIMIT_W,)) for unit in self.units]


class Place:
    """Four nodes with agents, a target from 8 s on, and what is seen of jobs without consent."""

    def __init__(self, folder: Path, control: LimitEach, end_s: float = 300.0) -> None:
        self.targets = Stated()
        self.live = Live(
            folder, load_policy("easy", controls=[control]), CAP_W, targets=self.targets, consent=SiteDefaults()
        )
        now_s = self.live.slurm.now_s
        one = LoadTarget(now_s + 8.0, now_s + end_s, CAP_W, correlation_id="e1", notice_s=float("inf"))
        self.targets.stated = LoadTargets.of(one)
        self.slowed: Counter[str] = Counter()
        """Rounds in which a job without consent ran on a node with a lowered limit, the first two of its run apart."""

    def submit(self, seconds: float, comment: str = "") -> FakeJob:
        return self.live.slurm.submit(1, seconds, watts=260, limit_s=1200.0, comment=comment)

    def limit_w(self, job: FakeJob) -> float:
        return OTHER_W + sum(self.live.cluster.nodes[job.held_nodes[0]].limits.values())

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.live.rounds(1, check=False)
            now_s = self.live.slurm.now_s
            for job in self.live.slurm.running():
                if CONSENT not in job.comment and now_s - job.start_s > 2.5 and self.limit_w(job) < MOST_LIMIT_W - 1.0:
                    self.slowed[job.name] += 1

    def refused(self) -> bool:
        assert self.live.controller.last is not None
        return any(NO_CONSENT in text for text in self.live.controller.last.problems)


def test_limits_for_a_target_leave_jobs_without_consent_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, LimitEach())
    willing, other = place.submit(200.0, CONSENT), place.submit(200.0)
    place.rounds(20)
    assert {willing.state, other.state} == {"RUNNING"}
    assert place.limit_w(willing) == pytest.approx(LEAST_LIMIT_W)
    assert place.limit_w(other) >= MOST_LIMIT_W - 1e-6
    assert place.refused()
    assert not place.slowed


def test_a_planted_violation_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consented, "refused_by_consent", lambda *_: "")
    monkeypatch.setattr(session.Session, "lift_limits", lambda *_: None)  # which would put it right
    place = Place(tmp_path, LimitEach())
    place.submit(200.0, CONSENT)
    other = place.submit(200.0)
    place.rounds(20)
    assert place.slowed[other.name] > 3


def started_later(place: Place, comment: str) -> FakeJob:
    """A job that starts on the node of one that consented and was limited: no other node is free."""
    jobs = [place.submit(30.0, CONSENT), *(place.submit(200.0) for _ in range(3))]
    place.rounds(15)
    assert place.limit_w(jobs[0]) == pytest.approx(LEAST_LIMIT_W)
    later = place.submit(100.0, comment)
    place.rounds(30)
    assert jobs[0].state == "COMPLETED"
    assert later.state == "RUNNING"
    assert later.held_nodes == jobs[0].held_nodes
    return later


def test_a_limit_is_lifted_for_a_job_without_consent_that_starts_under_it(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "willing").mkdir()
    place = Place(tmp_path / "other", LimitEach())
    assert place.limit_w(started_later(place, "")) >= MOST_LIMIT_W - 1e-6
    assert not place.slowed
    place = Place(tmp_path / "willing", LimitEach())
    assert place.limit_w(started_later(place, CONSENT)) == pytest.approx(LEAST_LIMIT_W)


def test_without_the_lift_the_job_would_run_under_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.Session, "lift_limits", lambda *_: None)
    place = Place(tmp_path, LimitEach())
    later = started_later(place, "")
    assert place.slowed[later.name] > 3


def test_a_limit_is_lifted_when_the_consent_is_withdrawn(tmp_path: Path) -> None:
    place = Place(tmp_path, LimitEach())
    willing = place.submit(200.0, CONSENT)
    place.rounds(15)
    assert place.limit_w(willing) == pytest.approx(LEAST_LIMIT_W)
    willing.comment = ""
    place.rounds(6)
    assert place.limit_w(willing) >= MOST_LIMIT_W - 1e-6
