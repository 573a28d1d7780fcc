"""Sums of products that are equal to the last bit on every machine: energies are compared by digests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20
"""Rows of one block; numpy sums a block pairwise, so the result depends on this number. Changing it changes digests."""


def sum_of_products(a: NDArray[Any], b: NDArray[np.float64]) -> float:
    """Return the sum of a times b, such as watts times seconds. Shapes (n,).

    Block by block, so that 50 million rows need no second table; not by BLAS, whose last digit depends on the number
    of threads.
    """
    blocks = (slice(i, i + _BLOCK) for i in range(0, len(b), _BLOCK))
    return float(sum((a[rows] * b[rows]).sum() for rows in blocks))
