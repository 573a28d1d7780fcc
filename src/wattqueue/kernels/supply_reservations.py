"""What is expected under power domains at the shadow time of a reservation (rule 22 of docs/semantics.md).

The state of a partition's reservation is free units by leaf and room by domain, without the reserved entry, and how
many units of that entry fit below each domain. A job that ends before, or that starts and outlives the shadow time,
changes this along the paths of its leaves only (``change_then``); nothing else is counted again.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.consent import promised_net
from wattqueue.kernels.state import KernelView
from wattqueue.kernels.supply import has_supply, list_leaves, running_each, variance_of
from wattqueue.kernels.supply_beside import forget_beside
from wattqueue.kernels.supply_chunks import nodes_hold
from wattqueue.kernels.supply_classes import update_classes
from wattqueue.kernels.supply_load import (
    LEAVES,
    ONE_TOP,
    count_domain,
    count_path,
    counted,
    each_of,
    left_bare,
    left_with,
    load_now,
    load_then,
    take_listed,
    units_that_fit,
)
from wattqueue.kernels.supply_placement import propose_units


@separate
def begin_shadow(view: KernelView, p: int, blocks: int, net: int) -> None:
    """Begin the state for p's reserved entry of ``net`` microwatts: now, without the jobs of the first blocks."""
    supply, running = view.supply, view.running
    unit_net = each_of(net, int(view.nodes[view.entries.job[view.reserved.entry[p]]]))
    count_now(view, p, unit_net)
    supply.then_each[p] = unit_net
    supply.then_total[p] = supply.now_total[p]
    forget_beside(view, p)
    for leaf in range(len(supply.free)):
        supply.then_free[p, leaf] = supply.free[leaf]
    for domain in range(len(supply.room)):
        supply.then_room[p, domain] = supply.room[domain]
        supply.then_drawn[p, 0, domain] = supply.drawn[0, domain]
        supply.then_drawn[p, 1, domain] = supply.drawn[1, domain]
        supply.then_below[p, domain] = supply.now_below[p, domain]
        supply.then_most[p, domain] = supply.now_most[p, domain]
    if blocks == 0:
        return
    for at in range(blocks):
        block = as_int64(running.order[at])
        for k in range(running.filled[block]):
            job = as_int64(running.job[block, k])
            each = running_each(view, job, as_int64(running.net[block, k]))
            leaves = list_leaves(view, job)
            take_listed(supply, leaves, each, variance_of(view, job), as_int64(-1), load_then(supply, p))
    supply.then_total[p] = units_that_fit(supply, p, unit_net, load_then(supply, p))


@inlined
def count_now(view: KernelView, p: int, unit_net: int) -> None:
    """Count how many units of ``unit_net`` fit now, unless that is known: the head of a queue stays for many passes."""
    supply = view.supply
    update_classes(view)
    if supply.now_each[p] != unit_net:
        supply.now_each[p] = unit_net
        supply.now_total[p] = units_that_fit(supply, p, unit_net, load_now(supply, p))


@kernel
def change_then(view: KernelView, q: int, leaves: int, unit_net: int, variance: float, sign: int) -> None:
    """Take (1) or give (-1) the listed units of a job, each of ``unit_net`` microwatts, in q's reservation's state."""
    supply = view.supply
    load = load_then(supply, q)
    first, end, reserved_net = supply.leaf_start[q], supply.leaf_start[q + 1], as_int64(supply.then_each[q])
    take_listed(supply, leaves, unit_net, variance, sign, load)
    total, above, carried = as_int64(supply.then_total[q]), as_int64(-1), as_int64(0)
    for k in range(leaves):
        leaf, more = as_int64(supply.leaf[k]), as_int64(-sign * supply.take[k])
        domain = as_int64(supply.leaf_domain[leaf])
        if not first <= leaf < end:
            more = as_int64(0)
        if domain < 0:
            total += more
            continue
        more = count_domain(supply, domain, more, reserved_net, load)
        if supply.parent[domain] != above:
            total += count_path(supply, above, carried, reserved_net, load)
            above, carried = as_int64(supply.parent[domain]), as_int64(0)
        carried += more
    supply.then_total[q] = total + count_path(supply, above, carried, reserved_net, load)


@separate
def end_at_shadow(view: KernelView, p: int, job: int, net: int) -> None:
    """Take a running job out of the state at the shadow time of partition p's reservation."""
    each, variance = running_each(view, job, net), variance_of(view, job)
    change_then(view, p, list_leaves(view, job), each, variance, as_int64(-1))


@separate
def outlive_shadow(view: KernelView, q: int, job: int, net: int) -> None:
    """Let a job that has started, and outlives the shadow time of partition q's reservation, run in that state, too."""
    change_then(view, q, list_leaves(view, job), each_of(net, int(view.nodes[job])), 1.0, as_int64(1))


@separate
def keeps_reserved(view: KernelView, p: int, job: int, net: int, q: int) -> bool:
    """Return whether the reserved entry of partition q still fits at its shadow time if ``job`` starts in p now.

    The units that ``job`` would get are taken out of the state that is expected then; it must fit now.
    """
    supply, unit_net = view.supply, each_of(net, int(view.nodes[job]))
    propose_units(view, p, job, unit_net)
    leaves = as_int64(supply.marks[LEAVES])
    change_then(view, q, leaves, unit_net, 1.0, as_int64(1))
    keeps = reserved_fits(view, q)
    change_then(view, q, leaves, unit_net, 1.0, as_int64(-1))
    return keeps


@inlined
def reserved_fits(view: KernelView, q: int) -> bool:
    """Return whether the reserved entry of partition q fits into that state."""
    need, supply = int(view.nodes[view.entries.job[view.reserved.entry[q]]]), view.supply
    if supply.then_total[q] < need:
        return False
    return supply.of_node[q] == 0 or nodes_hold_then(view, q, need)


@separate
def nodes_hold_then(view: KernelView, q: int, need: int) -> bool:
    """Return whether nodes have ``need`` units for it there, where units are given by node."""
    supply = view.supply
    return nodes_hold(supply, q, need, as_int64(supply.then_each[q]), load_then(supply, q))


@inlined
def top_domain(view: KernelView) -> int:
    """Return the domain that feeds the whole machine, -1 where there is none.

    Domains below others come first, so it is the last one, and the only one without a parent.
    """
    if not has_supply(view) or view.supply.marks[ONE_TOP] == 0:
        return -1
    return len(view.supply.parent) - 1


@inlined
def room_at_top(view: KernelView) -> int:
    """Return the net microwatts that the top domain may feed now: at least as much as any job takes.

    A unit counts less than a microwatt more than its net watts through all losses, and its net watts were rounded down.
    """
    if has_supply(view):
        update_classes(view)  # a search begins
    top = top_domain(view)
    if top < 0:
        return codes.ANY_WATT
    room = left_with(view.supply, as_int64(top), load_now(view.supply, as_int64(0)), as_int64(0))
    return int(max(room, as_int64(0)) / view.supply.gain[top]) + all_units(view)


@inlined
def room_beside_reserved(view: KernelView, p: int) -> int:
    """Return the same for what is left over at the shadow time beside the reserved entry of partition p."""
    top, supply = top_domain(view), view.supply
    if top < 0 or view.now.backfill == codes.LAST_END:
        return codes.ANY_WATT
    need = int(view.nodes[view.entries.job[view.reserved.entry[p]]])
    kept = need * counted(as_int64(supply.then_each[p]), float(supply.gain[top]))
    room = left_with(supply, as_int64(top), load_then(supply, p), as_int64(0))
    return int(max(room - kept, 0) / supply.gain[top]) + all_units(view)


@inlined
def top_may_hold(view: KernelView, entry: int, freed: int) -> bool:
    """Return whether the top domain may have room for a reserved entry once ``freed`` net microwatts have ended."""
    top = top_domain(view)
    if top < 0:
        return True
    need, gain = int(view.nodes[view.entries.job[entry]]), float(view.supply.gain[top])
    each = counted(each_of(promised_net(view, entry), need), gain)
    room = left_bare(view.supply, as_int64(top), load_now(view.supply, as_int64(0)))
    return bool(room + freed * gain + all_units(view) >= need * each)


@inlined
def all_units(view: KernelView) -> int:
    """Return the units of the machine."""
    return as_int64(view.units.unit_start[len(view.units.free)])
