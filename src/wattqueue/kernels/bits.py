"""Operations on words of 64 bits: the lowest set bit, the length of a run of set bits, masks.

Sets of up to 64 things are words: free units (``placement``), children of a tree node that may hold a candidate
(``tree``), rows of a plan that have enough left (``plan``). Bit 0 stands for the first thing.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._numba import inlined, trailing_zeros

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ZERO = np.uint64(0)


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Return the number of the lowest set bit. ``word`` must not be 0: the instruction gives anything then."""
    return int(np.int64(trailing_zeros(word)))


@inlined
def run_length(word: np.uint64, bit: int) -> int:
    """Return how many bits from ``bit`` on are set without a gap, at most to the end of the word."""
    gaps = ~(word >> np.uint64(bit))
    if gaps == ZERO:
        return 64
    return min(lowest_bit(gaps), 64 - bit)


@inlined
def mask(bit: int, length: int) -> np.uint64:
    """Return a word with ``length`` set bits from ``bit`` on; a shift by 64 would be undefined."""
    if length >= 64:
        return ALL
    return np.uint64(((ONE << np.uint64(length)) - ONE) << np.uint64(bit))
