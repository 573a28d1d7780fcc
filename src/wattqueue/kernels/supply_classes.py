"""How many units fit under power domains, for classes of watts a unit: what a search of the queue leaves out.

The most units of w microwatts that fit fall with w, so the number at the least watts of a class bounds all of the
class. It is kept for each class along the paths of the leaves that changed, in single precision, which holds numbers
of units exactly; quotients of watts are rounded up, so that it stays an upper bound. Bounds are brought up to date
where a search begins (``update_classes``); within a pass starts only lower them, so an old bound is still one. What
did not fit bounds the rest of its class, until something is given back.

A class also has the units that fit on the idle machine: a job of fewer watts and no more units fits some day
(``fits_alone_by_class``), and needs no count of its own.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.state import Array, KernelView, SupplyLimits
from wattqueue.kernels.supply import (
    CLASSES,
    has_supply,
    idle_machine,
    limits_row,
    touch,
)
from wattqueue.kernels.supply_ahead import reach_rows
from wattqueue.kernels.supply_chunks import holds_job
from wattqueue.kernels.supply_load import (
    GIVEN,
    IDLE_ROW,
    KEY,
    MARGIN,
    REACHED,
    REACHED_END,
    TOUCHED,
    count_domain,
    count_path,
    each_of,
    left_with,
    load_now,
    load_tried,
    units_that_fit,
)
from wattqueue.kernels.supply_placement import propose_bare, propose_units


@inlined
def class_of_unit(supply: SupplyLimits, unit_net: int) -> int:
    """Return the class of a unit of so many net microwatts: the last one whose least watts it reaches."""
    low, least = as_int64(0), supply.classes.least
    step = as_int64(CLASSES // 2)
    while step > 0:
        if least[low + step] <= unit_net:
            low += step
        step >>= 1
    return int(low)


@separate
def update_classes(view: KernelView) -> None:
    """Bring the bounds of all classes, and the units of entries reserved last, up to date with leaves that changed."""
    supply, classes = view.supply, view.supply.classes
    if supply.marks[TOUCHED] == 0:
        return
    for p in range(len(view.units.free)):
        update_partition(supply, as_int64(p))
    for k in range(supply.marks[TOUCHED]):
        leaf = as_int64(classes.touched[k])
        classes.is_touched[leaf] = 0
        classes.counted[leaf] = supply.free[leaf]
    supply.marks[TOUCHED] = 0
    if supply.marks[GIVEN] != 0:
        supply.marks[GIVEN] = 0
        for p in range(len(view.units.free)):
            for c in range(CLASSES):
                classes.refused_uw[p, c] = codes.ANY_WATT


@kernel
def update_partition(supply: SupplyLimits, p: int) -> None:
    """Count the units of partition p again above all leaves that changed; domains shared by neighbours once."""
    classes, each, above, carried = supply.classes, as_int64(supply.now_each[p]), as_int64(-1), as_int64(0)
    load = load_now(supply, p)
    total = as_int64(supply.now_total[p])
    for k in range(supply.marks[TOUCHED]):
        leaf = as_int64(classes.touched[k])
        more, domain = as_int64(supply.free[leaf] - classes.counted[leaf]), as_int64(supply.leaf_domain[leaf])
        if not supply.leaf_start[p] <= leaf < supply.leaf_start[p + 1]:
            more = as_int64(0)
        if domain < 0:
            total += more
            add_to_classes(classes.capacity[p], np.float32(more))
            continue
        add_to_classes(classes.below[p, domain], np.float32(more))
        update_domain(supply, p, domain)
        if supply.parent[domain] != above:
            update_path(supply, p, above)
            total += count_path(supply, above, carried, each, load)
            above, carried = as_int64(supply.parent[domain]), as_int64(0)
        carried += count_domain(supply, domain, more, each, load)
    update_path(supply, p, above)
    supply.now_total[p] = total + count_path(supply, above, carried, each, load)


@inlined
def add_to_classes(units: Array, more: np.float32) -> None:
    """Add so many units to each class. ``units`` (C,)."""
    for c in range(CLASSES):
        units[c] += more


@inlined
def update_domain(supply: SupplyLimits, p: int, domain: int) -> None:
    """Bring one domain up to date for all classes, and the sums of the domain above it, or at the top."""
    classes, up = supply.classes, as_int64(supply.parent[domain])
    room = np.float32(left_with(supply, domain, load_now(supply, p), as_int64(0)) + 1)
    share, below, most = classes.share[domain], classes.below[p, domain], classes.most[p, domain]
    above = classes.below[p, up] if up >= 0 else classes.capacity[p]
    for c in range(CLASSES):
        here = max(min(below[c], np.floor(room * share[c])), np.float32(0.0))
        above[c] += here - most[c]
        most[c] = here


@inlined
def update_path(supply: SupplyLimits, p: int, domain: int) -> None:
    """Do so for a domain and those above it; -1 stands above all domains."""
    while domain >= 0:
        update_domain(supply, p, domain)
        domain = as_int64(supply.parent[domain])


@inlined
def exceeds_class(view: KernelView, p: int, leaf: int) -> bool:
    """Return whether the entry at a leaf of partition p's queue has more units than fit in its class of watts."""
    at = as_int64(view.tree.offset[p, 0] + leaf)
    need = int(view.tree.need[at])
    return is_above_bound(view.supply, p, need, as_int64(view.tree.watt[at] // need))


@inlined
def is_above_bound(supply: SupplyLimits, p: int, need: int, unit_net: int) -> bool:
    """Return whether ``need`` units of ``unit_net`` certainly do not fit in partition p.

    They exceed the bound of their class, or fewer units of no more watts did not fit since anything was given back.
    """
    c = class_of_unit(supply, unit_net)
    if need > supply.classes.capacity[p, c]:
        return True
    return bool(unit_net >= supply.classes.refused_uw[p, c] and need > supply.classes.refused_most[p, c])


@inlined
def fits_supply(view: KernelView, p: int, job: int, net: int, end: float) -> bool:
    """Return whether a job of ``net`` microwatts fits under all domains beside what runs.

    Where the pass looks ahead, also at each announced limit of a domain before its expected ``end``.
    """
    return not has_supply(view) or fits_domains(view, p, job, net, end)


@separate
def fits_domains(view: KernelView, p: int, job: int, net: int, end: float) -> bool:
    """Return the same where a domain can hold jobs back; its units are the proposal then."""
    nodes = int(view.nodes[job])
    unit_net = each_of(net, nodes)
    update_classes(view)
    if is_above_bound(view.supply, p, nodes, unit_net):
        return False
    if view.now.looks_ahead != 0:
        reach_rows(view, end)
    found = propose_units(view, p, job, unit_net)
    if found < nodes and view.supply.marks[REACHED] == view.supply.marks[REACHED_END]:
        classes, c = view.supply.classes, class_of_unit(view.supply, unit_net)
        if unit_net <= classes.refused_uw[p, c]:
            classes.refused_uw[p, c] = unit_net
            classes.refused_most[p, c] = found
    return bool(found >= nodes)


@kernel
def fits_alone_by_class(view: KernelView, p: int, nodes: int, unit_net: int) -> bool:
    """Return whether the idle machine certainly holds ``nodes`` units of ``unit_net`` in partition p.

    Under the highest limits from now on; counted again where others are in force. Not asked under a margin, and where
    units are given by node.
    """
    if view.supply.marks[MARGIN] != 0 or view.supply.of_node[p] > 0:
        return False
    supply, row = view.supply, limits_row(view)
    if supply.marks[IDLE_ROW] != row + 1:
        idle_machine(view, supply.highest[row])
        supply.marks[IDLE_ROW] = row + 1
        for q in range(len(view.units.free)):
            for c in range(CLASSES):
                supply.classes.alone[q, c] = units_that_fit(
                    supply, as_int64(q), as_int64(supply.classes.least[c]), load_tried(supply)
                )
    c = class_of_unit(supply, unit_net)
    if supply.classes.least[c] < unit_net:
        c += 1  # the next class has more watts
    return bool(c < CLASSES and nodes <= supply.classes.alone[p, c])


@kernel
def idle_machine_holds(view: KernelView, p: int, nodes: int, unit_net: int) -> bool:
    """Return whether an idle machine holds ``nodes`` units of ``unit_net`` in partition p under the limits in force."""
    idle_machine(view, view.supply.limit)
    return holds_job(view.supply, p, nodes, unit_net, load_tried(view.supply))


@separate
def fits_bare(view: KernelView, p: int, job: int, net: int, end: float) -> bool:
    """Return whether a job of ``net`` microwatts fits under all domains without their margins, until ``end``."""
    nodes = int(view.nodes[job])
    if view.now.looks_ahead != 0:
        reach_rows(view, end)
    found = propose_bare(view, p, job, each_of(net, nodes))
    view.supply.marks[KEY] = -1  # a start proposes again, under margins first
    return bool(found >= nodes)


@separate
def put_terms(view: KernelView) -> None:
    """Let domains keep the margin of the ledger; the caller has the next pass look at all entries."""
    supply, now = view.supply, view.now
    supply.marks[MARGIN] = now.by_chance
    supply.terms[0], supply.terms[1], supply.terms[2] = now.chance_share, now.chance_own, now.chance_common
    count_all_again(supply)


@kernel
def count_all_again(supply: SupplyLimits) -> None:
    """Have bounds counted again everywhere: there may be more room than before."""
    supply.marks[GIVEN] = 1
    for p in range(len(supply.now_each)):
        supply.now_each[p] = -1
    for leaf in range(len(supply.free)):
        touch(supply, as_int64(leaf))


@separate
def put_limits(view: KernelView) -> None:
    """Put the limits of now in force; the caller has the next pass look at all entries."""
    supply, row = view.supply, limits_row(view)
    for domain in range(len(supply.room)):
        supply.room[domain] += supply.limits[row, domain] - supply.limit[domain]
        supply.limit[domain] = supply.limits[row, domain]
    count_all_again(supply)
