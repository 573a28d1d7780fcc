"""Instructions on several elements or bits at once, written out in Python that numba's documentation covers.

Plain mode compiles these functions, and without the compiler they run as they are. ``intrinsics.py`` has the same
four as single instructions; tests/kernels/test_words.py compares them. All of them check bounds, which the
instructions do not: both runs of the test suite without intrinsics also test the padding of trees and plans.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

AT_LEAST_LANES = 64
"""Elements that ``at_least`` reads from its place on."""

AT_MOST_LANES = 16
"""Elements that ``at_most`` and ``least_of`` read from their place on."""

_ONE = np.uint64(1)


def trailing_zeros(word: Any) -> int:
    """Return the number of zero bits below the lowest set bit of an unsigned 64-bit word that is not 0.

    The lowest bit alone is a power of two, which a float holds exactly.
    """
    return math.frexp(float(word & (~word + _ONE)))[1] - 1


def at_least(column: Any, at: int, number: Any) -> Any:
    """Return a bit for each of the 64 numbers of ``column`` from element ``at`` on: whether it is at least ``number``.

    The lowest bit stands for the first. Rows of a column of several dimensions follow one another. NaN is never.

    Raises: IndexError where the column ends before.
    """
    flat = column.reshape(-1)
    if at < 0 or at + AT_LEAST_LANES > flat.size:
        raise IndexError("elements behind the end of a column are read")
    bits = np.uint64(0)
    for k in range(AT_LEAST_LANES):
        if flat[at + k] >= number:
            bits |= _ONE << np.uint64(k)
    return bits


def at_most(column: Any, at: int, number: Any) -> Any:
    """Return the same for 16 numbers that are at most ``number``. Raises: IndexError as ``at_least``."""
    flat = column.reshape(-1)
    if at < 0 or at + AT_MOST_LANES > flat.size:
        raise IndexError("elements behind the end of a column are read")
    bits = np.uint64(0)
    for k in range(AT_MOST_LANES):
        if flat[at + k] <= number:
            bits |= _ONE << np.uint64(k)
    return bits


def least_of(column: Any, at: int) -> Any:
    """Return the least of the 16 numbers of ``column`` from element ``at`` on. Raises: IndexError as ``at_least``."""
    flat = column.reshape(-1)
    if at < 0 or at + AT_MOST_LANES > flat.size:
        raise IndexError("elements behind the end of a column are read")
    found = flat[at]
    for k in range(1, AT_MOST_LANES):
        found = min(found, flat[at + k])
    return found
