"""Spans of time as people write them (``30min``, ``24h``, ``2d``), and dates whose offset from UTC is wrong.

Options such as ``--default-walltime`` take them. A bare number is seconds, as everywhere inside WattQueue. Compound
forms (``1h30min``) are not accepted: they would be one more thing to explain, and ``90min`` says the same.

Examples: ``24h`` = 86,400 s, ``1.5h`` = 5,400 s, ``90min`` = 5,400 s, ``2d`` = 172,800 s, ``3600`` = 3,600 s.

Dates whose offset from UTC is wrong: found where time does not rise, repaired from the rows around them.

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

from wattqueue.errors import InputError
from wattqueue.model.bounds import DURATION_S


def duration_s(text: str | None, where: str) -> float | None:
    """Return the seconds of ``30min``, ``24h``, ``2d`` or a bare number; None for None.

    ``where`` is the option as errors name it. ``min`` is tried before ``s`` and ``h`` since the endings overlap
    only in what follows the number; the unit is not sensitive to case.

    Raises: InputError for anything else, and for spans outside ``bounds.DURATION_S``.
    """
    if text is None:
        return None
    # Without a suffix ``unit.get`` gives 1: the number is seconds.
    unit = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
    stripped = text.strip().lower()
    suffix = next((u for u in ("min", "s", "h", "d") if stripped.endswith(u)), "")
    try:
        value = float(stripped.removesuffix(suffix)) * unit.get(suffix, 1.0)
    except ValueError:
        value = -1.0  # below every limit, so that text and figures out of range share one error
    if not DURATION_S.low <= value <= DURATION_S.high:
        raise InputError(
            f"{text!r} is not a time of {DURATION_S.text}", where=where, hint="for example 24h, 90min or 3600"
        )
    return value


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
