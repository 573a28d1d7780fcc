"""Binary search in a sorted column: expected ends, ranks, rows of a profile."""

from __future__ import annotations

from wattqueue.kernels._numba import inlined
from wattqueue.kernels.state import Array


@inlined
def first_from(column: Array, low: int, high: int, least: float) -> int:
    """Return the first row in ``low`` .. ``high - 1`` whose value is at least ``least``; ``high`` if there is none.

    ``column`` must not fall between these rows. O(log(high - low)).
    """
    while low < high:
        mid = (low + high) >> 1
        if column[mid] < least:
            low = mid + 1
        else:
            high = mid
    return int(low)
