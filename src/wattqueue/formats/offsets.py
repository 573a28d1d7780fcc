"""Dates whose offset from UTC is wrong: found where time does not rise, repaired from the rows around them.

Exports of market prices are known for single rows with another offset than their neighbours, such as
``03:00+00:00`` between ``02:00+01:00`` and ``04:00+01:00``. With a neighbour's offset the row stands where it
belongs. Nothing is repaired in silence: each repair is a ``Repair`` that the caller prints.

Used by ``series.read_steps``, which repairs only on request (``--repair``) and otherwise names the offset in its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

AROUND = 48
"""Rows before a fault from which the usual step is taken."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A row whose offset was taken from its neighbours: line of the file, the offset as written, and the new one."""

    line: int
    was: str
    now: str


def repair_offset(times: NDArray[Any], offsets: NDArray[Any], lines: NDArray[Any], row: int) -> Repair | None:
    """Repair ``times`` and ``offsets`` in place at the rows ``row``, ``row + 1``, where time does not rise.

    ``times`` are Unix seconds, ``offsets`` seconds ahead of UTC, NaN for times without a date; ``lines`` are for
    the report. Either row may be the wrong one. It takes the offset of the row before it, or of the one after it,
    if it then stands exactly one usual step (the median of the 48 steps before) after the row before it. Returns
    None, and changes nothing, where none fits: the rows are then out of order for another reason.
    """
    step = float(np.median(np.diff(times[max(0, row - AROUND) : row + 1]))) if row > 1 else 0.0
    if not step > 0 or np.isnan(offsets[row]):
        return None
    # The offset in place of the wrong one keeps the local time of the row: unix = local - offset.
    for wrong in (row, row + 1):
        for neighbour in (wrong - 1, wrong + 1):
            if not wrong > 0 or neighbour >= len(times) or offsets[neighbour] == offsets[wrong]:
                continue
            moved = times[wrong] + offsets[wrong] - offsets[neighbour]
            if moved == times[wrong - 1] + step and (wrong > row or moved < times[wrong + 1]):
                repair = Repair(int(lines[wrong]), offset_words(offsets[wrong]), offset_words(offsets[neighbour]))
                times[wrong], offsets[wrong] = moved, offsets[neighbour]
                return repair
    return None


def offset_words(offset_s: float) -> str:
    """Return an offset in seconds as people write it: ``+01:00``."""
    minutes = round(abs(offset_s) / 60)
    return f"{'-' if offset_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
