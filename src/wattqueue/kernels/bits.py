"""Words of 64 bits: which bit is lowest, how far a run of them goes, masks."""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._jit import inlined, trailing_zeros

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ZERO = np.uint64(0)


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Number of the lowest set bit; ``word`` is not 0."""
    return int(trailing_zeros(word))


@inlined
def run_length(word: np.uint64, bit: int) -> int:
    """How many bits from ``bit`` on are set without a gap."""
    gaps = ~(word >> np.uint64(bit))
    if gaps == ZERO:
        return 64
    return min(lowest_bit(gaps), 64 - bit)


@inlined
def mask(bit: int, length: int) -> np.uint64:
    """``length`` set bits from ``bit`` on."""
    if length >= 64:
        return ALL
    return np.uint64(((ONE << np.uint64(length)) - ONE) << np.uint64(bit))
