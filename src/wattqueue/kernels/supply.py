"""Jobs under power domains: does a job fit, and which units does it get? (rule 22 of docs/semantics.md)

All units of a job count the same watts. Then the most units that fit under all limits follow from the bottom up, the
rank of a laminar matroid (docs/adr/0028)::

    most(leaf)   = free units
    most(domain) = min(sum of most below it, floor(room / watts of a unit))
    fits         = sum of most at the top >= units of the job

That is exact: units that are taken one after the other, in any order, skipping those without room, reach this number.
A start takes what its placement proposes (``kernels/supply_placement.py``), and whether that is enough is the test. A
reservation needs no units, only the state that is expected at its shadow time (``kernels/supply_reservations.py``). A
search of the queue leaves out what no domain has room for (``kernels/supply_classes.py``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.first_match import first_from
from wattqueue.kernels.state import Array, KernelView, SupplyClasses, SupplyLimits, SupplyPlacement

CLASSES = 32
KEY, EACH, MADE_AT, LEAVES = 0, 1, 2, 3
"""The start proposed last: job and partition, net microwatts of a unit, VERSION then, rows of ``leaf`` and ``take``."""
VERSION = 4
"""Rises whenever free units or room change."""
REFUSED = 5
"""Least rank of an entry that fits but would delay a reservation with the very units that it would get; -1: none."""
TOUCHED = 6
"""Leaves that have changed since the classes were brought up to date."""
IDLE_ROW = 7
"""The row of limits for which a class has its units on the idle machine, counted from 1; 0 before the first."""
GIVEN = 8
"""1 after units or room were given back, so that what did not fit may fit now."""
ONE_TOP = 9
"""1 where one domain feeds the whole machine."""
BALANCED = 10
"""1 where a start levels watts a free unit over leaves, 0 where it takes the lowest units."""
RACKS = 11
"""Leaves that a start takes units of at most, where so many hold it; 0 for no bound."""


def new_supply(
    parent: NDArray[np.int32], gain: NDArray[np.float64], base: NDArray[np.int64], limits: NDArray[np.int64],
    time: NDArray[np.float64], of_unit: NDArray[np.int32], unit_start: NDArray[np.int32], sample: NDArray[np.int64],
    *, balanced: bool = False, racks: int = 0,
) -> SupplyLimits:  # fmt: skip
    """Make the tree of a machine on which nothing runs.

    ``parent``, ``gain``, ``base`` (G,), ``limits`` (K, G) and ``time`` (K,) as in SupplyLimits; ``of_unit`` (U,) lowest
    domain of each unit; ``unit_start`` (P + 1,) first unit of each partition; ``sample`` net microwatts of units, whose
    quantiles separate the classes (any sample gives the same starts). ``balanced`` and ``racks``: see BALANCED, RACKS.
    """
    cut = np.ones(len(of_unit), np.bool_)
    cut[1:] = np.diff(of_unit) != 0
    cut[unit_start[:-1]] = True
    first = np.flatnonzero(cut).astype(np.int32)
    leaf_start = np.searchsorted(first, unit_start).astype(np.int32)
    leaves, domains, partitions = len(first), len(parent), len(unit_start) - 1
    leaf_unit = np.append(first, len(of_unit)).astype(np.int32)
    by_domain = np.zeros((partitions, domains), np.int64)
    free = np.diff(leaf_unit).astype(np.int64)
    marks = np.zeros(RACKS + 1, np.int64)
    marks[[KEY, REFUSED]] = -1
    marks[TOUCHED] = leaves
    marks[ONE_TOP] = np.count_nonzero(parent < 0) == 1 and bool((of_unit >= 0).all())
    marks[BALANCED], marks[RACKS] = balanced, racks
    spare = SupplyPlacement(np.zeros(domains), np.zeros(leaves), np.zeros(leaves), np.zeros(leaves, np.int64))
    return SupplyLimits(
        parent, gain, limits[0] - base, limits[0].copy(), base, time, limits,
        np.maximum.accumulate(limits[::-1], axis=0)[::-1].copy(),
        leaf_start, leaf_unit, of_unit[first], (np.cumsum(cut) - 1).astype(np.int32), free,
        np.zeros((partitions, leaves), np.int64), by_domain, by_domain.copy(), by_domain.copy(),
        np.zeros(partitions, np.int64), np.zeros(partitions, np.int64),
        by_domain.copy(), by_domain.copy(), np.zeros(partitions, np.int64), np.full(partitions, -1, np.int64),
        np.zeros(leaves, np.int32), np.zeros(leaves, np.int64),
        np.zeros(domains, np.int64), np.zeros(domains, np.int64), np.zeros(leaves, np.int64),
        np.zeros(domains, np.int64), marks, new_classes(gain, free, partitions, sample),
        spare,
    )  # fmt: skip


def new_classes(
    gain: NDArray[np.float64], free: NDArray[np.int64], partitions: int, sample: NDArray[np.int64]
) -> SupplyClasses:
    """Make the classes of a tree; no leaf has been counted yet. ``sample``: see ``new_supply``."""
    some = sample[:: max(1, len(sample) // 10_000)] if len(sample) else np.zeros(1, np.int64)
    least = np.quantile(some, np.linspace(0.0, 1.0, CLASSES), method="lower").astype(np.int64)
    least[0] = 0
    cube = np.zeros((partitions, len(gain), CLASSES), np.float32)
    share = (1.0 + 1e-6) / (np.maximum(least, 1e-9) * gain[:, None])  # rounded up for single precision
    return SupplyClasses(
        least, share.astype(np.float32), cube, cube.copy(), np.zeros((partitions, CLASSES), np.float32),
        np.zeros((partitions, CLASSES), np.int64), np.full((partitions, CLASSES), codes.ANY_WATT, np.int64),
        np.zeros((partitions, CLASSES), np.int64), np.zeros(len(free), np.int64), np.arange(len(free), dtype=np.int32),
        np.ones(len(free), np.int8),
    )  # fmt: skip


@inlined
def has_supply(view: KernelView) -> bool:
    """Return whether a power domain can hold a job back."""
    return len(view.supply.parent) > 0


@inlined
def counted(unit_net: int, gain: float) -> int:
    """Return what a domain counts for a unit of so many net microwatts."""
    return as_int64(math.ceil(unit_net * gain))


@inlined
def fed_by(supply: SupplyLimits, domain: int, unit_net: int, room: int, units: int) -> int:
    """Return how many of ``units`` of ``unit_net`` microwatts a domain with so much room can feed.

    The quotient of floats is within one of that of whole numbers, and ten times as fast.
    """
    if room < 0:
        return 0
    each = counted(unit_net, float(supply.gain[domain]))
    if units * each <= room:
        return units
    found = int(room / each)
    if found * each > room:
        found -= 1
    elif (found + 1) * each <= room:
        found += 1
    return int(found)


@kernel
def units_that_fit(
    supply: SupplyLimits, p: int, unit_net: int, free: Array, room: Array, below: Array, most: Array
) -> int:
    """Return the most units of ``unit_net`` microwatts that fit in partition p. ``free`` (V,), ``room`` (G,).

    Writes the units that fit below each domain to ``most`` (G,), and their sums at the places below to ``below``.
    """
    for domain in range(len(most)):
        below[domain] = 0
    found = as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        domain = as_int64(supply.leaf_domain[leaf])
        if domain < 0:
            found += free[leaf]
        else:
            below[domain] += free[leaf]
    for domain in range(len(most)):
        here = as_int64(below[domain])
        if here > 0:
            here = fed_by(supply, as_int64(domain), unit_net, as_int64(room[domain]), here)
        most[domain] = here
        up = as_int64(supply.parent[domain])
        if up < 0:
            found += here
        else:
            below[up] += here
    return int(found)


@inlined
def count_path(
    supply: SupplyLimits, domain: int, more: int, unit_net: int, room: Array, below: Array, most: Array
) -> int:
    """Count again what ``units_that_fit`` has found, from a domain up with ``more`` units below it; return the change.

    ``room`` (G,) may have changed on that path. The change is that of the sum at the top; -1 stands above all domains.
    """
    while domain >= 0:
        more = count_domain(supply, domain, more, unit_net, room, below, most)
        domain = as_int64(supply.parent[domain])
    return more


@inlined
def count_domain(
    supply: SupplyLimits, domain: int, more: int, unit_net: int, room: Array, below: Array, most: Array
) -> int:
    """Do so for one domain; return how many more units fit below it."""
    below[domain] += more
    here = as_int64(below[domain])
    if here > 0:
        here = fed_by(supply, domain, unit_net, as_int64(room[domain]), here)
    more = as_int64(here - most[domain])
    most[domain] = here
    return more


@kernel
def take_path(supply: SupplyLimits, domain: int, uw: int, count: int, room: Array) -> None:
    """Take ``count`` units of ``uw`` microwatts from the room of a domain and those above; negative: give them back."""
    while domain >= 0:
        room[domain] -= count * counted(uw, float(supply.gain[domain]))
        domain = as_int64(supply.parent[domain])


@kernel
def take_listed(supply: SupplyLimits, leaves: int, unit_net: int, sign: int, free: Array, room: Array) -> None:
    """Take (1) or give back (-1) the listed units, each of ``unit_net`` microwatts. ``free`` (V,), ``room`` (G,).

    Neighbouring leaves share the domains above their lowest ones, whose room changes once for all of them.
    """
    above, carried = as_int64(-1), as_int64(0)
    for k in range(leaves):
        leaf, count = as_int64(supply.leaf[k]), as_int64(sign * supply.take[k])
        free[leaf] -= count
        domain = as_int64(supply.leaf_domain[leaf])
        if domain < 0:
            continue
        room[domain] -= count * counted(unit_net, float(supply.gain[domain]))
        if supply.parent[domain] != above:
            take_path(supply, above, unit_net, carried, room)
            above, carried = as_int64(supply.parent[domain]), as_int64(0)
        carried += count
    take_path(supply, above, unit_net, carried, room)


@kernel
def list_leaves(view: KernelView, job: int) -> int:
    """Write the leaves whose units a job holds to ``leaf`` and ``take``; return how many. Forgets a proposed start."""
    held, supply = view.held, view.supply
    supply.marks[KEY] = -1
    found = as_int64(0)
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        unit = as_int64(held.low[k])
        while unit <= held.high[k]:
            leaf = as_int64(supply.leaf_of[unit])
            end = min(as_int64(held.high[k]) + 1, as_int64(supply.leaf_unit[leaf + 1]))
            if found == 0 or supply.leaf[found - 1] != leaf:
                supply.leaf[found] = leaf
                supply.take[found] = 0
                found += 1
            supply.take[found - 1] += end - unit
            unit = end
    return int(found)


@inlined
def move_listed(supply: SupplyLimits, leaves: int, unit_net: int, sign: int) -> None:
    """Take (1) or give back (-1) the listed units now, each of ``unit_net`` microwatts."""
    take_listed(supply, leaves, unit_net, sign, supply.free, supply.room)
    for k in range(leaves):
        touch(supply, as_int64(supply.leaf[k]))


@inlined
def touch(supply: SupplyLimits, leaf: int) -> None:
    """Note that free units of a leaf, or room above it, have changed."""
    supply.marks[VERSION] += 1
    if supply.classes.is_touched[leaf] == 0:
        supply.classes.is_touched[leaf] = 1
        supply.classes.touched[supply.marks[TOUCHED]] = leaf
        supply.marks[TOUCHED] += 1


@separate
def give_back(view: KernelView, job: int, unit_net: int) -> None:
    """Give back the units that a job holds, each of ``unit_net`` microwatts."""
    move_listed(view.supply, list_leaves(view, job), unit_net, as_int64(-1))
    view.supply.marks[GIVEN] = 1


@inlined
def note_refused(view: KernelView, rank: int) -> None:
    """Note an entry that a reservation refuses for the units that it would get: after a start it may get others."""
    marks = view.supply.marks
    if marks[REFUSED] < 0 or rank < marks[REFUSED]:
        marks[REFUSED] = rank


@inlined
def forget_refused(view: KernelView, rank: int) -> None:
    """Forget what a reservation refused for its units, where a pass tries all entries from ``rank`` on again."""
    if has_supply(view) and view.supply.marks[REFUSED] >= rank:
        view.supply.marks[REFUSED] = -1


@inlined
def retry_refused(view: KernelView) -> None:
    """After a start: let the next pass try again what was refused for the units that it would have got (rule 22).

    It may get others now. All else that was refused has less room than before. With several partitions a reserved entry
    may be among them, so that the next pass is a whole one.
    """
    refused = as_int64(view.supply.marks[REFUSED])
    if refused < 0:
        return
    if len(view.units.free) > 1:
        view.now.whole_next = 1
    elif view.now.first_new < 0 or refused < view.now.first_new:
        view.now.first_new = refused


@kernel
def limits_row(view: KernelView) -> int:
    """Return the row of limits that is in force."""
    time, rows = view.supply.time, as_int64(len(view.supply.time))
    row = as_int64(first_from(time, as_int64(0), rows, view.now.time_s))
    return row if row < rows and time[row] <= view.now.time_s else row - 1


@kernel
def idle_machine(view: KernelView) -> None:
    """Write an idle machine under the highest limits from now on to ``spare_free`` and ``spare_room``."""
    supply, row = view.supply, limits_row(view)
    for leaf in range(len(supply.free)):
        supply.spare_free[leaf] = supply.leaf_unit[leaf + 1] - supply.leaf_unit[leaf]
    for domain in range(len(supply.room)):
        supply.spare_room[domain] = supply.highest[row, domain] - supply.base[domain]


@separate
def change_unit(view: KernelView, p: int, unit: int, sign: int) -> None:
    """Count a unit that comes back (1) or fails (-1): whether it is free, and its idle watts."""
    supply = view.supply
    leaf = as_int64(supply.leaf_of[unit])
    supply.marks[GIVEN] = 1
    supply.free[leaf] += sign
    if view.now.scope_machine != 0:
        take_path(supply, as_int64(supply.leaf_domain[leaf]), as_int64(view.units.idle_uw[p]), sign, supply.room)
    touch(supply, leaf)
