"""A binary heap of (time, id), ties by id, in which the time of an id can be changed or taken out.

``count`` is an int64 array and ``slot`` the place in it where the heap's length stands.
"""

from __future__ import annotations

from wattqueue.kernels._jit import inlined, kernel, wide
from wattqueue.kernels.state import Array, Heap


@inlined
def heap_before(heap: Heap, i: int, k: int) -> bool:
    """Whether row i comes before row k."""
    if heap.time[i] != heap.time[k]:
        return bool(heap.time[i] < heap.time[k])
    return bool(heap.item[i] < heap.item[k])


@inlined
def heap_swap(heap: Heap, i: int, k: int) -> None:
    """Exchange two rows."""
    time = heap.time[i]
    item = wide(heap.item[i])
    heap.time[i] = heap.time[k]
    heap.item[i] = heap.item[k]
    heap.time[k] = time
    heap.item[k] = item
    heap.place[heap.item[i]] = i
    heap.place[heap.item[k]] = k


@inlined
def heap_up(heap: Heap, i: int) -> None:
    """Move row i towards the top until it fits."""
    while i > 0:
        parent = (i - 1) >> 1
        if not heap_before(heap, i, parent):
            return
        heap_swap(heap, i, parent)
        i = parent


@inlined
def heap_down(heap: Heap, length: int, i: int) -> None:
    """Move row i away from the top until it fits."""
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
def heap_push(heap: Heap, count: Array, slot: int, time: float, item: int) -> None:
    """Add ``item`` at ``time``."""
    i = wide(count[slot])
    heap.time[i] = time
    heap.item[i] = item
    heap.place[item] = i
    count[slot] = i + 1
    heap_up(heap, i)


@kernel
def heap_remove(heap: Heap, count: Array, slot: int, item: int) -> None:
    """Take ``item`` out, wherever it stands."""
    i = wide(heap.place[item])
    last = int(count[slot]) - 1
    count[slot] = last
    if i != last:
        heap_swap(heap, i, last)
        heap_up(heap, i)
        heap_down(heap, last, i)
    heap.place[item] = -1
