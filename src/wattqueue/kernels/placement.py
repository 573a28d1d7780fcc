"""Free units as bits; a start takes the lowest numbers, or ranked ones, and writes them down as intervals.

Two levels of words of 64 bits::

    filled   ...0110                   a bit for each word below that is not 0
    word     0xF0  0x07  0x00 ...      a bit for each unit: free, powered and up
    units    4-7   64-66               numbers within the partition; unit_start[p] is added

Each partition begins with a word of its own (``word_start[p]``), so that a word never belongs to two of them. Taking n
units looks at each word that it empties, and finds the next one in ``filled``; with 158,976 units a start of 1,000
neighbouring units touches some 16 words. Sorted intervals, tried first, took ten times as long on machines that are
fragmented.

What a job gets is written to the interval log (``Held.low``, ``Held.high``), one row for each run of neighbouring
units. The log only grows; schedules, reports and releases read it.

Placement by rank is in ``kernels/ranked.py``. Words and bits are found by shifts: floor division of signed
numbers, as Python defines it, costs a branch.

Invariants, checked in tests/kernels/test_placement.py: ``free[p]`` is the number of set bits of the partition; a bit
of ``filled`` is set exactly where its word is not 0; no unit before word ``low[p]`` is free.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.bits import ONE, ZERO, lowest_bit, mask, run_length
from wattqueue.kernels.ranked import choose_units, give_place, take_chosen, take_place
from wattqueue.kernels.state import KernelView, Units
from wattqueue.kernels.unit_allocation import add_run, note_empty


@inlined
def next_word(units: Units, w: int) -> int:
    """Return the first word at ``w`` or behind it that is not 0. There must be one."""
    k = w >> 6
    group = units.filled[k] & ~(mask(as_int64(0), w & 63))
    while group == ZERO:
        k += 1
        group = units.filled[k]
    return k * 64 + lowest_bit(group)


@inlined
def take_units(view: KernelView, p: int, job: int) -> None:
    """Give ``job`` the first free units of partition p: by rank where there is one, else the lowest numbers.

    There must be enough: the caller has compared with ``free``. Units are taken word by word, in runs of set bits; a
    run that continues in the next word extends the last interval. ``low`` moves to the last word looked at: no unit
    before it is free any more.
    """
    if view.by_unit.order.shape[0] > 0:
        choose_units(view, p, job)
        take_chosen(view, p, job)
        return
    units = view.units
    held = view.held
    left = view.nodes[job]
    filled = view.now.intervals
    held.first[job] = filled
    w = units.low[p]
    behind = -1
    while left > 0:
        w = next_word(units, w)
        word = units.word[w]
        base = units.unit_start[p] + (w - units.word_start[p]) * 64
        while left > 0 and word != ZERO:
            bit = lowest_bit(word)
            length = min(run_length(word, bit), left)
            word &= ~mask(bit, length)
            filled = add_run(held, filled, behind, base + bit, length)
            behind = base + bit + length
            left -= length
        units.word[w] = word
        note_empty(units, w)
    units.low[p] = w
    units.free[p] -= view.nodes[job]
    held.pieces[job] = filled - held.first[job]
    view.now.intervals = filled


@inlined
def give_units(view: KernelView, p: int, job: int) -> None:
    """Free the units of ``job``, interval by interval. The intervals stay in the log."""
    held = view.held
    first = held.first[job]
    for k in range(first, first + held.pieces[job]):
        give_interval(view.units, p, as_int64(held.low[k]), as_int64(held.high[k]))
    look_from(view.units, p, as_int64(held.low[first]))  # its lowest: intervals are written in order
    view.units.free[p] += view.nodes[job]


@inlined
def look_from(units: Units, p: int, unit: int) -> None:
    """Lower the place from which free units of partition p are searched: ``unit`` is free."""
    units.low[p] = min(units.low[p], units.word_start[p] + ((unit - units.unit_start[p]) >> 6))


@inlined
def give_interval(units: Units, p: int, low: int, high: int) -> None:
    """Set the bits of units ``low`` .. ``high`` (numbers over the whole machine) of partition p.

    Also marks their words as not empty in ``filled``.
    """
    unit = low - units.unit_start[p]
    end = high - units.unit_start[p] + 1
    while unit < end:
        bit = unit & 63
        length = min(64 - bit, end - unit)
        w = units.word_start[p] + (unit >> 6)
        units.word[w] |= mask(bit, length)
        units.filled[w >> 6] |= ONE << np.uint64(w & 63)
        unit += length
    if units.place.shape[0] > 0:
        for number in range(low, high + 1):
            give_place(units, p, number)


@kernel
def take_interval(units: Units, p: int, low: int, high: int) -> None:
    """Clear the bits of units ``low`` .. ``high`` (numbers over the whole machine) of partition p.

    The units must be free; a word that becomes empty loses its bit in ``filled``.
    """
    unit = low - units.unit_start[p]
    end = high - units.unit_start[p] + 1
    while unit < end:
        bit = unit & 63
        length = min(64 - bit, end - unit)
        w = units.word_start[p] + (unit >> 6)
        units.word[w] &= ~mask(bit, length)
        note_empty(units, w)
        unit += length
    if units.place.shape[0] > 0:
        for number in range(low, high + 1):
            take_place(units, p, number)


@kernel
def unit_partition(units: Units, unit: int) -> int:
    """Return the partition of a unit number."""
    p = 0
    while unit >= units.unit_start[p + 1]:
        p += 1
    return p


@kernel
def unit_is_free(units: Units, unit: int) -> bool:
    """Return whether ``unit`` is powered, up and without a job."""
    p = unit_partition(units, unit)
    i = unit - units.unit_start[p]
    return bool((units.word[units.word_start[p] + (i >> 6)] >> np.uint64(i & 63)) & ONE)


@kernel
def withhold_unit(units: Units, unit: int) -> None:
    """Take a free unit out of use: it shuts down, failed, or is unusable in a snapshot."""
    p = unit_partition(units, unit)
    take_interval(units, p, unit, unit)
    units.free[p] -= 1


@kernel
def restore_unit(units: Units, unit: int) -> None:
    """Bring a unit back into use, free."""
    p = unit_partition(units, unit)
    give_interval(units, p, unit, unit)
    look_from(units, p, unit)
    units.free[p] += 1
