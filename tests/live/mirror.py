"""A simulated present shown as a cluster: the live controller plans on it what the simulator decides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.kernels import codes
from wattqueue.live.cluster import JobKey
from wattqueue.live.state.memory import ReleasedJob
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap
from wattqueue.policy.capabilities import resolve
from wattqueue.policy.registry import Policy
from wattqueue.policy.session import Session

NODES = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}
NAMES = (*NODES["p1"], *NODES["p2"])
NET_W = (200, 50)
"""Net watts of a node at the two frequencies of ``MACHINE``."""
MACHINE = lab_machine(8, (2e9, 1e9))
BEGIN_S = 1_000_000.0
"""Time of the cluster at which the simulation begins."""
UIDS = (1000, 1001)
Starts = list[tuple[str, int, tuple[int, ...]]]
"""Job, option and units of each start."""


def random_jobs(seed: int, count: int = 14) -> Jobs:
    """Jobs of one to three nodes on one partition or on either; times are whole seconds, limits whole minutes."""
    rng = np.random.default_rng(seed)
    limits = 60.0 * rng.integers(1, 5, count)
    submit, seconds = np.sort(rng.integers(0, 90, count)).astype(float), rng.integers(5, 200, count)
    return Jobs.build(
        submit, rng.integers(1, 4, count), np.minimum(limits, seconds), walltime_s=limits,
        partition=rng.choice(["p1", "p2", ""], count).tolist(), user=[f"u{uid}" for uid in rng.choice(UIDS, count)],
    )  # fmt: skip


def random_cap(seed: int, *, moving: bool) -> Cap:
    """A cap that leaves watts for two to six of the eight nodes, the same all the time or another every minute."""
    rng = np.random.default_rng(seed + 1)
    if not moving:
        return Cap.constant(800.0 + 50.0 * int(rng.integers(8, 25)))
    steps = np.concatenate(([-np.inf], 60.0 * np.arange(1, 12)))
    return Cap(steps, 800.0 + 50.0 * rng.integers(8, 25, len(steps)).astype(float))


def shifted(cap: Cap) -> Cap:
    """The same cap on the cluster's clock."""
    return Cap(cap.time_s + BEGIN_S, cap.cap_w)


class Mirrored(Session):
    """A session of the simulator that has each pass decided a second time by a live controller, on the same present."""

    def __init__(self, policy: Policy, twin: Policy, jobs: Jobs, cap: Cap, folder: Path) -> None:
        super().__init__(policy, resolve(policy), begin_s=float(jobs.submit_s.min()))
        self.jobs, self.slurm = jobs, FakeSlurm(NODES, 8 * NET_W[0])
        self.slurm.now_s = BEGIN_S
        self.controller = make_controller(
            self.slurm,
            folder,
            lambda: self.slurm.now_s,
            cap=shifted(cap),
            machine=MACHINE,
            policy=twin,
            state="sqlite://",
        )
        self.decided: list[tuple[float, Starts, Starts]] = []
        """Time, starts of the simulator and starts of the controller, pass by pass."""

    def stops(self) -> int:
        """Stop at every pass, whatever the policy."""
        return super().stops() | codes.STOP_FOR_PASS

    def schedule(self, driver: Any) -> Any:
        """Decide twice."""
        live = self._live(driver)
        answers = super().schedule(driver)
        kernel = driver.kernel
        own: Starts = []
        for k in range(int(kernel.now.starts)):
            row = int(kernel.entries.job[kernel.start_entry[k]])
            own.append((driver.names.name(row), int(kernel.start_option[k]), units_of(kernel, row)))
        self.decided.append((float(kernel.now.time_s), own, live))
        return answers

    def _live(self, driver: Any) -> Starts:
        """Show the present as a cluster, and return what the controller would start on it."""
        view, kernel, slurm = driver.view(()), driver.kernel, self.slurm
        slurm.now_s = BEGIN_S + view.now_s
        running = {int(row) for row in view.running}
        waiting = {int(kernel.entries.job[entry]) for entry in view.queue}
        slurm.jobs = {row + 1: self._job(row, kernel, running) for row in sorted(running | waiting)}
        memory = self.controller.planner.memory
        memory.placed = {key: placed for row in running for key, placed in [self._placed(row, kernel)]}
        plan = self.controller.planner.plan(slurm.observe(), {}, telemetry_ok=True)
        return [(start.job, start.option, tuple(start.nodes)) for start in plan.decision.starts]

    def _job(self, row: int, kernel: Any, running: set[int]) -> FakeJob:
        jobs, option = self.jobs, int(kernel.held.option[row])
        nodes, slower = int(jobs.nodes[row]), 2.0 if row in running and option % 2 else 1.0
        partition = jobs.partition.names[jobs.partition.codes[row]] if jobs.partition.codes[row] >= 0 else "p1,p2"
        job = FakeJob(
            row + 1, str(row + 1), BEGIN_S + float(jobs.submit_s[row]), nodes, 1.0,
            slower * float(jobs.walltime_s[row]), partition, {"watts": NET_W[0] * nodes},
            uid=int(jobs.user.names[jobs.user.codes[row]][1:]),
        )  # fmt: skip
        if row in running:
            planned_s = slower * float(kernel.planned.seconds[row])
            job.state, job.start_s = "RUNNING", BEGIN_S + float(kernel.held.end[row]) - planned_s
            job.held_nodes = tuple(NAMES[u] for u in units_of(kernel, row))
            job.licences["watts"] = NET_W[option % 2] * nodes
        else:
            job.priority, job.reason, job.mark = 0, "JobHeldUser", "wattqueue:held"
        return job

    def _placed(self, row: int, kernel: Any) -> tuple[JobKey, ReleasedJob]:
        key, option = JobKey(str(row + 1), BEGIN_S + float(self.jobs.submit_s[row])), int(kernel.held.option[row])
        watts = NET_W[option % 2] * int(self.jobs.nodes[row])
        return key, ReleasedJob(key, 0.0, "p1", option, watts, float(watts), math.inf)


def units_of(kernel: Any, row: int) -> tuple[int, ...]:
    """Units that a job holds."""
    first, count = int(kernel.held.first[row]), int(kernel.held.pieces[row])
    pieces = [(int(kernel.held.low[i]), int(kernel.held.high[i])) for i in range(first, first + count)]
    return tuple(unit for low, high in pieces for unit in range(low, high + 1))
