"""A naive Slurm for the guard: it prints lists, carries out writes, and starts what is not held into the open pool.

It is written from what Slurm does, not from the guard's code. A job's worst case is the most that its nodes can draw.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.live.cluster import (
    ChangeJob,
    ClusterError,
    ContinueJob,
    HoldJob,
    ReleaseJob,
    RequeueJob,
    SetJobFrequency,
    SetPool,
    Snapshot,
    StopJob,
    Write,
    apply_each,
)
from wattqueue.live.slurm.commands import CommandResult
from wattqueue.live.slurm.lists import COLUMNS, DETAILS, JOBS, POOL

NODE_W = {"small": 40, "large": 100}
"""Most watts of a node, by partition."""
TOTAL_W = 2_000


@dataclass
class NaiveJob:
    """A job of the naive Slurm."""

    number: int
    partition: str
    nodes: int
    watts: int
    state: str = "PENDING"
    held: bool = True
    comment: str = ""
    whole: int = 0
    """Number of the job of several components of which this is one; 0 for a plain job."""
    component: int = 0
    limit_s: float = 3_600.0
    khz: int = 0
    listed: int = 0
    """Nodes that lists show for it while it waits, an estimate; 0 for those that it gets at most."""

    @property
    def name(self) -> str:
        """Return the name that lists show, and commands take."""
        return f"{self.whole}+{self.component}" if self.whole else str(self.number)

    @property
    def worst_w(self) -> int:
        """The most that it can draw now: nothing while its processes are stopped."""
        return self.nodes * NODE_W[self.partition] if self.state == "RUNNING" else 0


@dataclass
class NaiveSlurm:
    """Commands and writes of a naive Slurm (``Slurm`` and ``SnapshotWriter``)."""

    jobs: dict[str, NaiveJob] = field(default_factory=dict)
    open_w: int = 0
    now_s: float = 1_000.0
    calls: list[tuple[str, ...]] = field(default_factory=list)
    lists: dict[tuple[str, ...], str] = field(default_factory=dict)
    """What commands print in the place of what is."""

    def submit(self, job: NaiveJob) -> None:
        """Take a job."""
        self.jobs[job.name] = job

    def named(self, target: str) -> list[NaiveJob]:
        """Return the jobs that a command means: a job by name or number, or all components of one."""
        return [job for job in self.jobs.values() if target in (job.name, str(job.number), str(job.whole or ""))]

    def worst_w(self) -> int:
        """Return the most that all jobs together can draw now."""
        return sum(job.worst_w for job in self.jobs.values())

    def used_w(self) -> int:
        """Return the licences that are in use."""
        return sum(job.watts for job in self.jobs.values() if job.state != "PENDING")

    def schedule(self) -> None:
        """Start what is not held, in order, while licences last."""
        for job in self.jobs.values():
            if job.state == "PENDING" and not job.held and self.used_w() + job.watts <= self.open_w:
                job.state = "RUNNING"

    def release_all(self) -> None:
        """Release what is held and carries watts, as ``wattqueue live release`` does while no planner is at work."""
        bare = {job.whole for job in self.jobs.values() if job.whole and job.watts == 0}
        for job in self.jobs.values():
            if job.state == "PENDING" and job.watts > 0 and job.whole not in bare:
                job.held = False

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Print a list."""
        argv = tuple(argv)
        self.calls.append(argv)
        printed = {JOBS: self._jobs, POOL: self._pool, DETAILS: self._details}[argv]()
        return CommandResult(0, self.lists.get(argv, printed), "", 0.0)

    def _jobs(self) -> str:
        lines = ["|".join(COLUMNS)]
        for job in self.jobs.values():
            pending = job.state == "PENDING"
            reason = ("JobHeldAdmin" if job.held else "Resources") if pending else "None"
            licence = f"watts:{job.watts}" if job.watts else "(null)"
            where = "" if pending else f"{job.partition}[1-{job.nodes}]"
            shown = job.listed if pending and job.listed else job.nodes
            name, minutes = f"{job.name}|{job.number}|{job.whole or job.number}", f"{int(job.limit_s // 60)}:00"
            lines.append(
                f"{name}|{job.state}|{reason}|{job.partition}|{shown}|{job.nodes}|{minutes}|{licence}|"
                f"{0 if job.held and pending else 5}|1000|N/A|{where}||(null)|{job.nodes}"
            )
        return "\n".join(lines) + "\n"

    def _pool(self) -> str:
        return f"LicenseName=watts Total={TOTAL_W} Used={self.used_w()} Reserved={TOTAL_W - self.open_w}\n"

    def _details(self) -> str:
        rows = [
            {
                "job_id": job.number,
                "submit_time": job.whole or job.number,
                "comment": job.comment,
                "user_name": "ada",
                **({"het_job_id": job.whole, "het_job_offset": job.component} if job.whole else {}),
            }
            for job in self.jobs.values()
        ]
        return json.dumps({"jobs": rows})

    def observed(self, snapshot: Snapshot) -> None:
        """Nothing to do."""

    def apply(self, write: Write) -> None:
        """Carry one write out. Raises: ClusterError for a job that is gone."""
        if isinstance(write, SetPool):
            self.open_w = max(0, min(write.open_w, TOTAL_W))
            return
        jobs = self.named(write.target)
        if not jobs:
            raise ClusterError("Invalid job id")
        for job in jobs:
            self._apply(job, write)

    def _apply(self, job: NaiveJob, write: Write) -> None:
        match write:
            case HoldJob() if job.state == "PENDING":
                job.held = True
            case ReleaseJob() if job.state == "PENDING":
                job.held = False
            case RequeueJob():
                job.state, job.held = "PENDING", True
            case StopJob() if job.state == "RUNNING":
                job.state = "STOPPED"
            case ContinueJob() if job.state == "STOPPED":
                job.state = "RUNNING"
            case ChangeJob():
                self._change(job, write)
            case SetJobFrequency():
                job.khz = write.khz
            case _:
                pass

    def _change(self, job: NaiveJob, write: ChangeJob) -> None:
        if write.fields.watts is not None:
            job.watts = max(0, write.fields.watts)  # 0: without any licence
        if write.fields.node_count is not None and job.state == "PENDING":
            job.nodes = max(1, *write.fields.node_count)
        if write.fields.limit_s is not None:
            job.limit_s = write.fields.limit_s
        if write.fields.comment is not None:
            job.comment = write.fields.comment
        if write.fields.partition is not None and job.state == "PENDING":
            job.partition = write.fields.partition

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry writes out one by one."""
        return apply_each(self, writes)


def random_write(rng: np.random.Generator, slurm: NaiveSlurm) -> dict[str, Any]:
    """Return a write as a planner that lies may send it: any job, any watts, any pool, a key of another job."""
    jobs = [*slurm.jobs.values(), NaiveJob(99, "small", 1, 0)]
    job, other = (jobs[int(rng.integers(len(jobs)))] for _ in range(2))
    kinds = ["pool", "hold", "update", "update", "release", "release", "requeue", "stop", "continue", "frequency"]
    kind = str(rng.choice(kinds))
    found: dict[str, Any] = {"kind": kind, "before": "", "after": "", "why": "because"}
    if kind == "pool":
        return {**found, "target": "watts", "open_w": int(rng.integers(-100, 2 * TOTAL_W))}
    found["target"] = str(rng.choice([job.name, job.name, str(job.number), str(job.whole or job.number)]))
    if rng.random() < 0.95:
        named = other if rng.random() < 0.1 else job
        found["key"] = [named.name, float(named.whole or named.number) + (rng.random() < 0.03)]
    if kind == "frequency":
        found["khz"] = int(rng.choice([0, 1_200_000, 2_400_000]))
    if kind == "update":
        fields: dict[str, Any] = {}
        if rng.random() < 0.8:
            fields["watts"] = int(rng.choice([-1, 0, 1, 40, 100, 200, 300, 800, TOTAL_W]))
        if rng.random() < 0.3:
            nodes = int(rng.integers(1, 9))
            fields["node_count"] = [nodes, nodes]
        if rng.random() < 0.2:
            fields["partition"] = str(rng.choice([*NODE_W]))
        if rng.random() < 0.1:
            fields["comment"] = str(rng.choice(["wattqueue:consent", "hello", "wattqueue:consent,x"]))
        found["fields"] = fields
    return found
