"""Consenting jobs are parked during a load target and continue after it, over the fake Slurm."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_live_targets import Stated
from tests.profiles import sampled
from wattqueue.errors import OutputError
from wattqueue.live.cluster import ChangeJob, ContinueJob, RequeueJob, StopJob, Write
from wattqueue.live.consent_tags import CONSENT, NO_CONSENT, SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.features.load_targets import consenting_w
from wattqueue.live.parking import AGAIN_S
from wattqueue.live.recordings.recording import inputs_of
from wattqueue.live.recordings.replay import replay
from wattqueue.live.release import ReleaseSettings, release_all
from wattqueue.live.restore import CLOSE_S, Restorer
from wattqueue.live.state.audit import rows_of, verify
from wattqueue.live.state.memory import ControllerState
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap

IDLE_W, NODE_W = 800.0, 200
CAP_W = 2400.0


@dataclass
class Place:
    """A fake Slurm with a controller that can be killed and built again, and a load target."""

    folder: Path
    row: str = "dr-parking"
    slurm: FakeSlurm = field(
        default_factory=lambda: FakeSlurm(
            {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600
        )
    )
    source: Stated = field(default_factory=Stated)
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, boundary: Callable[[str], None] = lambda _: None) -> None:
        """A controller begins from what is stored and what the cluster shows."""
        self.controller = make_controller(
            self.slurm, self.folder, lambda: self.slurm.now_s, cap=Cap.constant(CAP_W), targets=self.source,
            policy=self.row, consent=SiteDefaults(), record=True, boundary=boundary,
        )  # fmt: skip

    def submit(self, nodes: int, comment: str = CONSENT, runtime_s: float = 100.0, **more: object) -> FakeJob:
        limit_s = float(more.pop("limit_s", 300.0))  # type: ignore[arg-type]
        return self.slurm.submit(
            nodes, runtime_s, watts=NODE_W * nodes, limit_s=limit_s, comment=comment, partition="p1", **more
        )

    def target(self, begin_s: float, end_s: float, net_w: float, name: str = "e1") -> None:
        now_s = self.slurm.now_s
        one = LoadTarget(now_s + begin_s, now_s + end_s, IDLE_W + net_w, correlation_id=name, notice_s=np.inf)
        self.source.stated = LoadTargets.of(one)

    def rounds(self, count: int) -> None:
        """Rounds a second apart; behind each the running jobs draw no more than the pool."""
        for _ in range(count):
            assert self.controller.round() is not None
            assert self.slurm.drawn_w <= self.slurm.open_w
            self.slurm.step()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_consenting_jobs_are_parked_and_continue_and_others_are_not_touched(place: Place) -> None:
    willing, other = place.submit(2), place.submit(2, "")
    place.rounds(5)
    place.target(5.0, 25.0, 450.0)
    place.rounds(10)
    assert (willing.stopped_s >= 0, other.stopped_s >= 0) == (True, False)
    assert willing.licences["watts"] == 0, "it draws idle watts, which are counted for every node"
    assert len(willing.held_nodes) == 2, "its nodes stay its own"
    place.rounds(20)
    assert willing.stopped_s < 0
    assert willing.licences["watts"] == 2 * NODE_W
    assert place.controller.planner.memory.parked == {}
    place.rounds(90)
    assert {job.state for job in (willing, other)} == {"COMPLETED"}
    assert 20.0 <= (willing.end_s - willing.start_s) - (other.end_s - other.start_s) <= 22.0, "later by the pause"
    touched = {w.target for w in place.slurm.writes if isinstance(w, StopJob | ContinueJob)}
    assert touched == {willing.name}
    assert verify(place.controller.audit.engine, head=place.folder / "audit.head").broken == 0
    why = [row["why"] for row in rows_of(place.controller.audit.engine) if row["kind"] in ("stop", "continue")]
    assert why[0] == "parked: load target e1 of 1250 W"
    assert "load target e1" in why[1]


def test_the_limit_of_a_parked_job_is_ahead_of_the_clock_and_moves_by_the_pause(place: Place) -> None:
    job = place.submit(2, runtime_s=250.0)
    place.rounds(5)
    place.target(0.0, 400.0, 100.0)
    place.rounds(395)
    assert job.state == "RUNNING", "it would have timed out at 300 s"
    place.rounds(10)
    assert job.limit_s == pytest.approx(300.0 + 400.0, abs=61.0)
    place.rounds(260)
    assert job.state == "COMPLETED"


def test_a_stop_that_fails_is_tried_again(place: Place) -> None:
    job = place.submit(2)
    place.rounds(3)
    failed: list[Write] = []

    def fault(what: str | Write) -> str | None:
        if isinstance(what, StopJob) and len(failed) < 2:
            failed.append(what)
            return "fail"
        return None

    place.slurm.fault = fault
    place.target(0.0, 60.0, 100.0)
    for _ in range(5):
        assert place.controller.round() is not None
        assert job.licences["watts"] > 0 or job.stopped_s >= 0, "no licence is lowered before the job stands still"
        place.slurm.step()
    assert len(failed) == 2
    assert job.stopped_s >= 0


@pytest.mark.parametrize("kill_at", sampled(range(12), range(0, 12, 3)))
def test_a_controller_that_is_killed_at_any_write_leaves_no_job_parked(tmp_path: Path, kill_at: int) -> None:
    place = Place(tmp_path)
    jobs = [place.submit(1), place.submit(1), place.submit(2, "")]
    place.rounds(3)
    place.target(0.0, 20.0, 450.0)
    count = 0

    def killed(_: str) -> None:
        nonlocal count
        count += 1
        if count == kill_at + 1:
            raise KeyboardInterrupt

    place.restart(killed)
    while place.slurm.now_s < place.source.stated.end_s[0] + 5.0:
        with contextlib.suppress(KeyboardInterrupt):
            place.controller.round()
        if count == kill_at + 1:
            count += 1
            place.restart()
            place.controller.round()
        if place.slurm.now_s < place.source.stated.end_s[0] - 10.0:
            assert place.slurm.drawn_w <= 450
        place.slurm.step()
    assert not any(job.stopped_s >= 0 for job in jobs)
    place.rounds(110)
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert place.controller.planner.memory.parked == {}


def test_withdrawn_consent_is_honoured_as_soon_as_the_limit_allows(place: Place) -> None:
    first, second = place.submit(1, runtime_s=40.0), place.submit(2, "", runtime_s=15.0)
    place.rounds(3)
    place.target(0.0, 200.0, 450.0)
    place.rounds(3)
    assert first.stopped_s >= 0
    first.comment = NO_CONSENT
    place.rounds(3)
    assert first.stopped_s >= 0, "the other job takes the watts of the target"
    place.rounds(12)
    assert first.stopped_s < 0
    assert second.state == "COMPLETED"
    place.submit(4, "", runtime_s=20.0)
    place.rounds(60)
    assert first.state == "COMPLETED"


def test_a_stop_is_sent_again_for_processes_that_it_has_not_reached(place: Place) -> None:
    job = place.submit(2)
    place.rounds(3)
    place.target(0.0, 200.0, 100.0)
    begin_s = place.slurm.now_s
    times = []
    for _ in range(100):
        before = sum(isinstance(write, StopJob) for write in place.slurm.writes)
        place.rounds(1)
        times += [place.slurm.now_s - 1.0 - begin_s] * (
            sum(isinstance(w, StopJob) for w in place.slurm.writes) - before
        )
    assert times == [0.0, *AGAIN_S]
    assert job.stopped_s >= 0


def test_consent_that_is_given_during_a_target_is_taken(place: Place) -> None:
    job = place.submit(2, "", runtime_s=50.0)
    place.rounds(3)
    place.target(0.0, 20.0, 100.0)
    for _ in range(3):
        place.controller.round()
        place.slurm.step()
    assert job.stopped_s < 0
    job.comment = CONSENT
    place.rounds(2)
    assert job.stopped_s >= 0


def test_a_job_with_checkpoints_is_requeued_and_starts_again_after_the_target(place: Place) -> None:
    keeps, waits = place.submit(1, f"{CONSENT},checkpoint=10"), place.submit(1)
    place.rounds(5)
    place.target(0.0, 30.0, 100.0)
    place.rounds(10)
    assert (keeps.state, keeps.restarts, waits.stopped_s >= 0) == ("PENDING", 1, True)
    why = [row["why"] for row in rows_of(place.controller.audit.engine) if row["kind"] == "requeue"]
    assert why == ["a control of the policy: load target e1 of 900 W"]
    place.rounds(150)
    assert {job.state for job in (keeps, waits)} == {"COMPLETED"}


def test_a_job_that_cannot_be_requeued_is_parked_instead(place: Place) -> None:
    job = place.submit(2, f"{CONSENT},checkpoint=10")
    place.rounds(3)
    place.slurm.fault = lambda what: "fail" if isinstance(what, RequeueJob) else None
    place.target(0.0, 30.0, 100.0)
    for _ in range(2):
        place.controller.round()
        place.slurm.step()
    place.rounds(3)
    assert (job.restarts, job.stopped_s >= 0) == (0, True)
    place.rounds(150)
    assert job.state == "COMPLETED"


def test_a_job_that_a_person_stopped_is_not_continued(place: Place) -> None:
    mine, theirs = place.submit(1), place.submit(1)
    place.rounds(3)
    theirs.stopped_s = place.slurm.now_s
    place.target(0.0, 10.0, 100.0)
    for _ in range(20):
        place.controller.round()
        place.slurm.step()
    assert mine.stopped_s < 0
    assert theirs.stopped_s >= 0
    assert theirs.licences["watts"] == NODE_W, "its user may let it go on at any moment"
    assert {w.target for w in place.slurm.writes if isinstance(w, StopJob | ContinueJob)} == {mine.name}


def test_a_parked_job_that_somebody_continues_is_parked_again_or_gets_its_watts(place: Place) -> None:
    job = place.submit(2)
    place.rounds(3)
    place.target(0.0, 60.0, 500.0)
    other = place.submit(2, "")
    place.rounds(3)
    place.target(0.0, 60.0, 300.0)
    for _ in range(3):
        place.controller.round()
        place.slurm.step()
    assert job.stopped_s >= 0
    place.slurm.go_on(job)
    place.controller.round()
    assert (job.stopped_s >= 0, job.licences["watts"]) == (True, 0), "it consents still, and the target is exceeded"
    place.slurm.go_on(job)
    job.comment = NO_CONSENT
    place.controller.round()
    assert (job.stopped_s >= 0, job.licences["watts"]) == (False, 2 * NODE_W)
    assert other.stopped_s < 0
    place.controller.round()
    assert place.controller.planner.memory.parked == {}


def test_a_parked_job_that_ends_or_is_requeued_is_forgotten(place: Place) -> None:
    gone, again = place.submit(1), place.submit(1)
    place.rounds(3)
    place.target(0.0, 30.0, 100.0)
    place.rounds(3)
    assert len(place.controller.planner.memory.parked) == 2
    gone.state, gone.stopped_s = "CANCELLED", -1.0
    place.slurm.requeue_and_hold(again)
    again.stopped_s = -1.0
    place.rounds(2)
    assert place.controller.planner.memory.parked == {}
    place.rounds(150)
    assert again.state == "COMPLETED"


def test_nothing_is_parked_that_cannot_be_stored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    job = place.submit(2)
    place.rounds(3)
    memory = place.controller.planner.memory

    def full(_: object) -> None:
        raise OutputError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(memory, "park", full)
        place.target(0.0, 60.0, 100.0)
        for _ in range(3):
            place.controller.round()
            place.slurm.step()
        assert job.stopped_s < 0
        lowered = [w for w in place.slurm.writes if isinstance(w, ChangeJob) and w.fields.watts == 0]
        assert lowered == []
    place.rounds(3)
    assert job.stopped_s >= 0


def test_a_target_that_begins_while_the_controller_is_away_is_honoured_when_it_is_back(place: Place) -> None:
    job = place.submit(2)
    place.rounds(3)
    place.target(5.0, 60.0, 100.0)
    for _ in range(20):
        place.slurm.step()
        assert place.slurm.used_w <= place.slurm.open_w, "the pool holds meanwhile"
    place.restart()
    place.rounds(2)
    assert job.stopped_s >= 0
    place.rounds(50)
    assert job.stopped_s < 0


def test_a_target_that_is_cancelled_lets_parked_jobs_go_on(place: Place) -> None:
    job = place.submit(2)
    place.rounds(3)
    place.target(0.0, 600.0, 100.0)
    place.rounds(3)
    place.source.stated = LoadTargets.none()
    place.rounds(2)
    assert job.stopped_s < 0


def test_recorded_rounds_are_decided_alike_and_show_consent(place: Place) -> None:
    place.submit(2)
    place.submit(2, f"{CONSENT},slowdown=1.5,until=2100-01-01T00:00,price=3")
    place.rounds(3)
    place.target(0.0, 10.0, 300.0)
    place.rounds(25)
    path = place.folder / "views.jsonl"
    decisions = list(replay(path))
    assert [number for number, recorded, again in decisions if recorded != again] == []
    kinds = {action[0] for _, recorded, _ in decisions for action in json.loads(recorded)["actions"]}
    assert kinds == {"Suspend", "Resume"}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    views = [inputs_of(line, None).view for line in lines if "view" in line]
    consent = views[-1].jobs.consent
    assert consent is not None
    assert consent.given.all()
    assert 3.0 in consent.price_per_added_hour.tolist()
    assert any(view.running.parked.any() and np.isinf(view.running.expected_end_s).any() for view in views)


def test_what_running_jobs_with_consent_count_for_can_be_shed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for nodes, comment in ((2, CONSENT), (1, "")):
        place.submit(nodes, comment)
    place.rounds(3)
    report = place.controller.last
    assert report is not None
    assert consenting_w(report.plan) == 2 * NODE_W
    assert consenting_w(replace(report.plan, asks_consent=False)) is None


def test_without_a_controller_parked_jobs_continue_when_the_target_is_over(place: Place) -> None:
    """``live release`` while no controller is at work; with --force, and at an uninstallation, they do so at once."""
    soon, long = place.submit(1), place.submit(1)
    place.rounds(3)
    place.target(0.0, 50.0, 100.0)
    place.rounds(3)
    settings = ReleaseSettings(place.controller.run_dir.folder, away_s=0.5)
    waits = release_all(
        settings,
        place.slurm,
        now_s=place.slurm.now_s,
        restorer=Restorer(ControllerState(place.controller.audit.engine)),
    )
    assert (waits.restored, soon.stopped_s >= 0, long.stopped_s >= 0) == (0, True, True)
    place.slurm.go_on(soon)
    place.slurm.now_s += 50.0
    memory = ControllerState(place.controller.audit.engine)
    done = release_all(settings, place.slurm, now_s=place.slurm.now_s, restorer=Restorer(memory))
    assert (done.restored, done.failed) == (1, ())
    assert (long.stopped_s < 0, long.licences["watts"]) == (True, NODE_W)
    assert long.limit_s == pytest.approx(300.0 + 52.0, abs=61.0)
    assert [key.name for key in memory.parked] == [soon.name], "somebody else continued it"


@pytest.mark.parametrize("force", [False, True])
def test_a_parked_job_continues_before_its_time_limit_ends_it_or_by_force(place: Place, force: bool) -> None:
    job = place.submit(2)
    place.rounds(3)
    place.target(0.0, 1e6, 100.0)
    place.rounds(3)
    settings = ReleaseSettings(place.controller.run_dir.folder, away_s=0.5)
    if not force:
        place.slurm.now_s = job.start_s + job.limit_s - CLOSE_S + 1.0
    restorer = Restorer(ControllerState(place.controller.audit.engine))
    assert release_all(settings, place.slurm, now_s=place.slurm.now_s, force=force, restorer=restorer).restored == 1
    assert job.stopped_s < 0


def test_a_parked_job_whose_watts_cannot_be_raised_does_not_go_on_without_them(place: Place) -> None:
    job = place.submit(2)
    place.rounds(3)
    place.target(0.0, 60.0, 100.0)
    place.rounds(3)
    place.slurm.fault = lambda what: "fail" if isinstance(what, ChangeJob) else None
    restorer = Restorer(ControllerState(place.controller.audit.engine))
    settings = ReleaseSettings(place.controller.run_dir.folder, away_s=0.5)
    done = release_all(settings, place.slurm, now_s=place.slurm.now_s, force=True, restorer=restorer)
    assert (done.restored, len(done.failed), job.stopped_s >= 0) == (0, 1, True)
