"""What taking units comes down to, whichever units are taken: the interval log, and words without a free unit.

Kernels of ``placement.py`` (the lowest numbers) and ``ranked.py`` (by rank) decide which units; a start of either kind
writes its runs of neighbouring units here, from the lowest number to the highest.
"""

from __future__ import annotations

from wattqueue.kernels._numba import as_int64, inlined
from wattqueue.kernels.bits import ZERO, mask
from wattqueue.kernels.state import Held, Units


@inlined
def add_run(held: Held, filled: int, behind: int, low: int, length: int) -> int:
    """Write a run of units from number ``low`` on to the interval log; return how many rows are filled then.

    ``behind`` is the number behind the run before it (-1: the job's first): one that begins there extends its row.
    """
    if low != behind:
        held.low[filled] = low
        filled += 1
    held.high[filled - 1] = low + length - 1
    return filled


@inlined
def note_empty(units: Units, w: int) -> None:
    """Clear the bit of word ``w`` in ``filled``, if no unit of it is free any more."""
    if units.word[w] == ZERO:
        units.filled[w >> 6] &= ~mask(w & 63, as_int64(1))
