"""Which free units a start takes under power domains: the lowest, ranked ones, or such that level watts (rule 22).

A placement orders leaves, or units; what has no room is skipped. Whether a job fits does not depend on it
(docs/adr/0028): units that the first choice leaves open are taken wherever there is room.

*Level watts*: a leaf has so many watts for each of its free units, the least of what the domains above it have for
each free unit below them. A job that draws more than the mean of these takes from the leaves with most, one that draws
less from those with least, until they are level. With x falling from 1 to 0 a leaf gives ``weight (pull - x) / (0.5 -
x)`` of its units, all of them where that is more; *pull* and *weight* follow from its watts a unit, r, and those of a
unit of the job, w:

==============  ==============================  ==============================================
job             pull                            weight
==============  ==============================  ==============================================
more, or equal  min(r / 2w, 1), level = 2w x    free units
less            min(w / 2r, 1), level = w / 2x  free units / (2 pull)
==============  ==============================  ==============================================

*A bound on leaves*: where enough leaves have room for an equal share of the job, those with the greatest pull, else
those with room for most units.
"""

from __future__ import annotations

import math

from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.bits import ONE, ZERO, lowest_bit, mask, run_length
from wattqueue.kernels.ranked import take_chosen
from wattqueue.kernels.state import KernelView, SupplyLimits
from wattqueue.kernels.supply import move_listed
from wattqueue.kernels.supply_ahead import fed_ahead
from wattqueue.kernels.supply_load import (
    BALANCED,
    BY_UNIT,
    EACH,
    KEY,
    LEAVES,
    MADE_AT,
    MARGIN,
    RACKS,
    REACHED,
    REACHED_END,
    VERSION,
    fed_by,
    load_now,
)
from wattqueue.kernels.unit_allocation import add_run, note_empty

STEPS = 1 << 20
"""Steps of x from 1 to 0."""
HALVINGS = 40
"""Halvings of the least pull of the leaves within a bound."""


@kernel
def propose_units(view: KernelView, p: int, job: int, unit_net: int) -> int:
    """Write the leaves that a start of ``job`` would take units of to ``leaf`` and ``take``; return how many units fit.

    As many units as the job needs, or as there are, of ``unit_net`` microwatts; where units are given by node, and too
    few fit, at least as many as a job that fits can have. A proposal holds until something changes.
    """
    supply, need = view.supply, int(view.nodes[job])
    marks, key = supply.marks, job * len(view.units.free) + p
    if marks[KEY] == key and marks[EACH] == unit_net and marks[MADE_AT] == marks[VERSION]:
        return int(need)
    for domain in range(len(supply.room)):
        supply.spare_room[domain] = -1  # units that it has room for beside what runs: not asked yet
    if supply.of_node[p] > 0:
        found = propose_nodes(view, p, need, unit_net)
    elif is_ranked(view):
        found = propose_ranked(view, p, job, unit_net)
    elif marks[BALANCED] == 0 and marks[RACKS] == 0:
        found = propose_lowest(supply, p, need, unit_net)
    else:
        found = propose_from_leaves(view, p, need, unit_net)
    marks[KEY] = key if found == need else -1
    marks[EACH] = unit_net
    marks[MADE_AT] = marks[VERSION]
    return int(found)


@inlined
def is_ranked(view: KernelView) -> bool:
    """Return whether units are taken by rank."""
    return bool(view.by_unit.order.shape[0] > 0)


@inlined
def propose_lowest(supply: SupplyLimits, p: int, need: int, unit_net: int) -> int:
    """Propose the lowest units with room; return how many there are, up to ``need``."""
    left, found = need, as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        domain = as_int64(supply.leaf_domain[leaf])
        # Most leaves without room are seen by their lowest domain; with a margin it has even less.
        seen = supply.marks[MARGIN] == 0 and domain >= 0 and supply.room[domain] < unit_net
        if supply.free[leaf] > 0 and not seen:
            count = take_spare(supply, as_int64(leaf), unit_net, min(left, as_int64(supply.free[leaf])))
            if count > 0:
                supply.leaf[found] = leaf
                supply.take[found] = count
                found += 1
                left -= count
                if left == 0:
                    break
    supply.marks[LEAVES] = found
    return int(need - left)


@separate
def propose_nodes(view: KernelView, p: int, need: int, unit_net: int) -> int:
    """Propose units of the node with the least free ones that hold the job, or the lowest nodes that are wholly free.

    Of equal nodes the lowest. Where they do not fit, returns the most units that a job may still have.
    """
    supply = view.supply
    of_node, first, end = as_int64(supply.of_node[p]), supply.leaf_start[p], supply.leaf_start[p + 1]
    if need <= of_node:
        least, best = of_node + 1, as_int64(-1)
        for leaf in range(first, end):
            if need <= supply.free[leaf] < least and room_on_path(supply, as_int64(leaf), unit_net, need) == need:
                least, best = as_int64(supply.free[leaf]), as_int64(leaf)
        if best < 0:
            return need - 1
        supply.leaf[0], supply.take[0], supply.marks[LEAVES] = best, need, 1
        return need
    left, found = need, as_int64(0)
    for leaf in range(first, end):
        if left > 0 and supply.free[leaf] == of_node:
            if room_on_path(supply, as_int64(leaf), unit_net, of_node) == of_node:
                take_spare(supply, as_int64(leaf), unit_net, of_node)
                supply.leaf[found], supply.take[found] = leaf, min(left, of_node)
                found += 1
                left -= supply.take[found - 1]
    supply.marks[LEAVES] = found
    return int(need if left == 0 else max(need - left, of_node - 1))


@separate
def propose_ranked(view: KernelView, p: int, job: int, unit_net: int) -> int:
    """Propose the first units by rank with room, written to ``chosen``; return how many there are."""
    supply, units, by_unit, need = view.supply, view.units, view.by_unit, int(view.nodes[job])
    row = as_int64(by_unit.row[job]) if by_unit.order.shape[0] > 1 else as_int64(0)
    first, words = as_int64(units.unit_start[p]), as_int64(units.word_start[p])
    forget_wanted(supply, p)
    found, w = as_int64(0), words
    while found < need and w < units.word_start[p + 1]:
        word = units.by_rank[row, w]
        base = first + (w - words) * 64
        while found < need and word != ZERO:
            unit = as_int64(by_unit.order[row, base + lowest_bit(word)])
            word &= word - ONE
            leaf = as_int64(supply.leaf_of[unit])
            if take_spare(supply, leaf, unit_net, as_int64(1)) > 0:
                supply.placement.want[leaf] += 1
                by_unit.chosen[found] = unit
                found += 1
        w += 1
    list_wanted(supply, p)
    return int(found)


@separate
def propose_from_leaves(view: KernelView, p: int, need: int, unit_net: int) -> int:
    """Propose units that level watts, and those of few leaves, as the machine's placement says; return how many."""
    supply = view.supply
    first, end = as_int64(supply.leaf_start[p]), as_int64(supply.leaf_start[p + 1])
    want, racks = supply.placement.want, int(supply.marks[RACKS])
    for leaf in range(first, end):
        supply.spare_free[leaf] = supply.free[leaf]
        supply.placement.pull[leaf] = 0.0
    if supply.marks[BALANCED] != 0:
        weigh_leaves(supply, first, end, unit_net)
    if racks > 0:
        bound_leaves(supply, first, end, need, unit_net, racks)
    if supply.marks[BALANCED] != 0:
        level_leaves(supply, list_candidates(supply, first, end), need)
    else:
        for leaf in range(first, end):
            want[leaf] = supply.spare_free[leaf]
    left = need
    for leaf in range(first, end):
        want[leaf] = take_spare(supply, as_int64(leaf), unit_net, min(left, as_int64(want[leaf])))
        left -= want[leaf]
    # What domains further up did not have room for: from the same leaves first, then from any.
    for beyond in range(2):
        for leaf in range(first, end):
            if left > 0 and want[leaf] < supply.free[leaf] and (beyond == 1 or supply.spare_free[leaf] > 0):
                more = take_spare(supply, as_int64(leaf), unit_net, min(left, as_int64(supply.free[leaf] - want[leaf])))
                want[leaf] += more
                left -= more
    list_wanted(supply, p)
    return int(need - left)


@inlined
def weigh_leaves(supply: SupplyLimits, first: int, end: int, unit_net: int) -> None:
    """Write pull and weight of the leaves ``first`` to ``end`` for units of ``unit_net`` microwatts."""
    place = supply.placement
    for domain in range(len(supply.room)):
        supply.below[domain] = 0
    for leaf in range(len(supply.free)):
        if supply.leaf_domain[leaf] >= 0:
            supply.below[supply.leaf_domain[leaf]] += supply.free[leaf]
    for domain in range(len(supply.room)):
        if supply.parent[domain] >= 0:
            supply.below[supply.parent[domain]] += supply.below[domain]
    for k in range(len(supply.room)):
        domain = as_int64(len(supply.room) - 1 - k)  # those above others come last
        share = math.inf
        if supply.below[domain] > 0:
            share = max(as_int64(supply.room[domain]), 0) / (supply.below[domain] * supply.gain[domain])
        if supply.parent[domain] >= 0:
            share = min(share, place.share[supply.parent[domain]])
        place.share[domain] = share
    watts, units = 0.0, as_int64(0)
    for leaf in range(first, end):
        if supply.leaf_domain[leaf] >= 0 and supply.free[leaf] > 0:
            watts += place.share[supply.leaf_domain[leaf]] * supply.free[leaf]
            units += supply.free[leaf]
    each = float(max(unit_net, 1))
    draws_more = units > 0 and each * units >= watts
    for leaf in range(first, end):
        share = place.share[supply.leaf_domain[leaf]] if supply.leaf_domain[leaf] >= 0 else math.inf
        weight = float(supply.free[leaf])
        if draws_more:
            pull = min(share / (2.0 * each), 1.0)
        else:
            pull = min(each / (2.0 * share), 1.0) if share > 0.0 else 1.0
            weight /= 2.0 * max(pull, 1e-300)
        place.pull[leaf] = pull
        place.weight[leaf] = weight


@inlined
def list_candidates(supply: SupplyLimits, first: int, end: int) -> int:
    """Write the leaves that may give units to ``leaf``, return how many; the others are wanted nothing of."""
    found = as_int64(0)
    for leaf in range(first, end):
        supply.placement.want[leaf] = 0
        if supply.spare_free[leaf] > 0:
            supply.leaf[found] = leaf
            found += 1
    return as_int64(found)


@inlined
def level_leaves(supply: SupplyLimits, leaves: int, need: int) -> None:
    """Write to ``want`` how many units each leaf gives at the first x at which these are ``need`` together, or at 0.

    Of the leaves listed. What they are above it the last leaves give back.
    """
    low, high = as_int64(0), as_int64(STEPS)  # too few; enough, or all there are
    while high - low > 1:
        middle = (low + high) >> 1
        x = 1.0 - middle / STEPS
        units = as_int64(0)
        for k in range(leaves):
            units += given_at(supply, as_int64(supply.leaf[k]), x)
        if units >= need:
            high = middle
        else:
            low = middle
        if units == need:
            break
    above = as_int64(-need)
    for k in range(leaves):
        leaf = as_int64(supply.leaf[k])
        supply.placement.want[leaf] = given_at(supply, leaf, 1.0 - high / STEPS)
        above += supply.placement.want[leaf]
    k = as_int64(leaves - 1)
    while above > 0:
        leaf = as_int64(supply.leaf[k])
        back = min(above, as_int64(supply.placement.want[leaf]))
        supply.placement.want[leaf] -= back
        above -= back
        k -= 1


@inlined
def given_at(supply: SupplyLimits, leaf: int, x: float) -> int:
    """Return how many units a leaf gives at x, of those that it may give (``spare_free``)."""
    pull, most = supply.placement.pull[leaf], as_int64(supply.spare_free[leaf])
    if pull <= x:
        return 0
    if pull >= 0.5 or x >= 0.5:
        return int(most)
    return int(min(float(most), supply.placement.weight[leaf] * ((pull - x) / (0.5 - x))))


@inlined
def bound_leaves(supply: SupplyLimits, first: int, end: int, need: int, unit_net: int, racks: int) -> None:
    """Leave ``spare_free`` of so many leaves only as hold the job, ``racks`` if they can; 0 elsewhere."""
    may, pull = supply.spare_free, supply.placement.pull
    least, some, enough = -(-need // racks), as_int64(0), as_int64(0)
    for leaf in range(first, end):
        may[leaf] = room_on_path(supply, as_int64(leaf), unit_net, as_int64(supply.free[leaf]))
        some += may[leaf] > 0
        enough += may[leaf] >= least
    if some <= racks:
        return
    if enough < racks:
        keep_largest(supply, first, end, need)
        return
    for leaf in range(first, end):
        if may[leaf] < least:
            may[leaf] = 0
    leaves = list_candidates(supply, first, end)
    low, high = -1.0, 1.0  # more leaves than the bound are above ``low``, not above ``high``
    left = as_int64(racks)
    for _ in range(HALVINGS):
        middle, above = (low + high) / 2.0, as_int64(0)
        for k in range(leaves):
            above += pull[supply.leaf[k]] > middle
        if above > racks:
            low = middle
        else:
            high = middle
            left = racks - above
        if above == racks:
            break
    for leaf in range(first, end):
        if pull[leaf] <= low or may[leaf] == 0:
            may[leaf] = 0
        elif pull[leaf] <= high:
            if left <= 0:
                may[leaf] = 0
            left -= 1


@inlined
def keep_largest(supply: SupplyLimits, first: int, end: int, need: int) -> None:
    """Leave ``spare_free`` of the leaves with most of it, as few as hold ``need`` units; of equal ones the first."""
    may = supply.spare_free
    low, high = as_int64(0), as_int64(1)  # leaves of ``low`` units and more hold the job, or are all
    for leaf in range(first, end):
        high = max(high, as_int64(may[leaf]) + 1)
    while high - low > 1:
        middle, units = (low + high) >> 1, as_int64(0)
        for leaf in range(first, end):
            if may[leaf] >= middle:
                units += may[leaf]
        if units >= need:
            low = middle
        else:
            high = middle
    left = need
    for leaf in range(first, end):
        if may[leaf] > low:
            left -= may[leaf]
    for leaf in range(first, end):
        if may[leaf] < low or (may[leaf] == low and left <= 0):
            may[leaf] = 0
        elif may[leaf] == low:
            left -= low


@inlined
def forget_wanted(supply: SupplyLimits, p: int) -> None:
    """Want no units of any leaf of partition p."""
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        supply.placement.want[leaf] = 0


@inlined
def list_wanted(supply: SupplyLimits, p: int) -> None:
    """Write the leaves of partition p of which units are wanted to ``leaf`` and ``take``."""
    found = as_int64(0)
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        if supply.placement.want[leaf] > 0:
            supply.leaf[found] = leaf
            supply.take[found] = supply.placement.want[leaf]
            found += 1
    supply.marks[LEAVES] = found


@inlined
def take_spare(supply: SupplyLimits, leaf: int, unit_net: int, count: int) -> int:
    """Take units of a leaf, up to ``count``, from ``spare_room``; return how many all domains above have room for."""
    count = room_on_path(supply, leaf, unit_net, count)
    if count > 0:
        domain = as_int64(supply.leaf_domain[leaf])
        while domain >= 0:
            supply.spare_room[domain] -= count
            domain = as_int64(supply.parent[domain])
    return as_int64(count)


@inlined
def room_on_path(supply: SupplyLimits, leaf: int, unit_net: int, count: int) -> int:
    """Return how many units of a leaf, up to ``count``, all domains above it have ``spare_room`` for."""
    domain, room, units = as_int64(supply.leaf_domain[leaf]), supply.spare_room, as_int64(len(supply.leaf_of))
    while domain >= 0 and count > 0:
        if room[domain] < 0:
            room[domain] = fed_by(supply, domain, unit_net, load_now(supply, as_int64(0)), units)
            if supply.marks[REACHED] < supply.marks[REACHED_END]:
                room[domain] = fed_ahead(supply, domain, unit_net, as_int64(room[domain]))
        count = min(count, as_int64(room[domain]))
        domain = as_int64(supply.parent[domain])
    return as_int64(count)


@separate
def propose_bare(view: KernelView, p: int, job: int, unit_net: int) -> int:
    """Do as ``propose_units`` without margins: where nothing runs, a job may start by what it can draw (rule 19)."""
    marks = view.supply.marks
    margin = as_int64(marks[MARGIN])
    marks[MARGIN], marks[KEY] = 0, -1
    found = propose_units(view, p, job, unit_net)
    marks[MARGIN] = margin
    return int(found)


@separate
def take_under_supply(view: KernelView, p: int, job: int, unit_net: int) -> None:
    """Give ``job`` the units that are proposed for it, each of ``unit_net`` microwatts. It must fit."""
    supply, held = view.supply, view.held
    if propose_units(view, p, job, unit_net) < view.nodes[job]:
        propose_bare(view, p, job, unit_net)
    leaves = as_int64(supply.marks[LEAVES])
    if is_ranked(view):
        take_chosen(view, p, job)
    else:
        filled = view.now.intervals
        held.first[job] = filled
        behind = as_int64(-1)
        for k in range(leaves):
            filled, behind = take_lowest(view, p, as_int64(k), filled, behind)
        view.units.free[p] -= view.nodes[job]
        held.pieces[job] = filled - held.first[job]
        view.now.intervals = filled
    move_listed(supply, leaves, unit_net, 1.0, as_int64(1))
    count_start(view, job, unit_net)


@inlined
def count_start(view: KernelView, job: int, unit_net: int) -> None:
    """Note what each unit of a job that has just started counts, where units have own figures."""
    if view.supply.marks[BY_UNIT] != 0:
        held = view.held
        for k in range(held.first[job], held.first[job] + held.pieces[job]):
            for one in range(held.low[k], held.high[k] + 1):
                view.supply.unit.counted[one] = unit_net


@kernel
def take_lowest(view: KernelView, p: int, row: int, filled: int, behind: int) -> tuple[int, int]:
    """Take the lowest free units of the leaf in a row of the list; return the next row of the log, and the next unit.

    ``behind`` is the number behind the last unit that the job got before, -1 for none.
    """
    units, left = view.units, as_int64(view.supply.take[row])
    leaf = as_int64(view.supply.leaf[row])
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
