"""Free GPUs of each node over time, where GPUs are given by node (rule 23 of docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import NODES_ASKED, Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.ranges import ranges
from wattqueue.model.schedule import HeldUnits, Schedule


def gpus_by_node(machine: Machine, columns: Container[str]) -> NDArray[np.int32]:
    """Return the GPUs of a node in partitions that give them by node, 0 for others. Shape (P,).

    Where a unit is a GPU, nodes have several, and jobs say how many GPUs they ask for: ``columns`` has ``NODES_ASKED``.
    """
    stated = NODES_ASKED in columns
    return np.array(
        [part.units_per_node if stated and part.unit == "gpu" and part.units_per_node > 1 else 0
         for part in machine.partitions],
        np.int32,
    )  # fmt: skip


def short_of_nodes(
    jobs: Jobs, schedule: Schedule, machine: Machine, times: Floats, head: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether too few nodes have free GPUs for a job at each time, in the partition where it ran. Shape (k,).

    ``head`` (k,) is that job, -1 for none. All nodes count as up.
    """
    found, of_node = np.zeros(len(times), np.bool_), gpus_by_node(machine, jobs.extra)
    part = np.where(head >= 0, machine.option_partition[np.maximum(schedule.option, 0)][head], -1)
    for p in np.flatnonzero(of_node):
        size, here = int(of_node[p]), part == p
        need = jobs.nodes[head]
        at, before, after = node_changes(schedule, machine, int(p), size, times)
        for units in np.unique(np.minimum(need[here], size)).tolist():
            change = np.bincount(at, (after >= units).astype(np.int64) - (before >= units), len(times))
            nodes = machine.partitions[p].nodes + np.cumsum(change)
            asks = here & (np.minimum(need, size) == units)
            found |= asks & (nodes < -(-need // size))
    return found


def node_changes(
    schedule: Schedule, machine: Machine, p: int, of_node: int, times: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return each change of a node's free units: place of its time, free units before and after it. Shapes (c,)."""
    held, first = HeldUnits.of(schedule), int(machine.unit_start[p])
    mine = schedule.ran[held.job] & (machine.option_partition[np.maximum(schedule.option, 0)][held.job] == p)
    job, low, high = held.job[mine], held.low[mine] - first, held.high[mine] - first
    count = (high // of_node - low // of_node + 1).astype(np.int64)
    node, row = ranges((low // of_node).astype(np.int64), count), np.repeat(np.arange(len(job)), count)
    units = np.minimum(high[row], (node + 1) * of_node - 1) - np.maximum(low[row], node * of_node) + 1
    at = np.searchsorted(times, np.concatenate((schedule.start_s[job[row]], schedule.end_s[job[row]])))
    node, change = np.concatenate((node, node)), np.concatenate((-units, units))
    order = np.lexsort((at, node))
    node, change = node[order], change[order]
    after = of_node + np.cumsum(change)  # each node ends wholly free, as it began
    return at[order], after - change, after
