"""Which units a start takes where they are taken by rank, or differ in watts (rule 12 of docs/semantics.md).

``ByUnit.order`` lists the units of each partition in the order of placement, a row for each application, or one row
for all. ``choose_units`` walks it and writes the first free ones to ``chosen``; ``take_chosen`` takes these. In the
interval log the units of a job stand by number, as everywhere: reports and releases rely on it.

A partition's walk begins at its first place in the order. It costs about 1 ns for each unit, busy ones included, which
is less than keeping a bitmap of free units in the order of every application.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel
from wattqueue.kernels.bits import ONE, ZERO, lowest_bit, mask, run_length
from wattqueue.kernels.state import KernelView


@kernel
def choose_units(view: KernelView, p: int, job: int) -> None:
    """Write the units that a start of ``job`` in partition p would take to ``chosen``, in the order of placement.

    There must be enough free ones.
    """
    units, by_unit = view.units, view.by_unit
    row = as_int64(by_unit.row[job]) if by_unit.order.shape[0] > 1 else 0
    first, words = units.unit_start[p], units.word_start[p]
    place, found, need = first, 0, view.nodes[job]
    while found < need:
        unit = by_unit.order[row, place]
        i = unit - first
        if (units.word[words + (i >> 6)] >> np.uint64(i & 63)) & ONE:
            by_unit.chosen[found] = unit
            found += 1
        place += 1


@kernel
def take_chosen(view: KernelView, p: int, job: int) -> None:
    """Give ``job`` the units in ``chosen``, all of partition p.

    They are marked in ``mark``, a bitmap like that of free units, and read from it by number: that sorts them.
    """
    units, held, mark = view.units, view.held, view.by_unit.mark
    low = as_int64(units.word_start[p + 1])
    high = as_int64(0)
    for k in range(view.nodes[job]):
        i = view.by_unit.chosen[k] - units.unit_start[p]
        w = as_int64(units.word_start[p] + (i >> 6))
        mark[w] |= ONE << np.uint64(i & 63)
        low = min(low, w)
        high = max(high, w)
    filled = view.counter[codes.INTERVALS]
    held.first[job] = filled
    behind = -1  # the number behind the last unit taken: a run that begins there extends the last interval
    for w in range(low, high + 1):
        word = mark[w]
        if word == ZERO:
            continue
        mark[w] = ZERO
        units.word[w] &= ~word
        if units.word[w] == ZERO:
            units.filled[w >> 6] &= ~mask(w & 63, as_int64(1))
        base = units.unit_start[p] + (w - units.word_start[p]) * 64
        while word != ZERO:
            bit = lowest_bit(word)
            length = run_length(word, bit)
            word &= ~mask(bit, length)
            if base + bit != behind:
                held.low[filled] = base + bit
                filled += 1
            behind = base + bit + length
            held.high[filled - 1] = behind - 1
    units.free[p] -= view.nodes[job]
    held.pieces[job] = filled - held.first[job]
    view.counter[codes.INTERVALS] = filled
