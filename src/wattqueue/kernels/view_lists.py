"""Write out the queue, what of it fits now, and the running jobs of a view for parts in Python (``policy/view.py``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, bind, entry, inlined, referenced
from wattqueue.kernels.chance import most_net
from wattqueue.kernels.consent import first_option, last_option
from wattqueue.kernels.entries import holds_starts, is_delayed, net_watt, ready_units
from wattqueue.kernels.greedy import next_partition, undelayed
from wattqueue.kernels.state import Array, KernelView
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_classes import update_classes
from wattqueue.kernels.tree import CLASSES, Limits, class_of, tree_next

INF = float("inf")


@referenced
class Listing(NamedTuple):
    """Where rows of jobs are written to."""

    rows: Array
    """int32, room for as many as there may be."""


@referenced
class FittingRows(NamedTuple):
    """Where pairs of an entry and an option that fit are written to, (room,) each; see ``policy/fitting.py``."""

    entry: Array
    option: Array
    job: Array
    partition: Array
    nodes: Array
    net_w: Array
    walltime_s: Array


@inlined
def seek(view: KernelView, p: int, leaf: int, limits: Limits) -> None:
    """Make the first queued entry of partition p at ``leaf`` or behind it, within limits, its candidate."""
    view.reserved.candidate[p] = tree_next(view.tree, p, leaf, limits) if leaf < view.tree.size[p, 0] else -1


@inlined
def fitting_limits(view: KernelView, p: int) -> Limits:
    """Return what an entry of partition p may need to fit now, by units and by watts below the cap."""
    need, watt = as_int64(view.units.free[p]), as_int64(most_net(view))
    need_class, watt_class = class_of(view.tree.need_step, need), class_of(view.tree.watt_step, watt)
    return Limits(need, watt, INF, need, watt, need_class, watt_class)


@entry
def may_start(view: KernelView) -> int:
    """Return 1 where a queued entry may start now, by what it needs at least; 0 where none can.

    Beside running jobs; on an empty machine a job may start that fits the cap only alone (``start_checked``).
    """
    if view.now.queued == 0 or holds_starts(view):
        return 0
    if has_supply(view):
        update_classes(view)  # as a pass does first: what domains have room for since the last one
    for p in range(len(view.units.free)):
        if view.units.free[p] > 0:
            limits = fitting_limits(view, p)
            found = as_int64(tree_next(view.tree, p, 0, limits))
            if view.now.running == 0 or undelayed(view, p, found, limits) >= 0:
                return 1
    return 0


@entry
def list_queue(view: KernelView, out: Array) -> int:
    """Write the queued entries in queue order (rule 5 of docs/semantics.md) to ``out``; return how many.

    Merges the partitions' trees: the candidate with the lowest rank comes first. Uses ``reserved.candidate`` as
    working space, which every pass sets again. O(q log m).
    """
    everything = Limits(codes.ANY_NEED, codes.ANY_WATT, INF, codes.ANY_NEED, codes.ANY_WATT, CLASSES - 1, CLASSES - 1)
    for p in range(len(view.units.free)):
        # A limit that lets everything through: the search returns every queued leaf, one after the other.
        seek(view, p, 0, everything)
    k = 0
    p = next_partition(view)
    while p >= 0 and k < len(out):
        leaf = view.reserved.candidate[p]
        index = view.entries.start[p] + leaf
        if not is_delayed(view, as_int64(view.entries.job[index])):
            out[k] = index
            k += 1
        seek(view, p, leaf + 1, everything)
        p = next_partition(view)
    return k


@entry
def list_fitting(view: KernelView, out: FittingRows) -> int:
    """Write the queued entries that fit now, each option at which they do, to ``out``; return how many there are.

    In queue order, the highest frequency first; what ``out`` has no room for is counted alone. Working space and cost
    as ``list_queue``, of entries that fit alone.
    """
    for p in range(len(view.units.free)):
        seek(view, p, 0, fitting_limits(view, p))
    k = 0
    p = next_partition(view)
    while p >= 0:
        leaf = view.reserved.candidate[p]
        index = as_int64(view.entries.start[p] + leaf)
        job = as_int64(view.entries.job[index])
        if not is_delayed(view, job):
            ready_units(view, p, job)
            for option in range(first_option(view, index), last_option(view, index) + 1):
                net = net_watt(view, job, option)
                if net <= view.now.available_uw:
                    if k < len(out.entry):
                        out.entry[k], out.option[k], out.job[k], out.partition[k] = index, option, job, p
                        out.nodes[k], out.net_w[k] = view.nodes[job], net / codes.MICRO
                        out.walltime_s[k] = view.walltime[job]
                    k += 1
        seek(view, p, leaf + 1, fitting_limits(view, p))
        p = next_partition(view)
    return k


@entry
def list_running(view: KernelView, out: Listing) -> int:
    """Write the rows of running jobs by expected end to ``out``; return how many.

    Ends of one instant stand in the order in which the jobs started.
    """
    k = 0
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for i in range(view.running.filled[block]):
            out.rows[k] = view.running.job[block, i]
            k += 1
    return k


class RunningList:
    """Lists the running jobs of one view again and again: controls ask for them at every call."""

    __slots__ = ("rows", "write")

    def __init__(self, view: KernelView) -> None:
        """Prepare for a view: room for as many jobs as its blocks can hold."""
        self.rows: NDArray[np.int32] = np.empty(view.running.job.size, np.int32)
        """Rows of jobs by expected end, as ``write`` found them."""
        self.write = bind(list_running, view, Listing(self.rows))
        """Writes ``rows`` and returns how many there are."""
