"""Series of nodes as ClusterCockpit records them: clock, load, FLOP/s, instructions per cycle, memory bandwidth, watts.

One row per job, node and sample (``job_id,host,t_s,clock,cpu_load,flops_any,ipc,mem_bw,rapl_power``). Gaps and samples
without watts (a failed reading is 0) are left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.codec import take
from wattqueue.model.jobs import Floats

ACTIVITY = ("cpu_load", "clock", "ipc", "flops_any", "mem_bw")
"""Columns that describe activity: load (cores), MHz, instructions per cycle, GFLOP/s, GB/s."""
COLUMNS = ("job_id", "host", "t_s", *ACTIVITY, "rapl_power")
"""Header."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeSeries:
    """Samples of one node during one job, in order of time.

    Attributes:
        job: The job.
        host: The node.
        time_s: Seconds since the job's start. Shape (k,).
        activity: Columns of ``ACTIVITY``. Shape (k, 5).
        watts: Watts of the node's sockets. Shape (k,).
        left_out: Samples with a gap or without watts.
    """

    job: str
    host: str
    time_s: Floats
    activity: Floats
    watts: Floats
    left_out: int

    def where(self, kept: NDArray[np.bool_]) -> NodeSeries:
        """Return some of the samples. Shape (k,)."""
        return take(self, kept)


def read_node_series(path: Path) -> list[NodeSeries]:
    """Return the series of each job and node (CSV, also gzipped), in the order of their first rows.

    Raises: InputError naming file, line and column for missing columns and what is no number.

    Reference: ClusterCockpit, test data of cc-backend (MIT).
    """
    frame, _ = csv_records.read(path, csv_records.having(COLUMNS), COLUMNS[2:])
    found = []
    for (job, host), rows in frame.group_by("job_id", "host", maintain_order=True):
        series = rows.sort("t_s")
        activity, watts = series.select(ACTIVITY).to_numpy(), series["rapl_power"].to_numpy()
        good = np.isfinite(activity).all(axis=1) & UNIT_W.holds(watts) & (watts > 0)
        time_s = series["t_s"].to_numpy()[good]
        left_out = int((~good).sum())
        found.append(NodeSeries(str(job), str(host), time_s, activity[good], watts[good], left_out))
    if not found:
        raise InputError("no samples", where=path, hint="one row per job, node and sample")
    return found
