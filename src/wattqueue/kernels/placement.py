"""Free units as bits; a start takes the lowest numbers, written down as intervals."""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, kernel, wide
from wattqueue.kernels.state import Units, View

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ZERO = np.uint64(0)
# 2**k modulo 67 differs for every k below 64, so that a remainder names the bit.
PRIME = np.uint64(67)
PLACE = np.zeros(67, np.int64)
for _bit in range(64):
    PLACE[(1 << _bit) % 67] = _bit


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Number of the lowest set bit; ``word`` is not 0."""
    alone = word & ~(word - ONE)
    return int(PLACE[alone % PRIME])


@inlined
def run_length(word: np.uint64, bit: int) -> int:
    """How many bits from ``bit`` on are set without a gap."""
    gaps = ~(word >> np.uint64(bit))
    if gaps == ZERO:
        return 64
    return min(lowest_bit(gaps), 64 - bit)


@inlined
def mask(bit: int, length: int) -> np.uint64:
    """``length`` set bits from ``bit`` on."""
    if length >= 64:
        return ALL
    return np.uint64(((ONE << np.uint64(length)) - ONE) << np.uint64(bit))


@inlined
def next_word(units: Units, w: int) -> int:
    """The first word at ``w`` or behind it that is not 0; there is one."""
    k = w // 64
    group = units.filled[k] & ~(mask(wide(0), w % 64))
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
    last_unit = -2
    while left > 0:
        w = next_word(units, w)
        word = units.word[w]
        bit = lowest_bit(word)
        length = min(run_length(word, bit), left)
        units.word[w] = word & ~mask(bit, length)
        if units.word[w] == ZERO:
            units.filled[w // 64] &= ~mask(w % 64, wide(1))
        unit = units.unit_start[p] + (w - units.word_start[p]) * 64 + bit
        if unit == last_unit + 1:
            held.high[filled - 1] = unit + length - 1
        else:
            held.low[filled] = unit
            held.high[filled] = unit + length - 1
            filled += 1
        last_unit = unit + length - 1
        left -= length
    units.low[p] = w
    units.free[p] -= view.nodes[job]
    held.pieces[job] = filled - held.first[job]
    view.counter[codes.INTERVALS] = filled


@inlined
def give_units(view: View, p: int, job: int) -> None:
    """Free the units of ``job``."""
    held = view.held
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        give_interval(view.units, p, wide(held.low[k]), wide(held.high[k]))
    view.units.free[p] += view.nodes[job]


@inlined
def give_interval(units: Units, p: int, low: int, high: int) -> None:
    """Set the bits of units ``low..high`` (whole-machine numbers) of partition p."""
    unit = low - units.unit_start[p]
    end = high - units.unit_start[p] + 1
    units.low[p] = min(units.low[p], units.word_start[p] + unit // 64)
    while unit < end:
        bit = unit % 64
        length = min(64 - bit, end - unit)
        w = units.word_start[p] + unit // 64
        units.word[w] |= mask(bit, length)
        units.filled[w // 64] |= mask(w % 64, wide(1))
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
    return bool((units.word[units.word_start[p] + i // 64] >> np.uint64(i % 64)) & ONE)


@kernel
def withhold_unit(units: Units, unit: int) -> None:
    """Take a free unit out of use."""
    p = unit_partition(units, unit)
    i = unit - units.unit_start[p]
    w = units.word_start[p] + i // 64
    units.word[w] &= ~mask(i % 64, wide(1))
    if units.word[w] == ZERO:
        units.filled[w // 64] &= ~mask(w % 64, wide(1))
    units.free[p] -= 1
    units.usable[p] -= 1


@kernel
def restore_unit(units: Units, unit: int) -> None:
    """Bring a unit back into use, free."""
    p = unit_partition(units, unit)
    give_interval(units, p, unit, unit)
    units.free[p] += 1
    units.usable[p] += 1
