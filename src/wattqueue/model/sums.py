"""Sums of products that are the same bytes on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20


def sum_of_products(a: NDArray[Any], b: NDArray[np.float64]) -> float:
    """Sum of a times b, such as watts times seconds. Shapes (n,).

    Block by block, so that 50 million rows need no second table; not BLAS, whose last digit hangs on how many
    threads it has.
    """
    blocks = (slice(i, i + _BLOCK) for i in range(0, len(b), _BLOCK))
    return float(sum((a[rows] * b[rows]).sum() for rows in blocks))
