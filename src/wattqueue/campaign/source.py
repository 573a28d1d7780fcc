"""A workload of a campaign as a cell of its own: read or generated once, by any worker, then shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Jobs
from wattqueue.runs.task import Task, task_jobs
from wattqueue.workload.cycle import DAY_S


@dataclass(frozen=True)
class WorkloadSource:
    """A trace or a generator's call, read as ``simulate`` does, and the window that is taken of it."""

    trace: str
    """Path of a trace, or call of a generator."""
    seed: int = 0
    """Seed of a generator; 0 for a trace."""
    default_walltime_s: float | None = None
    """Walltime of jobs without a limit."""
    procs_per_node: int = 1
    """Processors of a node, for traces that count processors."""
    begin_s: float = 0.0
    """Beginning of the window after the first submission."""
    length_s: float | None = None
    """Length of the window; None takes the whole trace."""
    sha256: str = ""
    """Hash of the file, empty for a generator."""

    def __str__(self) -> str:
        return self.trace if self.sha256 else f"{self.trace}, seed {self.seed}"

    def identity(self) -> Mapping[str, object]:
        """Return all fields; a file counts by its content and suffix (its format), not by its place."""
        return asdict(self) | ({"trace": Path(self.trace).suffix} if self.sha256 else {})

    @property
    def workloads(self) -> int:
        """Return how many workloads it gives."""
        return 1

    def read(self) -> tuple[Jobs, Unusable]:
        """Return the jobs, and the rows that no schedule can use. Raises: InputError as ``perform``."""
        task = Task(
            self.trace,
            seed=self.seed,
            default_walltime_s=self.default_walltime_s,
            procs_per_node=self.procs_per_node,
        )
        jobs, unusable = task_jobs(task)
        if self.length_s is not None:
            jobs = window(jobs, self.begin_s, self.length_s, self.trace)
        return jobs, unusable

    def perform(self, shared: Shared) -> Row:
        """Save the jobs and return a row with their name.

        Raises: InputError if the trace cannot be used or is too short for the window.
        """
        jobs, unusable = self.read()
        return {
            "table": shared.put_jobs(jobs),
            "jobs": len(jobs),
            "rows_unusable": len(unusable),
        }


def window(jobs: Jobs, begin_s: float, length_s: float, where: str) -> Jobs:
    """Return the jobs submitted from ``begin_s`` to just before ``begin_s + length_s`` after the first submission.

    Times stay on the trace's clock (rule 1 of docs/semantics.md). A cold window: the machine is empty when it begins.

    Raises: InputError if the submissions end before the window does, or it holds no job.
    """
    since = jobs.submit_s - jobs.submit_s.min()
    span, end = float(since.max()), begin_s + length_s
    if end > span:
        raise InputError(
            f"its submissions span {span / DAY_S:.4g} d, the window ends {end / DAY_S:.4g} d after the first",
            where=where,
            hint="shorten the window, begin earlier, or take a longer trace",
        )
    inside = np.asarray((since >= begin_s) & (since < end), np.bool_)
    if not inside.any():
        raise InputError("no job was submitted in the window", where=where, hint="take another window")
    return jobs.take(inside)
