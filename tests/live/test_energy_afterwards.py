"""Energies of jobs that ended while no controller was at work are learned at the next start, from the accounting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.drive import kept, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.controller import Controller
from wattqueue.live.features.teaching import Teacher
from wattqueue.live.telemetry.base import JobEnergy
from wattqueue.model.signals import Cap


@dataclass
class Accounting:
    """An accounting over the fake: each ended job drew 180 W a node. It answers for the time asked, like sacct."""

    slurm: FakeSlurm
    asked: list[float] = field(default_factory=list)
    late: bool = False
    """Whether the energies have not arrived yet."""
    name = "the test's accounting"

    def finished(self, since_s: float) -> Sequence[JobEnergy]:
        self.asked.append(since_s)
        ended = [job for job in self.slurm.jobs.values() if job.state == "COMPLETED" and job.end_s >= since_s]
        return [
            JobEnergy(
                job.name, float(int(job.submit_s)), job.start_s, job.end_s, job.nodes,
                math.nan if self.late else 180.0 * job.nodes * (job.end_s - job.start_s), "COMPLETED", self.name,
            )
            for job in ended
        ]  # fmt: skip


def make(slurm: FakeSlurm, folder: Path, accounting: Accounting) -> Controller:
    return make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(2400.0), policy="easy+pc-mean", accounting=accounting
    )


def learned(controller: Controller) -> list[tuple[str, float]]:
    return [(one.request.key.name, round(one.mean_node_w)) for one in controller.planner.predictor.learned]


def test_a_job_that_ends_while_the_controller_is_away_is_learned_once(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1", "n2", "n3", "n4"], "p2": ["m1", "m2", "m3", "m4"]}, 1600)
    accounting = Accounting(slurm)
    controller = make(slurm, tmp_path, accounting)
    first = slurm.submit(2, 100.0, watts=400, limit_s=200.0)
    still = slurm.submit(1, 1e6, watts=200, limit_s=2e6)
    while still.state != "RUNNING" or first.state != "RUNNING":
        controller.round()
        slurm.step()
    controller.round()
    slurm.step(3 * 86400.0)  # nobody looks for three days
    assert first.state == "COMPLETED"
    accounting.late = True
    again = make(slurm, tmp_path, accounting)
    again.round()
    assert accounting.asked[-1] <= first.end_s, "it was asked for the time in which the job ended"
    assert learned(again) == []
    accounting.late = False
    slurm.step(61.0)
    again.round()
    assert learned(again) == [(first.name, 180)]
    third = make(slurm, tmp_path, accounting)
    for _ in range(3):
        third.round()
        slurm.step(61.0)
    assert learned(third) == [(first.name, 180)], "recalled, and not learned once more"
    teacher = kept(third, Teacher)
    assert teacher is not None
    assert [ran.request.key.name for ran in teacher.left_running()] == [still.name]
