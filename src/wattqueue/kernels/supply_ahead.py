"""Announced limits of power domains, seen from before they come (rules 13 and 22 of docs/semantics.md).

A pass that looks ahead starts an entry only if, at each time at which the limit of a domain falls before the entry's
expected end, that domain holds the units that it would get beside what is planned to run then. All units of a job count
the same watts, so this only lowers how many units a domain feeds: the least of now and of each *row* that the entry
reaches. The count from the bottom up stays exact, and a start gets the units that all rows have room for
(``reach_rows``, then ``kernels/supply_placement.py``).

A row is computed once in a pass, from the row before it and the jobs that end in between; starts of the pass are added.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.first_match import first_from
from wattqueue.kernels.state import KernelView, SupplyLimits, SupplyLoad
from wattqueue.kernels.supply import list_leaves, running_each, variance_of
from wattqueue.kernels.supply_load import (
    KEY,
    REACHED,
    REACHED_END,
    each_of,
    fed_by,
    load_tried,
    take_listed,
)


@inlined
def first_reached(view: KernelView) -> tuple[int, int]:
    """Return the first row that is announced now and later than now, and the one behind the last."""
    ahead, time_s = view.supply.ahead, float(view.now.time_s)
    epoch, epochs = as_int64(0), as_int64(len(ahead.known_s))
    while epoch + 1 < epochs and ahead.known_s[epoch + 1] <= time_s:
        epoch += 1
    if epochs == 0:
        return as_int64(0), as_int64(0)
    end = as_int64(ahead.epoch_start[epoch + 1])
    row = first_from(ahead.time_s, as_int64(ahead.epoch_start[epoch]), end, time_s)
    while row < end and ahead.time_s[row] <= time_s:
        row += 1
    return as_int64(row), end


@inlined
def sees_domains_ahead(view: KernelView) -> bool:
    """Return whether this pass looks ahead, and a lower limit of a domain is announced."""
    if view.now.looks_ahead == 0:
        return False
    first, end = first_reached(view)
    return bool(first < end)


@inlined
def load_ahead(supply: SupplyLimits, place: int) -> SupplyLoad:
    """Return what is expected in a computed row: room below the limits of now, and no free units."""
    ahead = supply.ahead
    return SupplyLoad(supply.spare_free, ahead.room[place], ahead.drawn[place], supply.below, supply.most)


@separate
def reach_rows(view: KernelView, end: float) -> None:
    """Let the next proposals keep the announced limits that begin before ``end``; minus infinity: none of them."""
    ahead, marks = view.supply.ahead, view.supply.marks
    first, behind = first_reached(view)
    row = as_int64(first)
    while row < behind and ahead.time_s[row] < end:
        if ahead.stamp[row - first] != view.now.ahead_stamp or ahead.row[row - first] != row:
            sum_row_of_domains(view, row - first, row)
        row += 1
    if marks[REACHED] != first or marks[REACHED_END] != row:
        marks[REACHED], marks[REACHED_END], marks[KEY] = first, row, -1
        ahead.place[0] = first


@kernel
def sum_row_of_domains(view: KernelView, place: int, row: int) -> None:
    """Compute what a row leaves: what the row before it does (the first: now), and the jobs that end until then."""
    supply, ahead, running = view.supply, view.supply.ahead, view.running
    for domain in range(len(supply.room)):
        if place == 0:
            ahead.room[0, domain] = supply.room[domain]
            ahead.drawn[0, 0, domain], ahead.drawn[0, 1, domain] = supply.drawn[0, domain], supply.drawn[1, domain]
        else:
            ahead.room[place, domain] = ahead.room[place - 1, domain]
            ahead.drawn[place, 0, domain] = ahead.drawn[place - 1, 0, domain]
            ahead.drawn[place, 1, domain] = ahead.drawn[place - 1, 1, domain]
    after = ahead.time_s[row - 1] if place > 0 else -float("inf")
    load, until = load_ahead(supply, place), ahead.time_s[row]
    for at in range(view.now.blocks):
        block = as_int64(running.order[at])
        if running.end[block, 0] > until:
            break
        if running.last_end[block] > after:
            for k in range(running.filled[block]):
                if after < running.end[block, k] <= until:
                    job = as_int64(running.job[block, k])
                    each = running_each(view, job, as_int64(running.net[block, k]))
                    take_listed(supply, list_leaves(view, job), each, variance_of(view, job), as_int64(-1), load)
    ahead.stamp[place], ahead.row[place] = view.now.ahead_stamp, row


@separate
def take_reached(view: KernelView, job: int, net: int) -> None:
    """Let a job that has just started run in all computed rows that begin before its expected end."""
    supply, ahead, end = view.supply, view.supply.ahead, float(view.held.end[job])
    leaves, each = list_leaves(view, job), each_of(net, int(view.nodes[job]))
    first, behind = first_reached(view)
    row = as_int64(first)
    while row < behind and ahead.time_s[row] < end and ahead.stamp[row - first] == view.now.ahead_stamp:
        take_listed(supply, leaves, each, 1.0, as_int64(1), load_ahead(supply, row - first))
        row += 1


@kernel
def fed_ahead(supply: SupplyLimits, domain: int, unit_net: int, units: int) -> int:
    """Return how many of ``units`` of one job a domain feeds in all reached rows in which its limit falls."""
    ahead = supply.ahead
    for row in range(supply.marks[REACHED], supply.marks[REACHED_END]):
        limit = as_int64(ahead.limit_uw[row, domain])
        if limit < codes.NO_CAP:
            load = load_ahead(supply, as_int64(row - ahead.place[0]))
            before = as_int64(load.room[domain])
            load.room[domain] = before + limit - supply.limit[domain]
            units = min(units, fed_by(supply, domain, unit_net, load, units))
            load.room[domain] = before
    return units


@separate
def hold_announced(view: KernelView, p: int, job: int, net: int, end: float) -> bool:
    """Return whether announced limits of domains alone let ``job`` run until ``end``, on whatever units it gets."""
    supply, nodes = view.supply, int(view.nodes[job])
    reach_rows(view, end)
    tried, each, found = load_tried(supply), each_of(net, nodes), as_int64(0)
    for domain in range(len(tried.below)):
        tried.below[domain] = 0
    for leaf in range(supply.leaf_start[p], supply.leaf_start[p + 1]):
        units, domain = (
            as_int64(supply.leaf_unit[leaf + 1] - supply.leaf_unit[leaf]),
            as_int64(supply.leaf_domain[leaf]),
        )
        if domain < 0:
            found += units
        else:
            tried.below[domain] += units
    for domain in range(len(tried.below)):
        units, up = fed_ahead(supply, as_int64(domain), each, as_int64(tried.below[domain])), supply.parent[domain]
        if up < 0:
            found += units
        else:
            tried.below[up] += units
    return bool(found >= nodes)
