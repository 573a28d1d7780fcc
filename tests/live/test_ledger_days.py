"""Days of work under an adaptive ledger, through the controller on the fake: the share of time that was asked for is
kept, and every job starts.

Jobs draw what is predicted with an error, phases, and now and then twice as much for hours; the source of the nodes'
power is as noisy as the ledger allows for. The slow tests have thirty days under the row as it is published: of drawn
jobs, and of the jobs that KTH-SP2 recorded (sizes, times and walltimes; what they draw is generated).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import IDLE_W, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_controller import make_slurm
from tests.live.typical import Typical, node_level_w
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import find_row

ROUND_S = 60.0
TYPICAL_W = 200.0
"""Watts above idle of a node that are predicted; it can draw twice as much."""
MACHINE = Machine("lab", tuple(Partition(p, 4, idle_w=IDLE_W, max_w=IDLE_W + 2.0 * TYPICAL_W) for p in ("p1", "p2")))
CAP_W = 8 * IDLE_W + 1_200.0
"""Six of eight nodes as predicted, three at their maximum."""
NOISE = 0.01


@dataclass
class Work:
    """Jobs and what they draw: a source of the nodes' power."""

    slurm: FakeSlurm
    draw: random.Random
    cap_w: float
    name: str = "meter"
    resolution_w: float = 0.0
    level_w: dict[int, float] = field(default_factory=dict)
    above_s: float = 0.0

    def submit(self, nodes: int, runtime_s: float, limit_s: float) -> FakeJob:
        partition = ",".join(self.slurm.partitions)
        watts = int(nodes * TYPICAL_W)
        job = self.slurm.submit(nodes, runtime_s, watts=watts, limit_s=limit_s, partition=partition)
        self.level_w[job.id] = node_level_w(self.draw, TYPICAL_W)
        return job

    def node_w(self, job: FakeJob) -> float:
        """Watts of each node of a running job: a phase each ten minutes draws a fifth more, the next one less."""
        phase = 1.2 if int((self.slurm.now_s - job.start_s) // 600.0) % 2 else 0.8
        return IDLE_W + min(2.0 * TYPICAL_W, self.level_w[job.id] * phase)

    @property
    def drawn_w(self) -> float:
        """Watts of all nodes."""
        idle_w = IDLE_W * sum(map(len, self.slurm.partitions.values()))
        return idle_w + sum((self.node_w(j) - IDLE_W) * len(j.held_nodes) for j in self.slurm.running())

    def read(self, now_s: float) -> Reading:
        watts = {name: IDLE_W for nodes in self.slurm.partitions.values() for name in nodes}
        watts |= {name: self.node_w(job) for job in self.slurm.running() for name in job.held_nodes}
        factor = 1.0 + self.draw.gauss(0.0, NOISE)  # of all nodes together, as one meter has it
        return Reading({name: PowerSample(w * factor, now_s, "meter") for name, w in watts.items()}, ())


Submission = tuple[float, int, float, float]
"""Seconds after the begin, nodes, run time and walltime in seconds."""


def drawn_jobs(draw: random.Random, days: float) -> Iterator[Submission]:
    """Jobs of a few minutes to hours, on one to three nodes; none in the last three tenths of the days."""
    submit_s = 0.0
    while submit_s < 0.7 * days * 86_400.0:
        nodes, limit_s = draw.choice([1, 1, 1, 2, 3]), draw.choice([1_800.0, 7_200.0, 14_400.0])
        yield submit_s, nodes, draw.uniform(0.2, 1.0) * limit_s, limit_s
        submit_s += draw.expovariate(1.0 / 2_000.0)


def recorded_jobs(trace: Path, days: float) -> Iterator[Submission]:
    """Jobs of the first days of a trace. A job that ran past its walltime has its run time as its walltime."""
    jobs = read_swf(trace).jobs
    begin_s = float(jobs.submit_s[0])
    for row in range(len(jobs)):
        submit_s, runtime_s = float(jobs.submit_s[row]) - begin_s, float(jobs.runtime_s[row])
        if submit_s >= days * 86_400.0:
            return
        yield submit_s, int(jobs.nodes[row]), runtime_s, max(runtime_s, float(jobs.walltime_s[row]))


def live_days(
    folder: Path, days: float, row: str, submissions: Iterator[Submission], work: Work, machine: Machine, **options: Any
) -> tuple[list[FakeJob], float]:
    """Drive jobs for so many days; return them and the share of the time above the cap after the first fifth."""
    slurm = work.slurm
    policy = replace(load_policy("easy", ledger={**find_row(row)["ledger"], **options}), estimator=Typical())
    controller = make_controller(
        slurm,
        folder,
        lambda: slurm.now_s,
        cap=Cap.constant(work.cap_w),
        sources=(work,),
        policy=policy,
        machine=machine,
    )
    jobs: list[FakeJob] = []
    begin, above_s, following = slurm.now_s, 0.0, next(submissions, None)
    while slurm.now_s < begin + days * 86_400.0:
        while following is not None and begin + following[0] <= slurm.now_s:
            jobs.append(work.submit(*following[1:]))
            following = next(submissions, None)
        controller.round()
        slurm.step(ROUND_S)
        if slurm.now_s > begin + 0.2 * days * 86_400.0 and work.drawn_w > work.cap_w:
            above_s += ROUND_S
    # Where the allowance of 30 days is used up, one job runs at a time: what waits then takes days.
    while slurm.now_s < begin + 1.3 * days * 86_400.0 and any(job.state == "PENDING" for job in jobs):
        controller.round()
        slurm.step(ROUND_S)
    return jobs, above_s / (0.8 * days * 86_400.0)


def drawn_days(folder: Path, days: float, row: str, **options: Any) -> tuple[list[FakeJob], float]:
    """The same for drawn jobs on a machine of eight nodes."""
    work = Work(make_slurm(3_200), random.Random(7), CAP_W)
    return live_days(folder, days, row, drawn_jobs(random.Random(8), days), work, MACHINE, **options)


def expect_kept(jobs: list[FakeJob], share: float, asked: float, room_w: float) -> None:
    """``room_w``: watts of the cap above idle. A job that may draw more waits until its margin has come down enough."""
    fits = [job for job in jobs if job.nodes * 2.0 * TYPICAL_W <= room_w]
    waiting = [job for job in fits if job.state == "PENDING"]
    assert not waiting, f"{len(waiting)} of {len(fits)} jobs that fit at their maximum did not start"
    assert share <= asked


def test_a_day_under_a_share_of_a_twentieth(tmp_path: Path) -> None:
    jobs, share = drawn_days(tmp_path, 1.0, "easy+pc-adaptive-1", epsilon=0.05, window_days=0.5)
    expect_kept(jobs, share, 0.05, CAP_W - 8 * IDLE_W)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "asked"), [("easy+pc-adaptive-1", 0.01), ("easy+pc-adaptive-0.1", 0.001)])
def test_thirty_days_under_a_published_row(tmp_path: Path, row: str, asked: float) -> None:
    jobs, share = drawn_days(tmp_path, 37.5, row)
    expect_kept(jobs, share, asked, CAP_W - 8 * IDLE_W)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "asked"), [("easy+pc-adaptive-1", 0.01), ("easy+pc-adaptive-0.1", 0.001)])
def test_thirty_recorded_days_under_a_published_row(
    tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str], row: str, asked: float
) -> None:
    """The cap leaves room for nine nodes of ten as predicted, 45 of 100 at their maximum."""
    days = float(os.environ.get("WATTQUEUE_RECORDED_DAYS", "30"))
    cap_w = 100 * IDLE_W + 90 * TYPICAL_W
    slurm = FakeSlurm({"p1": [f"n{k}" for k in range(100)]}, int(100 * (IDLE_W + 2.0 * TYPICAL_W)))
    machine = Machine("kth", (Partition("p1", 100, idle_w=IDLE_W, max_w=IDLE_W + 2.0 * TYPICAL_W),))
    recorded = recorded_jobs(data_dir / "swf" / "KTH-SP2.swf.gz", days)
    jobs, share = live_days(tmp_path, 1.25 * days, row, recorded, Work(slurm, random.Random(7), cap_w), machine)
    with capsys.disabled():
        print(f"\n{row}: {len(jobs):,} recorded jobs of {days:g} days, {100.0 * share:.4f} % above the cap")  # noqa: T201
    assert sum(job.state == "PENDING" for job in jobs) < len(jobs) / 10
    expect_kept(jobs, share, asked, cap_w - 100 * IDLE_W)
