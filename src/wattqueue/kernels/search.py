"""Search in a sorted column."""

from __future__ import annotations

from wattqueue.kernels._jit import inlined
from wattqueue.kernels.state import Array


@inlined
def first_from(column: Array, low: int, high: int, least: float) -> int:
    """The first row of ``low`` to ``high`` that holds at least ``least``; ``high`` if none before it does."""
    while low < high:
        mid = (low + high) >> 1
        if column[mid] < least:
            low = mid + 1
        else:
            high = mid
    return int(low)
