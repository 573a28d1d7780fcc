"""Workloads: read from a file, or generated, as a ``JobTable`` that remembers where its rows come from.

The origin (path and SHA-256, or the call of a generator and its seed) goes into the ``run.toml`` of every run, so that
``wattqueue rerun`` can repeat a run that was made in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from wattqueue.api.inputs import PathLike, of_arguments, text
from wattqueue.errors import InputError
from wattqueue.formats.table.job_table import table_frame, table_of_frame, write_table
from wattqueue.formats.times import duration_s
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Jobs
from wattqueue.report import words
from wattqueue.report.document import Document, Table
from wattqueue.runs.task import Task, task_workload, with_hashes
from wattqueue.workload.generated import is_generated, refuse_unknown

if TYPE_CHECKING:
    import polars as pl


class Frame(Protocol):
    """A data frame of polars or pandas, as far as this module must know it."""

    @property
    def columns(self) -> Any:
        """Return the names of the columns."""
        ...


JobsLike: TypeAlias = "JobTable | Jobs | Frame | pl.LazyFrame | PathLike"
"""What every function that takes jobs takes: a table, a frame with its columns, a path, or the call of a generator."""
FIRST_ROWS = 5
"""Rows that a notebook shows."""
IN_MEMORY = "(in memory)"
"""Name of a workload that was made in Python: a run of it can be kept, but not repeated by ``wattqueue rerun``."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs and where they come from; every function that takes jobs takes one of these.

    Example::

        jobs = wq.read_jobs("trace.swf.gz")
        jobs.frame.group_by("user").len()
        week = jobs.take(jobs.frame["submit_s"] < 7 * 86_400)
    """

    workload: Workload
    """What was read: jobs, rows left out, remarks."""
    task: Task
    """How it was read, with the hash of the file; its other fields are not used."""

    def __len__(self) -> int:
        return len(self.workload.jobs)

    def __repr__(self) -> str:
        return f"<{len(self):,} jobs of {self.name}, {self.jobs.origin}>"

    @property
    def name(self) -> str:
        """Return the file's name, the generator's call, or ``(in memory)``."""
        return self.task.workload if is_generated(self.task.workload) else Path(self.task.workload).name

    @property
    def jobs(self) -> Jobs:
        """Return the columns as numpy arrays."""
        return self.workload.jobs

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the remarks of the reader, as sentences."""
        return self.workload.notes

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the jobs as a polars frame with the columns of WattQueue's own table (docs/guide/files.md)."""
        return table_frame(self.jobs)

    @cached_property
    def unusable(self) -> pl.DataFrame:
        """Return the rows of the trace that no schedule can use: line, job_id, reason."""
        import polars as pl

        columns = {"line": pl.Int64, "job_id": pl.String, "reason": pl.String}
        return pl.DataFrame(list(self.workload.unusable.rows()), schema=columns, orient="row")

    def take(self, rows: ArrayLike) -> JobTable:
        """Return some of the jobs, by a mask or by row numbers, in their order; the trace's clock stays.

        The result exists in memory only: ``save`` it, and read the file, where a run of it is to be repeatable.
        """
        return in_memory(self.jobs.take(np.asarray(rows)))

    def save(self, path: PathLike) -> None:
        """Write the jobs as WattQueue's own table: Parquet where the name ends in ``.parquet``, else CSV.

        Raises: OutputError.
        """
        write_table(Path(path), self.jobs)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a sentence, and the first rows."""
        from wattqueue.api.notebook import document_html

        lost = len(self.workload.unusable)
        said = f"**{words.count(len(self), 'job')}**, {self.jobs.origin}"
        said += f"; {words.count(lost, 'unusable row')} left out" if lost else ""
        frame = self.frame.head(FIRST_ROWS)
        rows = [[_value(v) for v in row] for row in frame.iter_rows()]
        return document_html(Document(title=self.name, lede=f"{said}.", text=[Table(frame.columns, rows), *self.notes]))


@of_arguments
def read_jobs(
    path: PathLike, *, default_walltime: str | None = None, procs_per_node: int = 1, kind: str | None = None
) -> JobTable:
    """Read a workload of any known format: SWF, sacct, Slurm JSON, Batsim, PM100, own table, one of your own.

    Args:
        path: The file, plain or gzip.
        default_walltime: Walltime of jobs without one, such as ``24h``; None takes the run time.
        procs_per_node: Processors that make one node of an SWF trace.
        kind: Name of its format, or a Python file that states one; None recognises it by the content of the file.

    Raises:
        InputError: A file that cannot be read, with file and line.
    """
    name = text(path, "path", "the path of a trace or job table")
    if is_generated(name):
        raise InputError("a generator's call is not a file", where=name, hint="use wattqueue.generate")
    walltime = duration_s(default_walltime, "default_walltime")
    return _table(Task(name, default_walltime_s=walltime, procs_per_node=procs_per_node, kind=kind))


@of_arguments
def generate(call: str, *, seed: int = 0) -> JobTable:
    """Generate a workload.

    Args:
        call: Name of a generator and its options: ``marconi:days=7,load=0.9``.
        seed: Seed of the random draws; the same call and seed give the same jobs.

    Raises:
        InputError: An unknown generator or option, or a value out of range.
    """
    if not is_generated(call):
        refuse_unknown(call)
        raise InputError("is not a generator's call", where=call, hint="write marconi:days=7, or use read_jobs")
    return _table(Task(call, seed=seed))


def in_memory(jobs: Jobs) -> JobTable:
    """Return jobs that a program made as a table. Raises: InputError for none."""
    if len(jobs) == 0:
        raise InputError("no usable job", where=IN_MEMORY, hint="give at least one")
    return JobTable(Workload(jobs, Unusable(), "python", len(jobs)), Task(IN_MEMORY))


def job_table(jobs: JobsLike, seed: int = 0, default_walltime: str | None = None, procs_per_node: int = 1) -> JobTable:
    """Return a workload as a table: a table as it is, ``Jobs``, a frame, a path, or the call of a generator.

    The further arguments are those of ``generate`` and ``read_jobs``, for texts.

    A frame (polars or pandas) has the columns of the job table (docs/guide/files.md).

    Raises: InputError for anything else, and as ``read_jobs`` and ``generate``.
    """
    if isinstance(jobs, JobTable):
        return jobs
    if isinstance(jobs, Jobs):
        return in_memory(jobs)
    frame = _polars_frame(jobs)
    if frame is not None:
        return in_memory(table_of_frame(frame))
    name = text(jobs, "jobs", "what read_jobs or generate return, Jobs.build(...), a frame, or the path of a trace")
    if is_generated(name):
        return generate(name, seed=seed)
    return read_jobs(name, default_walltime=default_walltime, procs_per_node=procs_per_node)


def _polars_frame(value: Any) -> pl.DataFrame | None:
    """Return a frame of polars or pandas as one of polars; None for anything else.

    pandas is recognised by its name, so that it is imported only by those who use it. A column of objects becomes text,
    apart from numbers.
    """
    import polars as pl

    if isinstance(value, pl.LazyFrame):
        return value.collect()
    if isinstance(value, pl.DataFrame):
        return value
    if (type(value).__module__.partition(".")[0], type(value).__name__) != ("pandas", "DataFrame"):
        return None
    columns = {}
    for name in value.columns:
        kind, gap = value[name].dtype.kind, value[name].isna().tolist()
        if kind in "biuf":
            columns[str(name)] = pl.Series(
                value[name].to_numpy(np.float64, na_value=np.nan) if any(gap) else value[name]
            )
        else:
            found = [None if g else v for v, g in zip(value[name].tolist(), gap, strict=True)]
            columns[str(name)] = pl.Series(found, strict=False)
    return pl.DataFrame(columns)


def _table(task: Task) -> JobTable:
    """Read or generate the workload of a task, and record the hash of its file."""
    workload = task_workload(task)
    return JobTable(workload, with_hashes(task, {}))


def _value(value: Any) -> str:
    """Return a cell of a job table as text: six significant digits, empty for a gap."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)
