"""A binary heap of (time, id), ties by id, in which the time of an id can be changed or taken out.

Two heaps exist: completions (ids are jobs; a change of speed moves a job's end) and timers (ids are nodes that shut
down or boot; a failure cancels one). Ties by id give the order of events of one kind at one instant (rule 2 of
docs/semantics.md).

Layout: row 0 is the first event; the children of row i are rows 2i + 1 and 2i + 2. ``place[id]`` is the row of an id,
-1 while it is not in the heap: it makes removal from the middle O(log n). ``filled[0]`` rows are in use.
"""

from __future__ import annotations

from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.state import Heap


@inlined
def heap_before(heap: Heap, i: int, k: int) -> bool:
    """Return whether row i comes before row k: earlier, or at the same time with a lower id."""
    if heap.time[i] != heap.time[k]:
        return bool(heap.time[i] < heap.time[k])
    return bool(heap.item[i] < heap.item[k])


@inlined
def heap_swap(heap: Heap, i: int, k: int) -> None:
    """Exchange two rows, and their places."""
    time = heap.time[i]
    item = as_int64(heap.item[i])
    heap.time[i] = heap.time[k]
    heap.item[i] = heap.item[k]
    heap.time[k] = time
    heap.item[k] = item
    heap.place[heap.item[i]] = i
    heap.place[heap.item[k]] = k


@inlined
def heap_up(heap: Heap, i: int) -> None:
    """Move row i towards the top until its parent comes before it."""
    while i > 0:
        parent = (i - 1) >> 1
        if not heap_before(heap, i, parent):
            return
        heap_swap(heap, i, parent)
        i = parent


@inlined
def heap_down(heap: Heap, length: int, i: int) -> None:
    """Move row i away from the top until it comes before both children."""
    while True:
        child = 2 * i + 1
        if child >= length:
            return
        if child + 1 < length and heap_before(heap, child + 1, child):
            child += 1
        if not heap_before(heap, child, i):
            return
        heap_swap(heap, i, child)
        i = child


@kernel
def heap_push(heap: Heap, time: float, item: int) -> None:
    """Add ``item`` at ``time``.

    The item must not be in the heap, and there must be room (``new_heap``): one row for each job that can
    run, or for each unit.
    """
    i = as_int64(heap.filled[0])
    heap.time[i] = time
    heap.item[i] = item
    heap.place[item] = i
    heap.filled[0] = i + 1
    heap_up(heap, i)


@kernel
def heap_remove(heap: Heap, item: int) -> None:
    """Remove ``item``, wherever it stands.

    The last row takes its place; it may belong above or below, so it is moved both ways, one of which does nothing.
    """
    i = as_int64(heap.place[item])
    last = int(heap.filled[0]) - 1
    heap.filled[0] = last
    if i != last:
        heap_swap(heap, i, last)
        heap_up(heap, i)
        heap_down(heap, last, i)
    heap.place[item] = -1
