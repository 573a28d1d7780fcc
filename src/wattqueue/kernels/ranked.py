"""Which units a start takes where they are taken by rank, or differ in watts (rule 12 of docs/semantics.md).

``ByUnit.order`` lists the units of each partition in the order of placement, a row for each application, or one row
for all. ``Units.by_rank`` has the free ones of each row as bits, by place in that order: ``choose_units`` reads the
first ones and writes them to ``chosen``; ``take_chosen`` takes these. A unit that is taken or freed changes a bit in
every row, some 2 ns each; a walk over the order of 5,268 units, most of them busy, took 6 µs for each entry tried.

In the interval log the units of a job stand by number, as everywhere: reports and releases rely on it.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._numba import as_int64, separate
from wattqueue.kernels.bits import ONE, ZERO, lowest_bit, mask, run_length
from wattqueue.kernels.state import KernelView, Units
from wattqueue.kernels.unit_allocation import add_run, note_empty


@separate
def choose_units(view: KernelView, p: int, job: int) -> None:
    """Write the units that a start of ``job`` in partition p would take to ``chosen``, in the order of placement.

    There must be enough free ones.
    """
    units, by_unit = view.units, view.by_unit
    row = as_int64(by_unit.row[job]) if by_unit.order.shape[0] > 1 else 0
    first, words = units.unit_start[p], units.word_start[p]
    found, need, w = 0, view.nodes[job], words
    while found < need:
        word = units.by_rank[row, w]
        base = first + (w - words) * 64
        while found < need and word != ZERO:
            by_unit.chosen[found] = by_unit.order[row, base + lowest_bit(word)]
            found += 1
            word &= word - ONE
        w += 1


@separate
def give_place(units: Units, p: int, unit: int) -> None:
    """Mark a unit of partition p free in every order of placement."""
    for row in range(units.place.shape[1]):
        place = units.place[unit, row]
        units.by_rank[row, units.word_start[p] + (place >> 6)] |= ONE << np.uint64(place & 63)


@separate
def take_place(units: Units, p: int, unit: int) -> None:
    """Mark a unit of partition p taken in every order of placement."""
    for row in range(units.place.shape[1]):
        place = units.place[unit, row]
        units.by_rank[row, units.word_start[p] + (place >> 6)] &= ~(ONE << np.uint64(place & 63))


@separate
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
        take_place(units, p, as_int64(view.by_unit.chosen[k]))
        low = min(low, w)
        high = max(high, w)
    filled = view.now.intervals
    held.first[job] = filled
    behind = -1
    for w in range(low, high + 1):
        word = mark[w]
        if word == ZERO:
            continue
        mark[w] = ZERO
        units.word[w] &= ~word
        note_empty(units, w)
        base = units.unit_start[p] + (w - units.word_start[p]) * 64
        while word != ZERO:
            bit = lowest_bit(word)
            length = run_length(word, bit)
            word &= ~mask(bit, length)
            filled = add_run(held, filled, behind, base + bit, length)
            behind = base + bit + length
    units.free[p] -= view.nodes[job]
    held.pieces[job] = filled - held.first[job]
    view.now.intervals = filled
