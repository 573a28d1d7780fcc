"""Free units as bits; a start takes the lowest numbers, written down as intervals.

Words and bits are found by shifts: floor division of signed numbers, as Python has it, costs a branch.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, kernel, wide
from wattqueue.kernels.bits import ONE, ZERO, lowest_bit, mask, run_length
from wattqueue.kernels.state import Units, View


@inlined
def next_word(units: Units, w: int) -> int:
    """The first word at ``w`` or behind it that is not 0; there is one."""
    k = w >> 6
    group = units.filled[k] & ~(mask(wide(0), w & 63))
    while group == ZERO:
        k += 1
        group = units.filled[k]
    return k * 64 + lowest_bit(group)


@inlined
def take_units(view: View, p: int, job: int) -> None:
    """Give ``job`` the lowest free units of partition p; there are enough."""
    units = view.units
    held = view.held
    left = view.nodes[job]
    filled = view.counter[codes.INTERVALS]
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
            if base + bit != behind:
                held.low[filled] = base + bit
                filled += 1
            behind = base + bit + length
            held.high[filled - 1] = behind - 1
            left -= length
        units.word[w] = word
        if word == ZERO:
            units.filled[w >> 6] &= ~mask(w & 63, wide(1))
    units.low[p] = w
    units.free[p] -= view.nodes[job]
    held.pieces[job] = filled - held.first[job]
    view.counter[codes.INTERVALS] = filled


@inlined
def give_units(view: View, p: int, job: int) -> None:
    """Free the units of ``job``."""
    held = view.held
    first = held.first[job]
    for k in range(first, first + held.pieces[job]):
        give_interval(view.units, p, wide(held.low[k]), wide(held.high[k]))
    look_from(view.units, p, wide(held.low[first]))  # its lowest: intervals are written in order
    view.units.free[p] += view.nodes[job]


@inlined
def look_from(units: Units, p: int, unit: int) -> None:
    """``unit`` of partition p is free: search from its word on, if not from an earlier one."""
    units.low[p] = min(units.low[p], units.word_start[p] + ((unit - units.unit_start[p]) >> 6))


@inlined
def give_interval(units: Units, p: int, low: int, high: int) -> None:
    """Set the bits of units ``low..high`` (whole-machine numbers) of partition p."""
    unit = low - units.unit_start[p]
    end = high - units.unit_start[p] + 1
    while unit < end:
        bit = unit & 63
        length = min(64 - bit, end - unit)
        w = units.word_start[p] + (unit >> 6)
        units.word[w] |= mask(bit, length)
        units.filled[w >> 6] |= ONE << np.uint64(w & 63)
        unit += length


@kernel
def take_interval(units: Units, p: int, low: int, high: int) -> None:
    """Clear the bits of units ``low..high`` (whole-machine numbers) of partition p."""
    unit = low - units.unit_start[p]
    end = high - units.unit_start[p] + 1
    while unit < end:
        bit = unit & 63
        length = min(64 - bit, end - unit)
        w = units.word_start[p] + (unit >> 6)
        units.word[w] &= ~mask(bit, length)
        if units.word[w] == ZERO:
            units.filled[w >> 6] &= ~mask(w & 63, wide(1))
        unit += length


@kernel
def unit_partition(units: Units, unit: int) -> int:
    """The partition of a unit number."""
    p = 0
    while unit >= units.unit_start[p + 1]:
        p += 1
    return p


@kernel
def unit_is_free(units: Units, unit: int) -> bool:
    """Whether ``unit`` is powered, up and without a job."""
    p = unit_partition(units, unit)
    i = unit - units.unit_start[p]
    return bool((units.word[units.word_start[p] + (i >> 6)] >> np.uint64(i & 63)) & ONE)


@kernel
def withhold_unit(units: Units, unit: int) -> None:
    """Take a free unit out of use."""
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
