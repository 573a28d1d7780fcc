"""What Python parts see of a view: the queue in order, the running jobs by expected end."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import direct, lent, wide
from wattqueue.kernels.greedy import next_partition
from wattqueue.kernels.state import Array, View
from wattqueue.kernels.tree import CLASSES, Limits, tree_next

INF = float("inf")


@direct
def list_queue(view: View, out: Array) -> int:
    """Write the queued entries in the global order; returns how many."""
    view = lent(view)
    everything = Limits(codes.ANY_NEED, codes.ANY_WATT, INF, codes.ANY_NEED, codes.ANY_WATT, CLASSES - 1, CLASSES - 1)
    for p in range(len(view.units.free)):
        view.promise.candidate[p] = tree_next(view.tree, p, 0, everything)
    k = 0
    p = next_partition(view)
    while p >= 0 and k < len(out):
        leaf = view.promise.candidate[p]
        out[k] = view.entries.start[p] + leaf
        k += 1
        view.promise.candidate[p] = -1
        if leaf + 1 < view.tree.size[p, 0]:
            view.promise.candidate[p] = tree_next(view.tree, p, leaf + 1, everything)
        p = next_partition(view)
    return k


@direct
def list_running(view: View, out: Array) -> int:
    """Write the rows of running jobs by expected end; returns how many."""
    view = lent(view)
    k = 0
    for at in range(view.counter[codes.BLOCKS]):
        block = wide(view.running.order[at])
        for i in range(view.running.filled[block]):
            out[k] = view.running.job[block, i]
            k += 1
    return k
