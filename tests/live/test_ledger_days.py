"""Days of work under an adaptive ledger, through the controller on the fake: the share of time that was asked for is
kept, and every job starts.

Jobs draw what is predicted with an error, phases, and now and then twice as much for hours; the source of the nodes'
power is as noisy as the ledger allows for. The slow test has thirty days under the row as it is published.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import IDLE_W, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_controller import make_slurm
from tests.live.typical import Typical, node_level_w
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import find_row, load_policy

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
    name: str = "meter"
    resolution_w: float = 0.0
    level_w: dict[int, float] = field(default_factory=dict)
    above_s: float = 0.0

    def submit(self) -> FakeJob:
        """One job of a few minutes to hours, on one to four nodes."""
        nodes, limit_s = self.draw.choice([1, 1, 1, 2, 3]), self.draw.choice([1_800.0, 7_200.0, 14_400.0])
        job = self.slurm.submit(
            nodes, self.draw.uniform(0.2, 1.0) * limit_s, watts=int(nodes * TYPICAL_W), limit_s=limit_s,
            partition="p1,p2",
        )  # fmt: skip
        self.level_w[job.id] = node_level_w(self.draw, TYPICAL_W)
        return job

    def node_w(self, job: FakeJob) -> float:
        """Watts of each node of a running job: a phase each ten minutes draws a fifth more, the next one less."""
        phase = 1.2 if int((self.slurm.now_s - job.start_s) // 600.0) % 2 else 0.8
        return IDLE_W + min(2.0 * TYPICAL_W, self.level_w[job.id] * phase)

    @property
    def drawn_w(self) -> float:
        """Watts of all nodes."""
        return 8 * IDLE_W + sum((self.node_w(j) - IDLE_W) * len(j.held_nodes) for j in self.slurm.running())

    def read(self, now_s: float) -> Reading:
        watts = {name: IDLE_W for nodes in self.slurm.partitions.values() for name in nodes}
        watts |= {name: self.node_w(job) for job in self.slurm.running() for name in job.held_nodes}
        factor = 1.0 + self.draw.gauss(0.0, NOISE)  # of all nodes together, as one meter has it
        return Reading({name: PowerSample(w * factor, now_s, "meter") for name, w in watts.items()}, ())


def live_days(tmp_path: Path, days: float, row: str, **options: Any) -> tuple[Work, list[FakeJob], float]:
    """Drive jobs for so many days; return them and the share of the time above the cap after the first fifth."""
    slurm = make_slurm(3_200)
    work = Work(slurm, random.Random(7))
    policy = replace(load_policy("easy", ledger={**find_row(row)["ledger"], **options}), estimator=Typical())
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), sources=(work,), policy=policy, machine=MACHINE
    )
    jobs: list[FakeJob] = []
    begin, above_s, next_s = slurm.now_s, 0.0, slurm.now_s
    while slurm.now_s < begin + days * 86_400.0:
        while next_s <= slurm.now_s:
            if slurm.now_s < begin + 0.7 * days * 86_400.0:
                jobs.append(work.submit())
            next_s += work.draw.expovariate(1.0 / 2_000.0)
        controller.round()
        slurm.step(ROUND_S)
        if slurm.now_s > begin + 0.2 * days * 86_400.0 and work.drawn_w > CAP_W:
            above_s += ROUND_S
    return work, jobs, above_s / (0.8 * days * 86_400.0)


def expect_kept(jobs: list[FakeJob], share: float, asked: float) -> None:
    waiting = [job.id for job in jobs if job.state == "PENDING"]
    assert not waiting, f"{len(waiting)} of {len(jobs)} jobs did not start"
    assert share <= asked


def test_a_day_under_a_share_of_a_twentieth(tmp_path: Path) -> None:
    _, jobs, share = live_days(tmp_path, 1.0, "easy+pc-adaptive-1", epsilon=0.05, window_days=0.5)
    expect_kept(jobs, share, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "asked"), [("easy+pc-adaptive-1", 0.01), ("easy+pc-adaptive-0.1", 0.001)])
def test_thirty_days_under_a_published_row(tmp_path: Path, row: str, asked: float) -> None:
    _, jobs, share = live_days(tmp_path, 37.5, row)
    expect_kept(jobs, share, asked)
