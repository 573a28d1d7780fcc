"""The job table of WattQueue itself, as CSV or Parquet (``formats.table``)."""

from __future__ import annotations

from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import NOT, SURE, ReadOptions, WorkloadFile, WorkloadFormat


def recognise(file: WorkloadFile) -> int:
    """Return SURE for a file with either telling column, or with the comment that ``write_table`` puts first.

    Either, so that a table that lacks the other is refused by its reader with the name that is missing.
    """
    ours = file.lines[:1] and file.lines[0].startswith("# wattqueue jobs")
    return SURE if ours or {"submit_s", "runtime_s"} & file.columns else NOT


def read(file: WorkloadFile, options: ReadOptions) -> Workload:
    """Return our own table. It has no unusable rows: such a table is refused as a whole. Raises: InputError."""
    from wattqueue.formats.table.job_table import read_table

    jobs = read_table(file.path, default_walltime_s=options.default_walltime_s)
    return Workload(jobs, Unusable(), FORMAT.kind, len(jobs))


FORMAT = WorkloadFormat("table", "our own table (submit_s, nodes, runtime_s)", recognise, read)
