"""Jobs with a memory requirement: how many nodes of each partition it needs, and where a job fits as requested.

Traces with a memory column and machines with ``memory_gb`` use this; without either, every function returns what the
jobs ask for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.order._eligible import allowed_by_user

MEMORY = "memory_gb"
"""Column of ``Jobs.extra``: memory of the whole job in GB, NaN for none."""


def with_needed_units(jobs: Jobs, machine: Machine) -> Jobs:
    """Return the jobs with the units that their GPUs (``parts.gpus``) and their memory need on a machine."""
    return with_nodes_for_memory(with_units(jobs, machine), machine)


def with_units(jobs: Jobs, machine: Machine) -> Jobs:
    """Return the jobs with the units that their GPUs need, where they ask for some and the machine has any."""
    if "gpus" not in jobs.extra or not any(part.gpus_per_node for part in machine.partitions):
        return jobs
    from wattqueue.parts.gpus import with_units_for_gpus

    return with_units_for_gpus(jobs, machine)


def nodes_for_memory(jobs: KnownJobs, machine: Machine) -> NDArray[np.int64]:
    """Return the units that each job needs on each partition: as requested, or more for its memory. Shape (n, P).

    Reference: paper 1, section 3.4 (a new number of nodes will be calculated).
    """
    asked = np.repeat(jobs.nodes.astype(np.int64)[:, np.newaxis], len(machine.partitions), 1)
    wanted = jobs.extra.get(MEMORY)
    if wanted is None:
        return asked
    total = np.nan_to_num(np.asarray(wanted, np.float64), nan=0.0)
    for p, part in enumerate(machine.partitions):
        if part.memory_gb is not None:
            # A unit may be a socket or a core: it has its share of the node's memory.
            of_unit = part.memory_gb * part.nodes / part.units
            asked[:, p] = np.maximum(asked[:, p], np.ceil(total / of_unit).astype(np.int64))
    return asked


def with_nodes_for_memory(jobs: Jobs, machine: Machine) -> Jobs:
    """Return the jobs, wider where their memory demands it: as many nodes as the partition with most memory needs.

    Of the partitions that its user allows. A job keeps one node count wherever it runs, so partitions that would need
    more are not offered to it (the orders of EAMC check with ``nodes_for_memory``). A job whose memory fits nowhere
    keeps its width.
    """
    if MEMORY not in jobs.extra or all(p.memory_gb is None for p in machine.partitions):
        return jobs
    known = KnownJobs.of(jobs)
    needed = nodes_for_memory(known, machine)
    fits = (needed <= np.array([p.units for p in machine.partitions])) & allowed_by_user(known, machine)
    least = np.where(fits, needed, np.iinfo(np.int64).max).min(1)
    nodes = np.where(fits.any(1), np.maximum(jobs.nodes, least), jobs.nodes)
    return replace(jobs, nodes=nodes.astype(np.int32))
