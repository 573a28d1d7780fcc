"""GPUs that are free, on nodes where the first waiting job does not fit (rule 23 of docs/semantics.md).

A job within a node fits on a node with as many free GPUs, a wider one on nodes that are wholly free. All other free
GPUs are *fragmented* for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.gpu_nodes import gpus_by_node, node_changes
from wattqueue.model.holding import longest_waiting
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule


def fragmented_gpus(jobs: Jobs, schedule: Schedule, machine: Machine) -> float | None:
    """Return the mean over time of GPUs that are fragmented for the job that has waited longest.

    From the first submission to the last end; 0 while none waits. Of its partition; all nodes count as up. None where
    no GPUs are given by node.
    """
    of_node = gpus_by_node(machine, jobs.extra)
    if not of_node.any() or not schedule.ran.any():
        return None
    ran = schedule.ran
    times = np.unique(np.concatenate((schedule.start_s[ran], schedule.end_s[ran], jobs.submit_s)))
    begin, end = float(jobs.submit_s.min()), float(schedule.end_s[ran].max())
    times = times[(times >= begin) & (times <= end)]
    head = longest_waiting(jobs, schedule, times)
    part = machine.option_partition[np.maximum(schedule.option, 0)]
    where = np.where(head >= 0, part[head], -1)
    need = np.where(head >= 0, jobs.nodes[head], 0)
    found = np.zeros(len(times))
    for p in np.flatnonzero(of_node):
        here = np.flatnonzero(where == p)
        if len(here):
            found[here] = _fragmented(schedule, machine, int(p), int(of_node[p]), times, here, need[here])
    length = np.diff(times, append=end)
    return float((found * length).sum() / (end - begin)) if end > begin else None


def _fragmented(
    schedule: Schedule,
    machine: Machine,
    p: int,
    of_node: int,
    times: Floats,
    here: NDArray[np.int64],
    need: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the fragmented GPUs of partition p at times ``here``, for jobs of ``need`` units. Shapes (k,)."""
    at, before, after = node_changes(schedule, machine, p, of_node, times)
    each, found = np.minimum(need, of_node), np.zeros(len(here), np.int64)
    for units in range(1, of_node):
        change = np.bincount(at, units * ((after == units).astype(np.int64) - (before == units)), len(times))
        found += np.where(each > units, np.cumsum(change)[here].astype(np.int64), 0)
    return found
