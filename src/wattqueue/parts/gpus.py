"""Jobs that ask for GPUs: how many units of each partition they need, and what one of these draws.

A job table with the column ``gpus`` (GPUs of the whole job; 0 or empty for none) counts ``nodes`` in nodes, and its
watts are of one node, whatever the units of the machine are. On a machine without GPUs the column is not looked at.

A need belongs to the entry: two nodes are two units of a partition of nodes, and eight of one whose unit is a GPU, of
four a node. Kernels know one number of units a job. So a job gets the least that any partition of its user's choice
needs, and no entry where it would need another number (``fitting``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import NODES_ASKED, Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.order._eligible import allowed_by_user

GPUS = "gpus"
"""Column of ``Jobs.extra``: GPUs of the whole job."""
NEVER = np.iinfo(np.int64).max
"""Units of a partition on which a job cannot run."""


def with_units_for_gpus(jobs: Jobs, machine: Machine) -> Jobs:
    """Return the jobs in units of the machine, with watts of one unit; as they are without a column of GPUs.

    The watts above idle of a job's nodes are shared out to its units. Power profiles are of nodes: they are left out
    where units are GPUs.
    """
    if GPUS not in jobs.extra or not any(part.gpus_per_node for part in machine.partitions):
        return jobs
    asked = replace(jobs, extra={**jobs.extra, NODES_ASKED: jobs.nodes.astype(np.int64)})
    needed = units_for_gpus(asked, machine)
    usable = np.where(allowed_by_user(KnownJobs.of(jobs), machine), needed, NEVER)
    first = usable.argmin(axis=1)
    least = usable[np.arange(len(jobs)), first]
    units = np.where(least == NEVER, jobs.nodes, least)
    idle = np.array([part.idle_w for part in machine.partitions])[first]
    of_node = np.array([part.units_per_node for part in machine.partitions])[first]
    mean_w, max_w = (
        None if watts is None else _of_unit(watts, idle, of_node, jobs.nodes / units)
        for watts in (jobs.mean_power_w, jobs.max_power_w)
    )
    by_gpu = any(part.unit == "gpu" for part in machine.partitions)
    profiles = None if by_gpu else jobs.profiles
    return replace(asked, nodes=units.astype(np.int32), profiles=profiles, mean_power_w=mean_w, max_power_w=max_w)


def _of_unit(watts: Floats, idle_w: Floats, of_node: NDArray[np.int64], nodes_a_unit: Floats) -> Floats:
    """Return watts of one unit from those of a node of ``of_node`` units: idle, and its part of what is above."""
    above = np.maximum(watts - of_node * idle_w, 0.0)
    same = nodes_a_unit * of_node == 1.0
    return np.where(same & (of_node == 1), watts, idle_w + above * nodes_a_unit)


def units_for_gpus(jobs: Jobs | KnownJobs, machine: Machine) -> NDArray[np.int64]:
    """Return the units that each job needs on each partition, ``NEVER`` where it cannot run. Shape (n, P).

    ``jobs`` come from ``with_units_for_gpus``.
    """
    nodes = np.asarray(jobs.extra[NODES_ASKED], np.int64)
    gpus = np.nan_to_num(np.asarray(jobs.extra[GPUS], np.float64)).astype(np.int64)
    return np.stack([_units(part, nodes, gpus) for part in machine.partitions], axis=1)


def _units(part: Partition, nodes: NDArray[np.int64], gpus: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the units of a partition that jobs need, by their nodes and GPUs. Shapes (n,)."""
    whole = part.units_per_node
    if not part.gpus_per_node:
        return np.where(gpus > 0, NEVER, nodes * whole)
    # As many nodes as the job asks for, where its GPUs a node are known and a node has them, else as few as hold all.
    fewest = -(-gpus // part.gpus_per_node)
    known = (gpus % np.maximum(nodes, 1) == 0) & (gpus // np.maximum(nodes, 1) <= part.gpus_per_node)
    wide = np.where(known, nodes, np.maximum(fewest, np.where(gpus > 0, 1, nodes)))
    if part.unit == "gpu":
        return np.where((wide == 1) & (gpus > 0), gpus, wide * whole)
    return wide


def notes_of(jobs: Jobs) -> dict[str, int]:
    """Return counts of what a reader should know of a run of ``jobs``, from ``with_units_for_gpus``."""
    return {"jobs whose GPUs a node are not known: as few nodes as hold their GPUs": int(unknown_by_node(jobs).sum())}


def unknown_by_node(jobs: Jobs) -> NDArray[np.bool_]:
    """Return which jobs leave open how many GPUs each of their nodes has: the total is no multiple. Shape (n,)."""
    gpus = np.nan_to_num(np.asarray(jobs.extra.get(GPUS, np.zeros(len(jobs))), np.float64)).astype(np.int64)
    found: NDArray[np.bool_] = gpus % np.maximum(np.asarray(jobs.extra.get(NODES_ASKED, jobs.nodes)), 1) != 0
    return found


def fitting(jobs: Jobs, machine: Machine) -> NDArray[np.bool_]:
    """Return on which partitions each job needs no more units than it has. Shape (n, P).

    ``jobs`` come from ``with_units_for_gpus``.
    """
    return np.asarray(units_for_gpus(jobs, machine) <= jobs.nodes[:, np.newaxis], np.bool_)
