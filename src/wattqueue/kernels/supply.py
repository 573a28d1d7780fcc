"""Jobs under power domains: does a job fit, and which units does it get? (rule 22 of docs/semantics.md)

All units of a job count the same watts. Then the most units that fit under all limits follow from the bottom up, the
rank of a laminar matroid (docs/adr/0028)::

    most(leaf)   = free units
    most(domain) = min(sum of most below it, floor(room / watts of a unit))
    fits         = sum of most at the top >= units of the job

That is exact: units that are taken one after the other, in any order, skipping those without room, reach this number.
A start takes the lowest ones. A reservation needs no units, only the state that is expected at its shadow time
(``then_free``, ``then_room``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.bits import ZERO, lowest_bit, mask, run_length
from wattqueue.kernels.state import Array, KernelView, SupplyLimits
from wattqueue.kernels.unit_allocation import add_run, note_empty


def no_supply() -> SupplyLimits:
    """Make the tree of a machine without domains."""
    one, more, units = np.zeros(0, np.int64), np.zeros((0, 0), np.int64), np.zeros(0, np.int32)
    flat = np.zeros(0)
    return SupplyLimits(
        units, flat, one, one, one, flat, more, more, units, units, units, units, one, more, more, one, one, one, one
    )


def new_supply(
    parent: NDArray[np.int32], gain: NDArray[np.float64], base: NDArray[np.int64], limits: NDArray[np.int64],
    time: NDArray[np.float64], of_unit: NDArray[np.int32], unit_start: NDArray[np.int32],
) -> SupplyLimits:  # fmt: skip
    """Make the tree of a machine on which nothing runs.

    ``parent``, ``gain``, ``base`` (G,), ``limits`` (K, G) and ``time`` (K,) as in SupplyLimits; ``of_unit`` (U,) lowest
    domain of each unit; ``unit_start`` (P + 1,) first unit of each partition.
    """
    cut = np.ones(len(of_unit), np.bool_)
    cut[1:] = np.diff(of_unit) != 0
    cut[unit_start[:-1]] = True
    first = np.flatnonzero(cut).astype(np.int32)
    leaf_start = np.searchsorted(first, unit_start).astype(np.int32)
    leaves, domains, partitions = len(first), len(parent), len(unit_start) - 1
    leaf_unit = np.append(first, len(of_unit)).astype(np.int32)
    highest = np.maximum.accumulate(limits[::-1], axis=0)[::-1].copy()
    return SupplyLimits(
        parent, gain, limits[0] - base, limits[0].copy(), base, time, limits, highest,
        leaf_start, leaf_unit, of_unit[first], (np.cumsum(cut) - 1).astype(np.int32),
        np.diff(leaf_unit).astype(np.int64),
        np.zeros((partitions, leaves), np.int64), np.zeros((partitions, domains), np.int64),
        np.zeros(leaves, np.int64), np.zeros(domains, np.int64), np.zeros(leaves, np.int64),
        np.zeros(domains, np.int64),
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
def units_of_room(supply: SupplyLimits, domain: int, unit_net: int, room: Array) -> int:
    """Return how many units of ``unit_net`` microwatts a domain has room for."""
    if room[domain] < 0:
        return 0
    each = counted(unit_net, float(supply.gain[domain]))
    if each <= 0:
        return codes.ANY_NEED
    return int(room[domain] // each)


@kernel
def units_that_fit(supply: SupplyLimits, p: int, unit_net: int, free: Array, room: Array) -> int:
    """Return the most units of ``unit_net`` microwatts that fit in partition p. ``free`` (V,), ``room`` (G,)."""
    most = supply.most
    for domain in range(len(most)):
        most[domain] = 0
    found = as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        domain = as_int64(supply.leaf_domain[leaf])
        if domain < 0:
            found += free[leaf]
        else:
            most[domain] += free[leaf]
    for domain in range(len(most)):
        here = as_int64(most[domain])
        if here > 0:
            here = min(here, as_int64(units_of_room(supply, domain, unit_net, room)))
            up = as_int64(supply.parent[domain])
            if up < 0:
                found += here
            else:
                most[up] += here
    return int(found)


@inlined
def fits_supply(view: KernelView, p: int, job: int, net: int) -> bool:
    """Return whether a job of ``net`` microwatts fits under all domains beside what runs."""
    if not has_supply(view):
        return True
    nodes, supply = int(view.nodes[job]), view.supply
    return bool(units_that_fit(supply, p, as_int64(net // nodes), supply.free, supply.room) >= nodes)


@kernel
def take_path(supply: SupplyLimits, leaf: int, uw: int, count: int, room: Array) -> None:
    """Take ``count`` units of ``uw`` microwatts from the room of the domains above a leaf; negative: give them back."""
    domain = as_int64(supply.leaf_domain[leaf])
    while domain >= 0:
        room[domain] -= count * counted(uw, float(supply.gain[domain]))
        domain = as_int64(supply.parent[domain])


@kernel
def move_job(view: KernelView, job: int, unit_net: int, sign: int, free: Array, room: Array) -> None:
    """Take (1) or give back (-1) the units that a job holds, each of ``unit_net`` microwatts. ``free`` (V,), (G,)."""
    held, supply = view.held, view.supply
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        unit = int(held.low[k])
        while unit <= held.high[k]:
            leaf = as_int64(supply.leaf_of[unit])
            end = min(int(held.high[k]) + 1, int(supply.leaf_unit[leaf + 1]))
            free[leaf] -= sign * (end - unit)
            take_path(supply, leaf, unit_net, sign * (end - unit), room)
            unit = end


@kernel
def propose_units(view: KernelView, p: int, nodes: int, unit_net: int) -> None:
    """Write how many units a start would take of each leaf of partition p to ``take``: the lowest ones with room.

    Where fewer than ``nodes`` fit: these.
    """
    supply, left = view.supply, nodes
    for domain in range(len(supply.room)):
        supply.spare_room[domain] = supply.room[domain]
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        count = min(left, as_int64(supply.free[leaf]))
        domain = as_int64(supply.leaf_domain[leaf])
        while domain >= 0 and count > 0:
            count = min(count, as_int64(units_of_room(supply, domain, unit_net, supply.spare_room)))
            domain = as_int64(supply.parent[domain])
        supply.take[leaf] = count
        if count > 0:
            left -= count
            take_path(supply, as_int64(leaf), unit_net, count, supply.spare_room)


@separate
def take_under_supply(view: KernelView, p: int, job: int, unit_net: int) -> None:
    """Give ``job`` the units that are proposed for it, each of ``unit_net`` microwatts. It must fit."""
    supply, held = view.supply, view.held
    propose_units(view, p, int(view.nodes[job]), unit_net)
    filled = view.now.intervals
    held.first[job] = filled
    behind = as_int64(-1)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        if supply.take[leaf] > 0:
            filled, behind = take_lowest(view, p, as_int64(leaf), filled, behind)
    view.units.free[p] -= view.nodes[job]
    held.pieces[job] = filled - held.first[job]
    view.now.intervals = filled
    move_job(view, job, unit_net, as_int64(1), supply.free, supply.room)


@kernel
def take_lowest(view: KernelView, p: int, leaf: int, filled: int, behind: int) -> tuple[int, int]:
    """Take the lowest free units of a leaf, as many as proposed; return the next row of the log, and the next unit.

    ``behind`` is the number behind the last unit that the job got before, -1 for none.
    """
    units, left = view.units, as_int64(view.supply.take[leaf])
    at = int(view.supply.leaf_unit[leaf] - units.unit_start[p])
    end = int(view.supply.leaf_unit[leaf + 1] - units.unit_start[p])
    while left > 0:
        w = as_int64(units.word_start[p] + (at >> 6))
        inside = min(64 - (at & 63), end - at)
        word = units.word[w] & mask(at & 63, inside)
        base = units.unit_start[p] + (at & -64)
        while left > 0 and word != ZERO:
            bit = lowest_bit(word)
            length = min(run_length(word, bit), left)
            word &= ~mask(bit, length)
            units.word[w] &= ~mask(bit, length)
            filled = add_run(view.held, filled, behind, base + bit, length)
            behind = base + bit + length
            left -= length
        note_empty(units, w)
        at += inside
    return filled, behind


@separate
def keeps_reserved(view: KernelView, p: int, job: int, net: int, q: int, entry: int, reserved_net: int) -> bool:
    """Return whether the reserved ``entry`` of partition q still fits at its shadow time if ``job`` starts in p now.

    The units that ``job`` would get are taken out of the state that is expected then; it must fit now.
    """
    supply, reserved = view.supply, as_int64(view.entries.job[entry])
    nodes, need = int(view.nodes[job]), int(view.nodes[reserved])
    propose_units(view, p, nodes, as_int64(net // nodes))
    for leaf in range(len(supply.free)):
        supply.spare_free[leaf] = supply.then_free[q, leaf]
    for domain in range(len(supply.room)):
        supply.spare_room[domain] = supply.then_room[q, domain]
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        if supply.take[leaf] > 0:
            supply.spare_free[leaf] -= supply.take[leaf]
            take_path(supply, as_int64(leaf), as_int64(net // nodes), as_int64(supply.take[leaf]), supply.spare_room)
    return bool(units_that_fit(supply, q, as_int64(reserved_net // need), supply.spare_free, supply.spare_room) >= need)


@separate
def begin_shadow(view: KernelView, p: int, blocks: int) -> None:
    """Begin the state at the shadow time of partition p's reservation: now, without the jobs of the first blocks."""
    supply, running = view.supply, view.running
    for leaf in range(len(supply.free)):
        supply.then_free[p, leaf] = supply.free[leaf]
    for domain in range(len(supply.room)):
        supply.then_room[p, domain] = supply.room[domain]
    for at in range(blocks):
        block = as_int64(running.order[at])
        for k in range(running.filled[block]):
            end_at_shadow(view, p, as_int64(running.job[block, k]), as_int64(running.net[block, k]))


@separate
def end_at_shadow(view: KernelView, p: int, job: int, net: int) -> None:
    """Take a running job out of the state at the shadow time of partition p's reservation."""
    unit_net = as_int64(net // int(view.nodes[job]))
    move_job(view, job, unit_net, as_int64(-1), view.supply.then_free[p], view.supply.then_room[p])


@separate
def fits_at_shadow(view: KernelView, p: int, job: int, net: int) -> bool:
    """Return whether a reserved job of ``net`` microwatts fits into that state."""
    nodes, supply = int(view.nodes[job]), view.supply
    return bool(units_that_fit(supply, p, as_int64(net // nodes), supply.then_free[p], supply.then_room[p]) >= nodes)


@separate
def outlive_shadow(view: KernelView, q: int, job: int, net: int) -> None:
    """Let a job that has started, and outlives the shadow time of partition q's reservation, run in that state, too."""
    unit_net = as_int64(net // int(view.nodes[job]))
    move_job(view, job, unit_net, as_int64(1), view.supply.then_free[q], view.supply.then_room[q])


@kernel
def limits_row(view: KernelView) -> int:
    """Return the row of limits that is in force."""
    row, supply = 0, view.supply
    while row + 1 < len(supply.time) and supply.time[row + 1] <= view.now.time_s:
        row += 1
    return row


@separate
def put_limits(view: KernelView) -> None:
    """Put the limits of now in force; the caller has the next pass look at all entries."""
    supply, row = view.supply, limits_row(view)
    for domain in range(len(supply.room)):
        supply.room[domain] += supply.limits[row, domain] - supply.limit[domain]
        supply.limit[domain] = supply.limits[row, domain]


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
    supply.free[leaf] += sign
    if view.now.scope_machine != 0:
        take_path(supply, leaf, as_int64(view.units.idle_uw[p]), sign, supply.room)
