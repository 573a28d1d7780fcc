"""Running jobs sorted by expected end, in blocks with sums: a shadow time without a scan of all of them.

A sorted list in which insertion, removal and "when are so many units and watts free?" are all cheap. Jobs stand in
blocks of up to 64 rows; ``order`` lists the blocks in use by time, then the spare ones::

    order     2     0     1  |  3   4 ...            BLOCKS = 3 blocks in use
              |     |     |
    end      10 10 12     15 20     21 30 30         rows of a block by expected end
    job       7  1  4      2  9      5  3  8
    net     ...                                      net microwatts that the ledger counts
    filled    3            2         3
    last_end 12           20        30               for the search of a block
    net_sum, nodes_sum, square_sum                   sums over the rows, for whole blocks at once

* Insertion finds the block by a binary search over the blocks and shifts at most 63 rows; a full block is cut in two.
* Removal shifts rows, and joins a sparse block with a sparse neighbour, so that blocks stay few.
* ``greedy.reserve`` adds whole blocks by their sums, and looks at single jobs in one block only.

Insertion and removal also keep the ledger (``ledger.change_ledger``), and nothing else does while a job starts,
changes or ends. With 30,000 running jobs a linear scan made passes ten times slower.

Invariants, checked after every step in tests/kernels/test_running.py: rows of a block rise, blocks follow one another,
sums are those of the rows, no block in use is empty, and the ledger is the sum over all rows.
"""

from __future__ import annotations

from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.chance import square_kept
from wattqueue.kernels.fresh import BLOCK
from wattqueue.kernels.ledger import change_ledger
from wattqueue.kernels.state import KernelView

MERGE_BELOW = BLOCK // 2


@inlined
def running_partition(view: KernelView, job: int) -> int:
    """Return the partition in which ``job`` runs."""
    return as_int64(view.units.option_partition[view.held.option[job]])


@inlined
def running_find(view: KernelView, end: float) -> int:
    """Return the position (in ``order``) of the first block whose last end is at or behind ``end``.

    BLOCKS, the number of blocks in use, if every block ends before it.
    """
    low = 0
    high = as_int64(view.now.blocks)
    while low < high:
        mid = (low + high) >> 1
        if view.running.last_end[view.running.order[mid]] < end:
            low = mid + 1
        else:
            high = mid
    return low


@kernel
def running_sum(view: KernelView, block: int) -> None:
    """Recompute the sums and the last end of ``block`` from its rows.

    Needed where rows move between blocks; single insertions and removals change the sums by one job.
    """
    running = view.running
    for p in range(len(view.units.free)):
        running.nodes_sum[block, p] = 0
    net = 0
    squares = 0
    for k in range(running.filled[block]):
        job = as_int64(running.job[block, k])
        net += running.net[block, k]
        squares += square_kept(view, job, as_int64(running.net[block, k]))
        running.nodes_sum[block, running_partition(view, job)] += view.nodes[job]
    running.net_sum[block] = net
    running.square_sum[block] = squares
    if running.filled[block] > 0:
        running.last_end[block] = running.end[block, running.filled[block] - 1]


@kernel
def running_open(view: KernelView, at: int) -> int:
    """Put an empty block at position ``at`` of the order; return it.

    It is the first of the spare ones, which stand in ``order`` behind the blocks in use.
    """
    running = view.running
    used = view.now.blocks
    block = as_int64(running.order[used])
    for k in range(used, at, -1):
        running.order[k] = running.order[k - 1]
    running.order[at] = block
    running.filled[block] = 0
    view.now.blocks = used + 1
    running_sum(view, block)
    return int(block)


@kernel
def running_close(view: KernelView, at: int) -> None:
    """Return the block at position ``at`` to the spare ones."""
    running = view.running
    used = view.now.blocks - 1
    block = as_int64(running.order[at])
    for k in range(at, used):
        running.order[k] = running.order[k + 1]
    running.order[used] = block
    view.now.blocks = used


@kernel
def running_move(view: KernelView, source: int, begin: int, target: int) -> None:
    """Move the rows of ``source`` from ``begin`` on to the end of ``target``.

    Serves both to cut a full block (from its middle on) and to join two (from 0 on).
    """
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
def running_insert(view: KernelView, job: int, net: int) -> None:
    """Add ``job`` with ``net`` microwatts, and count it in the ledger.

    Its expected end and option must stand in ``held``. Among equal ends it comes last; a find by job (``running_row``)
    looks at all rows of that end.
    """
    running = view.running
    end = view.held.end[job]
    # An end behind all others goes to the last block.
    at = min(running_find(view, end), max(view.now.blocks - 1, 0))
    if view.now.blocks == 0:
        running_open(view, at)
    # A full block is cut in two halves, so that the next insertions into either find room.
    elif running.filled[running.order[at]] == BLOCK:
        fresh = running_open(view, at + 1)
        running_move(view, as_int64(running.order[at]), as_int64(BLOCK // 2), fresh)
        # The cut may have moved the place of the new row into the second half.
        if end > running.last_end[running.order[at]]:
            at += 1
    block = as_int64(running.order[at])
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
    running.square_sum[block] += square_kept(view, job, net)
    running.nodes_sum[block, running_partition(view, job)] += view.nodes[job]
    running.last_end[block] = running.end[block, running.filled[block] - 1]
    view.now.running += 1
    change_ledger(view, job, net, as_int64(1))


@inlined
def running_remove(view: KernelView, job: int) -> None:
    """Remove ``job``, and take its watts out of the ledger.

    The watts are those that were counted at its insertion, not what the prediction says now.
    """
    running = view.running
    at, k = running_place(view, job)
    block = as_int64(running.order[at])
    net = running.net[block, k]
    last = running.filled[block] - 1
    for i in range(k, last):
        running.end[block, i] = running.end[block, i + 1]
        running.job[block, i] = running.job[block, i + 1]
        running.net[block, i] = running.net[block, i + 1]
    running.filled[block] = last
    running.net_sum[block] -= net
    running.square_sum[block] -= square_kept(view, job, as_int64(net))
    running.nodes_sum[block, running_partition(view, job)] -= view.nodes[job]
    view.now.running -= 1
    change_ledger(view, job, net, as_int64(-1))
    if last > 0:
        running.last_end[block] = running.end[block, last - 1]
    running_tidy(view, at)


@kernel
def running_net(view: KernelView, job: int) -> int:
    """Return the net microwatts that the ledger counts for a running job."""
    at, k = running_place(view, job)
    return int(view.running.net[view.running.order[at], k])


@inlined
def running_place(view: KernelView, job: int) -> tuple[int, int]:
    """Return the position (in ``order``) of the block of a running job, and its row."""
    at = running_find(view, view.held.end[job])
    k = running_row(view, at, job)
    while k < 0:  # rows of equal ends may spread over several blocks
        at += 1
        k = running_row(view, at, job)
    return at, k


@inlined
def running_row(view: KernelView, at: int, job: int) -> int:
    """Return the row of ``job`` in the block at position ``at``, -1 if it is not in it.

    A binary search for its end, then a walk over the rows of that end.
    """
    running = view.running
    block = as_int64(running.order[at])
    end = view.held.end[job]
    low = 0
    high = as_int64(running.filled[block])
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
def running_tidy(view: KernelView, at: int) -> None:
    """Close the block at position ``at`` if it is empty; join it with a sparse neighbour.

    Joined blocks hold at most 32 of 64 rows, so that a job that comes and goes at a boundary does not cut and join
    forever.
    """
    running = view.running
    filled = running.filled[running.order[at]]
    if filled == 0:
        running_close(view, at)
    elif filled <= MERGE_BELOW:
        if at + 1 < view.now.blocks and filled + running.filled[running.order[at + 1]] <= MERGE_BELOW:
            running_join(view, at)
        elif at > 0 and filled + running.filled[running.order[at - 1]] <= MERGE_BELOW:
            running_join(view, at - 1)


@kernel
def running_join(view: KernelView, at: int) -> None:
    """Join the blocks at positions ``at`` and ``at + 1``."""
    running = view.running
    running_move(view, as_int64(running.order[at + 1]), as_int64(0), as_int64(running.order[at]))
    running_close(view, at + 1)
