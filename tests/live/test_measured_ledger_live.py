"""The measured ledger live: what running jobs count, the rows that it makes possible, and where it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.test_controller import TRACKED, Meter, make_slurm, run
from wattqueue.errors import PolicyError
from wattqueue.live.cluster import JobKey
from wattqueue.live.decision import require_live
from wattqueue.live.features.agent_controls import load_live_policy
from wattqueue.live.requests import JobRequest
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.watts.tracking import CountedPower, Tracker
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy

LICENCE_W, MOST_W = 200, 300
MEASURED = load_policy("easy", ledger="measured")


def figure(*samples: tuple[float, str, float]) -> CountedPower:
    """What a job on two nodes that started at 100 s counts after a round's samples (watts, label, time taken)."""
    tracker = Tracker(warm_up_s=10.0, margin=0.0)
    job = JobRequest(JobKey("7", 90.0), "u1", "", "p1", len(samples), 900.0)
    power = [NodePower(watts, label, taken_s, "meter") for watts, label, taken_s in samples]  # type: ignore[arg-type]
    tracker.observe(job, 100.0, 200.0, power, 105.0)
    return tracker.figure(job.key, LICENCE_W, 200.0, MOST_W)


def test_a_job_that_started_since_the_last_samples_counts_as_predicted() -> None:
    predicted = CountedPower(LICENCE_W, LICENCE_W, "predicted")
    assert figure((100.0, "measured", 99.0), (180.0, "measured", 104.0)) == predicted
    assert figure((100.0, "measured", 100.0), (100.0, "measured", 100.0)) == predicted


def test_a_missing_or_stale_sample_counts_as_the_most() -> None:
    most = CountedPower(MOST_W, LICENCE_W, "missing")
    assert figure((100.0, "measured", 99.0), (300.0, "stale", 90.0)) == most
    assert figure((180.0, "measured", 104.0), (300.0, "missing", 104.0)) == most
    assert figure() == most


def test_samples_after_the_start_count() -> None:
    assert figure((210.0, "measured", 104.0), (220.0, "measured", 104.0)).net_w == 230
    # a licence comes down only after warm_up_s, and until then its watts are counted
    assert figure((180.0, "measured", 104.0), (180.0, "measured", 104.0)) == CountedPower(200, 200, "measured")


def test_jobs_that_draw_less_than_predicted_make_room(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 400.0), rules=TRACKED, sources=(Meter(slurm),),
        policy=MEASURED,
    )  # fmt: skip
    jobs = [slurm.submit(1, 500.0, watts=200, limit_s=900.0, partition="p1,p2") for _ in range(6)]
    run(controller, slurm, 3)
    assert sum(job.state == "RUNNING" for job in jobs) == 2
    run(controller, slurm, 30)
    assert sum(job.state == "RUNNING" for job in jobs) == 3, "80 W each of 400 W; a fourth is predicted at 200 W"
    assert slurm.peak_w <= 400


@pytest.mark.parametrize("row", ["pas+ledger=measured", "e-pas-intel"])
def test_the_rows_of_paper_3_are_driven_where_agents_measure(row: str) -> None:
    policy, left_out = load_live_policy(row)
    assert left_out == []
    assert require_live(policy, lab_machine()).measured is not None
    with pytest.raises(PolicyError, match="nothing measures") as raised:
        require_live(policy, lab_machine(), measures=False)
    assert "track_running" in (raised.value.hint or "")
