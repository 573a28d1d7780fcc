"""What fits into power domains beside a load: what runs now, what is expected later, or a trial (rule 22).

Counts are made from the bottom up (``units_that_fit``), and again along the paths on which a load has changed. Where
the ledger keeps a margin, each domain keeps one of its own: that of the jobs in it. It follows from the number of units
of a job alone, so that counts stay exact (docs/adr/0028).
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.state import Array, SupplyLimits, SupplyLoad

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
REFUSER = 12
"""The domain that refused an action last, counted from 1; 0 where it was none."""
MARGIN = 13
"""1 where watts of each domain stay free that follow from what runs there."""
REACHED, REACHED_END = 14, 15
"""The announced rows that the start at hand reaches: the first, and the one behind the last (``supply_ahead.py``)."""
BY_UNIT = 16
"""1 where units of a running job have own figures (``SupplyUnits``)."""
MARKS = 17
COUNTED = -1
"""In place of the net microwatts of a unit: those of each listed unit are in ``unit.listed``."""


@inlined
def counted(unit_net: int, gain: float) -> int:
    """Return what a domain counts for a unit of so many net microwatts."""
    return as_int64(math.ceil(unit_net * gain))


@inlined
def each_of(net: int, nodes: int) -> int:
    """Return what a unit counts of ``net`` microwatts of a job: rounded up, where readings are not the same for all."""
    return as_int64((net + nodes - 1) // nodes)


@inlined
def load_now(supply: SupplyLimits, p: int) -> SupplyLoad:
    """Return what stands now, with the counts of the entry of partition p that was reserved last."""
    return SupplyLoad(supply.free, supply.room, supply.drawn, supply.now_below[p], supply.now_most[p])


@inlined
def load_then(supply: SupplyLimits, p: int) -> SupplyLoad:
    """Return what is expected at the shadow time of partition p's reservation, without the reserved entry."""
    return SupplyLoad(
        supply.then_free[p], supply.then_room[p], supply.then_drawn[p], supply.then_below[p], supply.then_most[p]
    )


@inlined
def load_tried(supply: SupplyLimits) -> SupplyLoad:
    """Return working space."""
    return SupplyLoad(supply.spare_free, supply.spare_room, supply.spare_drawn, supply.below, supply.most)


@kernel
def left_with(supply: SupplyLimits, domain: int, load: SupplyLoad, more: int) -> int:
    """Return what a domain leaves beside a load and ``more`` microwatts of one more job, and their margin.

    As under the cap (``kernels/chance.py``): the margin is that of the domain's own jobs.
    """
    room = as_int64(load.room[domain])
    if supply.marks[MARGIN] == 0:
        return room - more
    drawn = as_int64(load.drawn[0, domain])
    watts, own = (drawn + more) / codes.MICRO, more / codes.MICRO
    spread = supply.terms[1] * (load.drawn[1, domain] + round(own * own)) + supply.terms[2] * watts * watts
    margin = math.ceil(math.sqrt(max(spread, 0.0)) * codes.MICRO)
    return as_int64(math.floor((room + drawn) / supply.terms[0]) - drawn - more - margin)


@inlined
def left_bare(supply: SupplyLimits, domain: int, load: SupplyLoad) -> int:
    """Return what a domain leaves beside a load without any margin."""
    if supply.marks[MARGIN] == 0:
        return as_int64(load.room[domain])
    drawn = as_int64(load.drawn[0, domain])
    return as_int64(math.floor((load.room[domain] + drawn) / supply.terms[0]) - drawn)


@inlined
def fed_by(supply: SupplyLimits, domain: int, unit_net: int, load: SupplyLoad, units: int) -> int:
    """Return how many of ``units`` of ``unit_net`` microwatts of one job a domain can feed beside a load.

    The quotient of floats is within one of that of whole numbers, and ten times as fast.
    """
    if supply.marks[MARGIN] != 0:
        return fed_with_margin(supply, domain, unit_net, load, units)
    room = as_int64(load.room[domain])
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
def fed_with_margin(supply: SupplyLimits, domain: int, unit_net: int, load: SupplyLoad, units: int) -> int:
    """Return the same under a margin, by bisection: it follows from the number of units alone, and grows with it."""
    each = counted(unit_net, float(supply.gain[domain]))
    low, high = as_int64(0), units
    while low < high:
        middle = (low + high + 1) >> 1
        if left_with(supply, domain, load, middle * each) >= 0:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def units_that_fit(supply: SupplyLimits, p: int, unit_net: int, load: SupplyLoad) -> int:
    """Return the most units of ``unit_net`` microwatts that fit in partition p beside a load.

    Writes the units that fit below each domain to ``load.most`` and their sums at the places below to ``load.below``.
    """
    below, most = load.below, load.most
    for domain in range(len(most)):
        below[domain] = 0
    found = as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        domain = as_int64(supply.leaf_domain[leaf])
        if domain < 0:
            found += load.free[leaf]
        else:
            below[domain] += load.free[leaf]
    for domain in range(len(most)):
        here = as_int64(below[domain])
        if here > 0:
            here = fed_by(supply, as_int64(domain), unit_net, load, here)
        most[domain] = here
        up = as_int64(supply.parent[domain])
        if up < 0:
            found += here
        else:
            below[up] += here
    return int(found)


@inlined
def count_path(supply: SupplyLimits, domain: int, more: int, unit_net: int, load: SupplyLoad) -> int:
    """Count again what ``units_that_fit`` has found, from a domain up with ``more`` units below it; return the change.

    The load may have changed on that path. The change is that of the sum at the top; -1 stands above all domains.
    """
    while domain >= 0:
        more = count_domain(supply, domain, more, unit_net, load)
        domain = as_int64(supply.parent[domain])
    return more


@inlined
def count_domain(supply: SupplyLimits, domain: int, more: int, unit_net: int, load: SupplyLoad) -> int:
    """Do so for one domain; return how many more units fit below it."""
    load.below[domain] += more
    here = as_int64(load.below[domain])
    if here > 0:
        here = fed_by(supply, domain, unit_net, load, here)
    more = as_int64(here - load.most[domain])
    load.most[domain] = here
    return more


@kernel
def take_path(supply: SupplyLimits, domain: int, uw: int, count: int, room: Array) -> None:
    """Take ``count`` units of ``uw`` microwatts from the room of a domain and those above; negative: give them back."""
    while domain >= 0:
        room[domain] -= count * counted(uw, float(supply.gain[domain]))
        domain = as_int64(supply.parent[domain])


@kernel
def take_listed(supply: SupplyLimits, leaves: int, unit_net: int, variance: float, sign: int, load: SupplyLoad) -> None:
    """Take (1) or give back (-1) the listed units of one job, each of ``unit_net`` microwatts.

    ``unit_net`` COUNTED: each unit has its own figure. ``variance`` is the job's own, as a share of that at its start.
    Neighbouring leaves share the domains above their lowest ones, whose room changes once for all of them.
    """
    if unit_net == COUNTED:
        take_counted(supply, leaves, variance, sign, load)
        return
    above, carried = as_int64(-1), as_int64(0)
    for k in range(leaves):
        leaf, count = as_int64(supply.leaf[k]), as_int64(sign * supply.take[k])
        load.free[leaf] -= count
        domain = as_int64(supply.leaf_domain[leaf])
        if domain < 0:
            continue
        load.room[domain] -= count * counted(unit_net, float(supply.gain[domain]))
        if supply.parent[domain] != above:
            take_path(supply, above, unit_net, carried, load.room)
            above, carried = as_int64(supply.parent[domain]), as_int64(0)
        carried += count
    take_path(supply, above, unit_net, carried, load.room)
    if supply.marks[MARGIN] != 0:
        add_drawn(supply, leaves, unit_net, variance, sign, load.drawn)


@kernel
def take_counted(supply: SupplyLimits, leaves: int, variance: float, sign: int, load: SupplyLoad) -> None:
    """Do so where each listed unit has its own figure."""
    row = as_int64(0)
    for k in range(leaves):
        leaf = as_int64(supply.leaf[k])
        load.free[leaf] -= sign * supply.take[k]
        for _ in range(supply.take[k]):
            uw, domain = as_int64(supply.unit.listed[row]), as_int64(supply.leaf_domain[leaf])
            while domain >= 0:
                more = counted(uw, float(supply.gain[domain]))
                load.room[domain] -= sign * more
                supply.of_job[domain] += more
                domain = as_int64(supply.parent[domain])
            row += 1
    add_squares(supply, leaves, variance, sign, load.drawn)


@kernel
def add_squares(supply: SupplyLimits, leaves: int, variance: float, sign: int, drawn: Array) -> None:
    """Add (1) or take (-1) what one job draws in each domain, which is in ``of_job``, and its square; clears that."""
    for k in range(leaves):
        domain = as_int64(supply.leaf_domain[supply.leaf[k]])
        while domain >= 0 and supply.of_job[domain] != 0:
            if supply.marks[MARGIN] != 0:
                uw = as_int64(supply.of_job[domain])
                watts = uw / codes.MICRO
                drawn[0, domain] += sign * uw
                drawn[1, domain] += sign * round(variance * round(watts * watts))
            supply.of_job[domain] = 0
            domain = as_int64(supply.parent[domain])


@kernel
def add_drawn(supply: SupplyLimits, leaves: int, unit_net: int, variance: float, sign: int, drawn: Array) -> None:
    """Add (1) or take (-1) what the listed units of one job draw together in each domain, and its square."""
    for k in range(leaves):
        domain = as_int64(supply.leaf_domain[supply.leaf[k]])
        while domain >= 0:
            supply.of_job[domain] += supply.take[k] * counted(unit_net, float(supply.gain[domain]))
            domain = as_int64(supply.parent[domain])
    add_squares(supply, leaves, variance, sign, drawn)
