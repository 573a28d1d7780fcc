"""EASY with shortest-first backfilling: the queue in order up to the reservations, then the others by planned time.

The pass has two parts (rule 8 of docs/semantics.md). ``greedy.try_in_order`` goes through the queue as for EASY, and
leaves a partition at its first entry that does not start: the reservation. ``try_shortest`` tries what is queued
besides, of all partitions, by (planned time, queue order). Entries that cannot start are skipped by a search in the
tree (``find_shortest``): as in ``greedy``, free units, free watts and leftovers only shrink during a pass, so the next
entry to start is always the shortest of those that pass now.
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.entries import leaf_is_delayed
from wattqueue.kernels.greedy import candidate_limits, drop_reservations, entry_not_started, try_entry
from wattqueue.kernels.state import KernelView, Tree
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_beside import is_hopeless
from wattqueue.kernels.tree import FAN, SHIFT, Limits

INF = float("inf")


class Place(NamedTuple):
    """A place in the order of planned times: seconds, and the rank in the queue that separates equal ones."""

    wall: float
    rank: int


@separate
def try_shortest(view: KernelView, tried: int) -> int:
    """Try what is queued besides the reservations by planned time; return how many were tried, with those before.

    The last place that was tried bounds the next search from below: nothing is tried twice.
    """
    last = Place(-INF, as_int64(-1))
    while tried < view.now.depth:
        p = shortest_partition(view, last)
        if p < 0:
            break
        tried += 1
        leaf = as_int64(view.reserved.candidate[p])
        last = place_of(view, p, leaf)
        entry = view.entries.start[p] + leaf
        if try_entry(view, p, entry):
            drop_reservations(view, view.entries.job[entry], p)
        else:
            entry_not_started(view, p, entry)
    return tried


@inlined
def shortest_partition(view: KernelView, last: Place) -> int:
    """Search every partition's next candidate behind ``last``; return the partition of the first, -1 for none."""
    best = Place(INF, as_int64(-1))
    best_p = -1
    for p in range(len(view.units.free)):
        leaf = find_shortest(view, p, candidate_limits(view, p), last)
        view.reserved.candidate[p] = leaf
        if leaf >= 0:
            place = place_of(view, p, leaf)
            if best_p < 0 or before(place, best):
                best = place
                best_p = p
    return best_p


@inlined
def place_of(view: KernelView, p: int, leaf: int) -> Place:
    """Return the place of a queued entry in the order of planned times."""
    rank = as_int64(view.entries.rank[view.entries.start[p] + leaf])
    return Place(float(view.tree.wall[view.tree.offset[p, 0] + leaf]), rank)


@inlined
def before(one: Place, other: Place) -> bool:
    """Return whether a place comes before another."""
    return one.wall < other.wall or (one.wall == other.wall and one.rank < other.rank)


@inlined
def passes(tree: Tree, k: int, limits: Limits) -> bool:
    """Return whether a node, or something below it, may be a candidate: the minima of ``tree.leaves_passing``."""
    if tree.need[k] > limits.need or tree.watt[k] > limits.watt:
        return False
    return bool(
        tree.wall[k] <= limits.wall or (tree.need[k] <= limits.spare_need and tree.watt[k] <= limits.spare_watt)
    )


@kernel
def find_shortest(view: KernelView, p: int, limits: Limits, last: Place) -> int:
    """Return the candidate of partition p with the first place behind ``last``, -1 for none; not the reserved entry.

    A walk over the tree from left to right, which leaves out a subtree whose least planned time is no shorter than the
    best found so far. Among equal times the first wins, as ranks rise from left to right.
    """
    tree = view.tree
    top = tree.height[p] - 1
    if top < 0 or limits.need <= 0:
        return -1
    begin, domains = as_int64(view.entries.start[p]), has_supply(view) and limits.need < codes.ANY_NEED
    best = -1
    best_wall = INF
    level = top
    i = as_int64(0)
    while True:
        k = as_int64(tree.offset[p, level]) + i
        if tree.wall[k] < best_wall and passes(tree, k, limits):
            if level > 0:
                level -= 1
                i *= FAN
                continue
            tried = begin + i == view.reserved.entry[p] or not before(last, place_of(view, p, i))
            excluded = leaf_is_delayed(view, p, i) or (domains and is_hopeless(view, p, i, limits))
            if not tried and not excluded:
                best = i
                best_wall = tree.wall[k]
        # Up, while the node is the last one of its parent.
        while level < top and (i & (FAN - 1) == FAN - 1 or i == tree.size[p, level] - 1):
            i >>= SHIFT
            level += 1
        if level == top:
            return int(best)
        i += 1
