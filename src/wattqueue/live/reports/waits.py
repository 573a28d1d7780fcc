"""What waiting jobs wait for, and when each may start at the earliest, of all jobs at once (``why.json`` as arrays).

*At the earliest*: see ``live.reports.why``. Of a job with entries in several partitions the entry that may start first
counts.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Waits:
    """Jobs that wait for their turn, in the order of the policy. Arrays have the shape (n,)."""

    names: Sequence[str]
    nodes: NDArray[np.int64]
    """Nodes that each needs."""
    partition: NDArray[np.int64]
    watts: NDArray[np.int64]
    """Watts that each needs."""
    at_s: NDArray[np.float64]
    """When each may start at the earliest; inf where no limit of a running job says so."""
    for_watts: NDArray[np.bool_]
    """Whether watts alone, or watts longer than nodes, keep it from starting."""
    free: Sequence[int]
    """Free nodes of each partition."""
    free_w: int | None
    """Watts of the budget that are free; None without one."""
    ends: tuple[NDArray[np.float64], NDArray[np.int64]]
    """When running jobs end, and the watts that they give back until then. Shapes (e,)."""

    def held_by_watts(self) -> tuple[int, int]:
        """Return how many jobs the free nodes would serve now if there were watts, and on how many nodes.

        Jobs take nodes in the order of the policy; one that does not fit what is left is passed over.
        """
        left, jobs = list(self.free), 0
        rows = np.flatnonzero(self.for_watts)
        for p, nodes in zip(self.partition[rows].tolist(), self.nodes[rows].tolist(), strict=True):
            if 0 < nodes <= left[p]:
                left[p] -= nodes
                jobs += 1
        return jobs, sum(self.free) - sum(left)


def waits_of(values: Mapping[str, Any]) -> Waits:
    """Return the waiting jobs of a file of explanations that has turns.

    Raises: LookupError, TypeError, ValueError for values that are not what a controller writes.
    """
    turns, now_s, free_w = values["turns"], float(values["time_s"]), values["free_w"]
    job, partition, nodes, watts = (_decoded(turns[key]) for key in ("job", "partition", "nodes", "watts"))
    ends = values["ends"]
    end_s = np.array([np.inf if end[0] is None else end[0] for end in ends], np.float64)
    held = np.array([end[1:4] for end in ends], np.int64).reshape(-1, 3)
    nodes_s = np.full(len(job), now_s)
    for p, free in enumerate(values["free"]):
        mine, its = partition == p, held[:, 0] == p
        nodes_s[mine] = _when(nodes[job[mine]], free, now_s, end_s[its], held[its, 1])
    watts_s = nodes_s if free_w is None else _when(watts, free_w, now_s, end_s, held[:, 2])
    at_s = np.maximum(nodes_s, watts_s)
    order = np.lexsort((np.arange(len(job)), at_s, job))
    first = order[np.flatnonzero(np.diff(job[order], prepend=-1))]  # of each job the entry that starts first
    short = np.zeros(len(job), np.bool_) if free_w is None else (watts > free_w) & (watts_s >= nodes_s)
    names = turns["names"]
    return Waits(
        [names[k] for k in job[first].tolist()], nodes[job[first]], partition[first], watts[first], at_s[first],
        short[first], values["free"], free_w, (end_s, np.cumsum(held[:, 2])),
    )  # fmt: skip


def _decoded(text: str) -> NDArray[np.int64]:
    """Return a column of ``why_file``."""
    return np.frombuffer(base64.b64decode(text), "<i4").astype(np.int64)


def _when(
    wanted: NDArray[np.int64], free: float, now_s: float, end_s: NDArray[np.float64], more: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return when so much is free, if running jobs, in the order of their ends, give back what they hold."""
    have = np.concatenate(([free], free + np.cumsum(more)))
    # what is held is never negative, so that what is free rises; a later figure that is lower would free nothing
    row = np.searchsorted(np.maximum.accumulate(have), wanted, "left")
    times = np.concatenate(([now_s], end_s, [np.inf]))
    found: NDArray[np.float64] = times[row]
    return found
