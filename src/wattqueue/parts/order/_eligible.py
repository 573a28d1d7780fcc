"""Partitions that each job fits and is allowed to use, whatever their watts (for ``fcfs``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine

Ints = NDArray[np.int32]


def eligible(jobs: KnownJobs, machine: Machine) -> tuple[Ints, Ints]:
    """Return job and partition of every pair that could run, job by job, partitions in the machine's order.

    A job fits a partition with enough units. A partition that the job names restricts it, if the
    machine has one of that name; on a machine with a single partition, names in a trace are ignored: traces
    often come from elsewhere.
    Shapes (m,).
    """
    fits = np.stack([jobs.nodes <= p.units for p in machine.partitions], axis=1)
    if len(machine.partitions) > 1:
        fits &= allowed_by_user(jobs, machine)
    if fits.shape[1] == 1:
        job = np.flatnonzero(fits[:, 0]).astype(np.int32)
        return job, np.zeros(len(job), np.int32)
    rows, columns = np.nonzero(fits)
    return rows.astype(np.int32), columns.astype(np.int32)


def allowed_by_user(jobs: KnownJobs, machine: Machine) -> NDArray[np.bool_]:
    """Return which partitions the user's choice leaves each job. Shape (n, P); an unknown name restricts nothing."""
    names = [p.name for p in machine.partitions]
    known = np.array([names.index(n) if n in names else -1 for n in (*jobs.partition.names, "")], np.int64)
    wanted = known[jobs.partition.codes]
    columns = np.arange(len(names))
    allowed: NDArray[np.bool_] = (wanted[:, np.newaxis] < 0) | (wanted[:, np.newaxis] == columns)
    return allowed
