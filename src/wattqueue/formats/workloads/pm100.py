"""PM100: jobs of Marconi100 with their power (``formats.pm100``)."""

from __future__ import annotations

from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import ReadOptions, WorkloadFile, WorkloadFormat, parquet_with


def read(file: WorkloadFile, options: ReadOptions) -> Workload:
    """Return the jobs of the table. Raises: InputError."""
    from wattqueue.formats.pm100.jobs import read_pm100

    return read_pm100(file.path, options)


FORMAT = WorkloadFormat("pm100", "PM100 Parquet", parquet_with("submit_time", "num_nodes_alloc"), read)
