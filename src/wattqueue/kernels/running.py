"""Running jobs sorted by expected end, in blocks with sums: the shadow time without a scan of all."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, kernel, wide
from wattqueue.kernels.chance import follow_margin
from wattqueue.kernels.state import View

BLOCK = 64
MERGE_BELOW = BLOCK // 2


@inlined
def running_partition(view: View, job: int) -> int:
    """The partition in which ``job`` runs."""
    return wide(view.units.option_partition[view.held.option[job]])


@inlined
def running_find(view: View, end: float) -> int:
    """Position (in ``order``) of the first block whose last end is at or behind ``end``."""
    low = 0
    high = wide(view.counter[codes.BLOCKS])
    while low < high:
        mid = (low + high) >> 1
        if view.running.last_end[view.running.order[mid]] < end:
            low = mid + 1
        else:
            high = mid
    return low


@kernel
def running_sum(view: View, block: int) -> None:
    """Recompute the sums of ``block`` from its rows."""
    running = view.running
    for p in range(len(view.units.free)):
        running.nodes_sum[block, p] = 0
    net = 0
    for k in range(running.filled[block]):
        job = wide(running.job[block, k])
        net += running.net[block, k]
        running.nodes_sum[block, running_partition(view, job)] += view.nodes[job]
    running.net_sum[block] = net
    if running.filled[block] > 0:
        running.last_end[block] = running.end[block, running.filled[block] - 1]


@kernel
def running_open(view: View, at: int) -> int:
    """Put an empty block at position ``at`` of the order; returns it."""
    running = view.running
    used = view.counter[codes.BLOCKS]
    block = wide(running.order[used])
    for k in range(used, at, -1):
        running.order[k] = running.order[k - 1]
    running.order[at] = block
    running.filled[block] = 0
    view.counter[codes.BLOCKS] = used + 1
    running_sum(view, block)
    return int(block)


@kernel
def running_close(view: View, at: int) -> None:
    """Give the block at position ``at`` back to the spare ones."""
    running = view.running
    used = view.counter[codes.BLOCKS] - 1
    block = wide(running.order[at])
    for k in range(at, used):
        running.order[k] = running.order[k + 1]
    running.order[used] = block
    view.counter[codes.BLOCKS] = used


@kernel
def running_move(view: View, source: int, begin: int, target: int) -> None:
    """Move the rows of ``source`` from ``begin`` on to the end of ``target``."""
    running = view.running
    k = running.filled[target]
    for i in range(begin, running.filled[source]):
        running.end[target, k] = running.end[source, i]
        running.job[target, k] = running.job[source, i]
        running.net[target, k] = running.net[source, i]
        k += 1
    running.filled[target] = k
    running.filled[source] = begin
    running_sum(view, source)
    running_sum(view, target)


@inlined
def running_insert(view: View, job: int, net: int) -> None:
    """Add ``job``, whose expected end and option stand in ``held``, with ``net`` watts."""
    running = view.running
    end = view.held.end[job]
    at = min(running_find(view, end), max(view.counter[codes.BLOCKS] - 1, 0))
    if view.counter[codes.BLOCKS] == 0:
        running_open(view, at)
    elif running.filled[running.order[at]] == BLOCK:
        fresh = running_open(view, at + 1)
        running_move(view, wide(running.order[at]), wide(BLOCK // 2), fresh)
        if end > running.last_end[running.order[at]]:
            at += 1
    block = wide(running.order[at])
    k = running.filled[block]
    while k > 0 and running.end[block, k - 1] > end:
        running.end[block, k] = running.end[block, k - 1]
        running.job[block, k] = running.job[block, k - 1]
        running.net[block, k] = running.net[block, k - 1]
        k -= 1
    running.end[block, k] = end
    running.job[block, k] = job
    running.net[block, k] = net
    running.filled[block] += 1
    running.net_sum[block] += net
    running.nodes_sum[block, running_partition(view, job)] += view.nodes[job]
    running.last_end[block] = running.end[block, running.filled[block] - 1]
    view.counter[codes.RUNNING] += 1
    view.counter[codes.LEDGER] += net
    view.counter[codes.AVAILABLE] -= net
    if view.counter[codes.BY_CHANCE] != 0:
        follow_margin(view, net, wide(1))


@inlined
def running_remove(view: View, job: int) -> None:
    """Take ``job`` out, and give its watts back."""
    running = view.running
    at = running_find(view, view.held.end[job])
    k = running_row(view, at, job)
    while k < 0:  # rows of equal ends may spread over several blocks
        at += 1
        k = running_row(view, at, job)
    block = wide(running.order[at])
    net = running.net[block, k]
    last = running.filled[block] - 1
    for i in range(k, last):
        running.end[block, i] = running.end[block, i + 1]
        running.job[block, i] = running.job[block, i + 1]
        running.net[block, i] = running.net[block, i + 1]
    running.filled[block] = last
    running.net_sum[block] -= net
    running.nodes_sum[block, running_partition(view, job)] -= view.nodes[job]
    view.counter[codes.RUNNING] -= 1
    view.counter[codes.LEDGER] -= net
    view.counter[codes.AVAILABLE] += net
    if view.counter[codes.BY_CHANCE] != 0:
        follow_margin(view, net, wide(-1))
    if last > 0:
        running.last_end[block] = running.end[block, last - 1]
    running_tidy(view, at)


@inlined
def running_row(view: View, at: int, job: int) -> int:
    """The row of ``job`` in the block at position ``at``, or -1."""
    running = view.running
    block = wide(running.order[at])
    end = view.held.end[job]
    low = 0
    high = wide(running.filled[block])
    while low < high:
        mid = (low + high) >> 1
        if running.end[block, mid] < end:
            low = mid + 1
        else:
            high = mid
    while low < running.filled[block] and running.end[block, low] == end:
        if running.job[block, low] == job:
            return low
        low += 1
    return -1


@inlined
def running_tidy(view: View, at: int) -> None:
    """Close an empty block; join it with a sparse neighbour, so that blocks stay few."""
    running = view.running
    filled = running.filled[running.order[at]]
    if filled == 0:
        running_close(view, at)
    elif filled <= MERGE_BELOW:
        if at + 1 < view.counter[codes.BLOCKS] and filled + running.filled[running.order[at + 1]] <= MERGE_BELOW:
            running_join(view, at)
        elif at > 0 and filled + running.filled[running.order[at - 1]] <= MERGE_BELOW:
            running_join(view, at - 1)


@kernel
def running_join(view: View, at: int) -> None:
    """Join the blocks at positions ``at`` and ``at + 1``."""
    running = view.running
    running_move(view, wide(running.order[at + 1]), wide(0), wide(running.order[at]))
    running_close(view, at + 1)
