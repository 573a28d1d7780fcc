"""Write out the queue and the running jobs of a view for parts in plain Python (``policy/view.py``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, bind, entry, referenced
from wattqueue.kernels.entries import is_delayed
from wattqueue.kernels.greedy import next_partition
from wattqueue.kernels.state import Array, KernelView
from wattqueue.kernels.tree import CLASSES, Limits, tree_next

INF = float("inf")


@referenced
class Listing(NamedTuple):
    """Where rows of jobs are written to."""

    rows: Array
    """int32, room for as many as there may be."""


@entry
def list_queue(view: KernelView, out: Array) -> int:
    """Write the queued entries in queue order (rule 5 of docs/semantics.md) to ``out``; return how many.

    Merges the partitions' trees: the candidate with the lowest rank comes first. Uses ``reserved.candidate`` as
    working space, which every pass sets again. O(q log m).
    """
    everything = Limits(codes.ANY_NEED, codes.ANY_WATT, INF, codes.ANY_NEED, codes.ANY_WATT, CLASSES - 1, CLASSES - 1)
    for p in range(len(view.units.free)):
        # A limit that lets everything through: the search returns every queued leaf, one after the other.
        view.reserved.candidate[p] = tree_next(view.tree, p, 0, everything)
    k = 0
    p = next_partition(view)
    while p >= 0 and k < len(out):
        leaf = view.reserved.candidate[p]
        index = view.entries.start[p] + leaf
        if not is_delayed(view, as_int64(view.entries.job[index])):
            out[k] = index
            k += 1
        view.reserved.candidate[p] = -1
        if leaf + 1 < view.tree.size[p, 0]:
            view.reserved.candidate[p] = tree_next(view.tree, p, leaf + 1, everything)
        p = next_partition(view)
    return k


@entry
def list_running(view: KernelView, out: Listing) -> int:
    """Write the rows of running jobs by expected end to ``out``; return how many.

    Ends of one instant stand in the order in which the jobs started.
    """
    k = 0
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for i in range(view.running.filled[block]):
            out.rows[k] = view.running.job[block, i]
            k += 1
    return k


class RunningList:
    """Lists the running jobs of one view again and again: controls ask for them at every call."""

    __slots__ = ("rows", "write")

    def __init__(self, view: KernelView) -> None:
        """Prepare for a view: room for as many jobs as its blocks can hold."""
        self.rows: NDArray[np.int32] = np.empty(view.running.job.size, np.int32)
        """Rows of jobs by expected end, as ``write`` found them."""
        self.write = bind(list_running, view, Listing(self.rows))
        """Writes ``rows`` and returns how many there are."""
