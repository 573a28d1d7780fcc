"""Partitions that offer a job an option, and entries with a priority from its prediction row (for EAMC's orders)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Floats, Prediction
from wattqueue.parts.memory import nodes_for_memory


def allowed(jobs: KnownJobs, prediction: Prediction, machine: Machine) -> NDArray[np.bool_]:
    """Return where each job may have an entry. Shape (n, P).

    Excluded: partitions without an offered option (no binary for that hardware, no coefficients), partitions other
    than the one that the user named, and those where the job is too wide or its memory needs more nodes than it asks
    for. A job that may run nowhere has no entry, and the engine rejects it.
    """
    n, parts = len(jobs), len(machine.partitions)
    mine = by_job(offered(prediction, machine), prediction, n)
    own = np.array([p.name for p in machine.partitions])
    wanted = np.array([*(np.flatnonzero(own == name)[0] if name in own else -1 for name in jobs.partition.names), -1])
    # A name that the machine does not have (a trace from elsewhere) restricts nothing.
    asked = wanted[jobs.partition.codes][:, np.newaxis]
    by_user = (asked < 0) | (asked == np.arange(parts))
    units = np.array([p.units for p in machine.partitions])
    good: NDArray[np.bool_] = mine & by_user & (jobs.nodes[:, np.newaxis] <= units)
    good &= nodes_for_memory(jobs, machine) <= jobs.nodes[:, np.newaxis]
    return good


def offered(prediction: Prediction, machine: Machine) -> NDArray[np.bool_]:
    """Return which partitions offer a row at least one option (watts below infinity). Shape (C, P)."""
    usable = ~np.isposinf(prediction.power_w)
    first = machine.option_start[:-1]
    any_option: NDArray[np.bool_] = np.logical_or.reduceat(usable, first, axis=1)
    return any_option


def by_job(table: NDArray[Any], prediction: Prediction, n: int) -> NDArray[Any]:
    """Return the (C, P) table's row of each job. Shape (n, P)."""
    by_job: NDArray[Any] = table[prediction.rows(np.arange(n, dtype=np.int32))]
    return by_job


def entries_of(priority: Floats, good: NDArray[np.bool_]) -> Entries:
    """Return an entry wherever ``good``, job by job, partitions in their order. Shapes (n, P)."""
    job, partition = np.nonzero(good)
    return Entries(job.astype(np.int32), partition.astype(np.int32), priority[job, partition].astype(np.float64))
