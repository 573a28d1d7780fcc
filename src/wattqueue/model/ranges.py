"""Ranges of whole numbers written out: intervals of units, rows of jobs, samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ranges(first: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers from each of ``first`` on, ``lengths`` of them, one range behind the other.

    Shapes (k,), (k,), (sum of lengths,); a length may be 0.
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(lengths.sum())
