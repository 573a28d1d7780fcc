"""The in-flight ledger live: what running jobs count, and that a margin which narrows makes room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_controller import TRACKED, Meter, make_slurm, run
from wattqueue.errors import PolicyError
from wattqueue.live.cluster import JobKey
from wattqueue.live.decision import require_live
from wattqueue.live.recordings.replay import replay
from wattqueue.live.requests import JobRequest
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.watts.tracking import CountedPower, Tracker
from wattqueue.model.signals import Cap
from wattqueue.parts.ledger.in_flight import InFlight
from wattqueue.policy.policy import load_policy
from wattqueue.policy.sensors import JobEvidence

LEDGER = InFlight(even_s=10.0, error=0.03, phase=0.01)
JOB = JobRequest(JobKey("7", 90.0), "u1", "", "p1", 2, 900.0)


def followed(*rounds: tuple[float, float, str], start_s: float = 100.0) -> CountedPower:
    """What a job on two nodes counts, predicted at 200 W each (100 W idle), after samples (time, watts, label)."""
    tracker = Tracker(warm_up_s=60.0, margin=0.5, ledger=LEDGER)
    for taken_s, watts, label in rounds:
        power = [NodePower(watts, label, taken_s, "meter")] * 2  # type: ignore[arg-type]
        tracker.observe(JOB, start_s, 200.0, power, taken_s)
    return tracker.figure(JOB.key, 200, 200.0, 400)


def test_a_job_counts_what_the_part_makes_of_its_samples() -> None:
    evidence = JobEvidence(LEDGER)
    evidence.add(300.0, 400.0, 105.0, 100.0)
    evidence.add(320.0, 400.0, 110.0, 100.0)
    found = followed((105.0, 150.0, "measured"), (110.0, 160.0, "measured"))
    # 310 of 400 W over 10 s, half of the weight: 355 W, 155 above idle; the ledger counts 200 until Slurm shows it.
    assert evidence.corrected_w(400.0) == pytest.approx(355.0)
    assert found == CountedPower(200, 155, "corrected", evidence.variance_left)
    assert found.variance_left == pytest.approx((0.03 / 2 + 0.01) / 0.04)


def test_a_job_that_draws_more_counts_it_at_once() -> None:
    assert followed((110.0, 260.0, "measured"))[:3] == (260, 260, "corrected")


def test_without_samples_of_its_own_run_a_job_counts_its_prediction() -> None:
    assert followed((100.0, 150.0, "measured")) == CountedPower(200, 200, "predicted")
    assert followed((105.0, 300.0, "missing")) == CountedPower(200, 200, "predicted")
    assert followed() == CountedPower(200, 200, "predicted")


def test_a_missing_sample_leaves_what_was_known() -> None:
    known = followed((110.0, 150.0, "measured"))
    assert followed((110.0, 150.0, "measured"), (115.0, 300.0, "stale")) == known


def test_samples_during_a_pause_are_left_out() -> None:
    tracker = Tracker(warm_up_s=5.0, margin=0.0, ledger=LEDGER)
    power = [NodePower(200.0, "measured", 110.0, "meter")] * 2
    tracker.observe(JOB, 100.0, 200.0, power, 110.0)
    tracker.pause(JOB.key, 500.0)
    tracker.observe(JOB, 100.0, 200.0, [one._replace(taken_s=510.0) for one in power], 510.0)
    evidence = tracker.tracks[JOB.key].evidence
    assert evidence is not None
    assert evidence.measured_s == 20.0


def running(slurm: FakeSlurm, folder: Path, ledger: InFlight, cap_w: float, rounds: tuple[int, ...]) -> list[int]:
    """How many of six jobs run after so many rounds of a second; 200 W above idle are predicted, 80 W are drawn."""
    policy = load_policy("easy", ledger=ledger)
    controller = make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(800.0 + cap_w), rules=TRACKED, sources=(Meter(slurm),),
        policy=policy, record=True,
    )  # fmt: skip
    jobs = [slurm.submit(1, 500.0, watts=200, limit_s=900.0, partition="p1,p2") for _ in range(6)]
    found = []
    for count in rounds:
        run(controller, slurm, count)
        found.append(sum(job.state == "RUNNING" for job in jobs))
    return found


def test_jobs_that_draw_less_than_predicted_make_room(tmp_path: Path) -> None:
    slurm = make_slurm()
    assert running(slurm, tmp_path, InFlight(even_s=2.0, deviations=0.0), 400.0, (2, 30)) == [2, 3]
    assert slurm.peak_w <= 400


def test_a_margin_keeps_room_until_jobs_were_measured(tmp_path: Path) -> None:
    # 480 W: two jobs of 200 W need sqrt(2 x 0.16) x 200 = 113 W more at the start, so that one runs. Measured, the
    # first leaves room for the second, and both for a third.
    slurm = make_slurm()
    ledger = InFlight(even_s=2.0, deviations=1.0, error=0.16, phase=0.0)
    assert running(slurm, tmp_path, ledger, 480.0, (1, 40)) == [1, 3]
    decisions = list(replay(tmp_path / "views.jsonl", load_policy("easy", ledger=ledger)))
    assert len(decisions) == 41
    assert all(recorded == again for _, recorded, again in decisions)


def test_it_is_refused_where_nothing_measures() -> None:
    policy = load_policy("easy+pc-inflight")
    assert isinstance(require_live(policy, lab_machine()).measured, InFlight)
    with pytest.raises(PolicyError, match="nothing measures"):
        require_live(policy, lab_machine(), measures=False)
