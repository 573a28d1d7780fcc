"""The heap of events against a list sorted anew: order, ties by id, and items taken out of the middle."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import push, remove
from tests.reference.sorted_list import SortedList
from wattqueue.kernels.fresh import new_heap

IDS = 12
EVENTS = st.lists(st.tuples(st.integers(0, IDS - 1), st.sampled_from([0.0, 1.0, 1.0, 2.5, 7.0, np.inf])), max_size=60)


@given(EVENTS)
def test_the_heap_is_a_sorted_list(events: list[tuple[int, float]]) -> None:
    heap, twin = new_heap(IDS, IDS), SortedList()
    for item, time in events:
        if heap.place[item] >= 0:
            remove(heap, item)
            twin.heap_remove(item)
        else:
            push(heap, time, item)
            twin.heap_push(time, item)
        assert heap.filled[0] == len(twin.items)
        assert all((heap.place[k] >= 0) == (k in {i for _, i in twin.items}) for k in range(IDS))
        if twin.items:
            assert (heap.time[0], heap.item[0]) == twin.first()
    drained = []
    while heap.filled[0] > 0:
        drained.append((float(heap.time[0]), int(heap.item[0])))
        remove(heap, int(heap.item[0]))
    assert drained == sorted(twin.items)
