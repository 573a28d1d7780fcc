"""Progress: where nothing runs after a pass, a job starts whose stated maximum fits (rule 19 of docs/semantics.md).

A ledger may keep so much free, or count so much for a prediction, that a pass starts nothing on an idle machine. Then
nothing changes any more: no job ends, nothing is learned, and the queue waits for ever. So a job that cannot exceed a
limit, because all of its units at their stated maximum fit, starts there whatever the ledger counts.

A job for which no limit to come has room alone does not enter the queue (``never_starts``).

``start_one`` comes after every compiled pass (``kernels/schedule.py``). ``fits_alone`` is its test of one entry, which
a start that a part in Python names passes as well (``kernels/actions.py``).
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.announced import next_row
from wattqueue.kernels.chance import square_w
from wattqueue.kernels.consent import first_option, last_option
from wattqueue.kernels.entries import (
    equal_net,
    least_net,
    net_watt,
    ready_units,
    start_entry,
    units_differ,
    wall_s,
)
from wattqueue.kernels.greedy import next_partition, undelayed
from wattqueue.kernels.state import Array, KernelView, Truth
from wattqueue.kernels.state.truth import BASE_UW
from wattqueue.kernels.supply import has_supply, idle_machine, limits_row
from wattqueue.kernels.supply_chunks import holds_job
from wattqueue.kernels.supply_classes import fits_alone_by_class, fits_bare, update_classes
from wattqueue.kernels.supply_load import MARGIN, each_of, load_tried
from wattqueue.kernels.tree import Limits, class_of, tree_next

INF = float("inf")


@inlined
def room_uw(view: KernelView, limit_uw: int) -> int:
    """Return the net microwatts below a limit on an idle machine: no margin, and idle units at their idle watts."""
    return int(limit_uw - view.now.base_uw + view.now.base_margin_uw)


@inlined
def unit_net(view: KernelView, p: int) -> int:
    """Return the net microwatts of a unit of partition p at its stated maximum, -1 where none is stated."""
    most = as_int64(view.units.most_uw[p])
    if most < 0 or view.now.scope_jobs != 0:
        return int(most)
    return int(max(most - view.units.idle_uw[p], 0))


@inlined
def greatest_net(view: KernelView, p: int, job: int, net: int) -> int:
    """Return the most that a job of ``net`` predicted microwatts can add: its units at their stated maximum.

    The prediction stands where no maximum is stated, and where units differ and it is the greater one.
    """
    each = unit_net(view, p)
    if each < 0:
        return net
    most = int(view.nodes[job]) * each
    return int(max(most, net)) if units_differ(view) else most


@inlined
def fits_alone(view: KernelView, p: int, job: int, net: int, end: float) -> bool:
    """Return whether nothing runs, and a job of ``net`` predicted microwatts fits below the cap at its maximum.

    ``end``: up to when announced limits of domains are to hold, minus infinity for none.
    """
    if view.now.running > 0:
        return False
    most = greatest_net(view, p, job, net)
    if has_supply(view) and not fits_bare(view, p, job, as_int64(max(most, net)), end):
        return False
    return bool(most <= room_uw(view, as_int64(view.now.cap_uw)))


@kernel
def fits_announced(view: KernelView, p: int, job: int, option: int, net: int) -> bool:
    """Return whether a job has ended, or fits at its maximum, when each limit begins that the pass looks ahead to."""
    if view.now.looks_ahead == 0:
        return True
    end, most = view.now.time_s + wall_s(view, job, option), greatest_net(view, p, job, net)
    for row in range(next_row(view), as_int64(view.now.ahead_end)):
        if end <= view.ahead.time_s[row]:
            break
        if most > room_uw(view, as_int64(view.ahead.limit_uw[row])):
            return False
    return True


@kernel
def never_starts(view: KernelView, truth: Truth, job: int) -> int:
    """Return why a submitted job can start under no limit to come, whatever runs (``kernels/codes.py``); 0: it can."""
    if has_supply(view) and not fits_some_domain(view, truth, job):
        return codes.NO_ROOM_IN_SUPPLY
    row, steps = truth.loop.next_signal - 1, truth.announced
    while row + 1 < len(truth.signal_time) and truth.signal_time[row + 1] <= view.now.time_s:
        row += 1
    limit = as_int64(steps.highest_uw[row])
    if limit >= codes.NO_CAP:
        return 0
    base = max(as_int64(int(steps.least[BASE_UW])), as_int64(0))
    room = limit - base
    need, bare, _ = least_alone(view, steps.least, job, False)
    if need <= room:
        return 0
    if steps.highest_target_uw[row] >= 0:
        slowed, _, _ = least_alone(view, steps.least, job, True)
        if slowed <= as_int64(steps.highest_target_uw[row]) - base:
            return 0
    return codes.NO_ROOM_FOR_MARGIN if bare <= room else codes.NEVER_FITS


@separate
def fits_some_domain(view: KernelView, truth: Truth, job: int) -> bool:
    """Return whether an entry of a job fits under the domains of an idle machine, by the highest limits to come.

    Predicted, with the least margin (``AnnouncedSteps.least``); under a margin also at its maximum, without one.
    """
    supply, nodes, idle = view.supply, int(view.nodes[job]), False
    for p in range(len(view.units.free)):
        entry = as_int64(view.entries.of_job[job, p])
        if entry >= 0:
            for option in range(as_int64(view.entries.first[entry]), as_int64(view.entries.last[entry]) + 1):
                net = equal_net(view, job, option)
                if fits_alone_by_class(view, as_int64(p), nodes, each_of(net, nodes)):
                    return True
                if not idle:
                    idle_machine(view, supply.highest[limits_row(view)])
                    idle = True
                if holds_job(supply, as_int64(p), nodes, each_of(net, nodes), load_tried(supply)):
                    return True
                if supply.marks[MARGIN] != 0 and fits_later(view, truth, as_int64(p), job, net):
                    return True
    return False


@separate
def fits_later(view: KernelView, truth: Truth, p: int, job: int, net: int) -> bool:
    """Return whether a job of ``net`` predicted microwatts fits alone with the least margin, or at its maximum."""
    supply, nodes, least = view.supply, int(view.nodes[job]), truth.announced.least
    share, own, common = float(supply.terms[0]), float(supply.terms[1]), float(supply.terms[2])
    supply.terms[0], supply.terms[1], supply.terms[2] = least[0], least[1], least[2]
    fits = holds_job(supply, p, nodes, each_of(net, nodes), load_tried(supply))
    supply.terms[0], supply.terms[1], supply.terms[2] = share, own, common
    supply.marks[MARGIN] = 0
    most = as_int64(max(greatest_net(view, p, job, net), net))
    fits = fits or holds_job(supply, p, nodes, each_of(most, nodes), load_tried(supply))
    supply.marks[MARGIN] = 1
    return bool(fits)


@kernel
def least_alone(view: KernelView, least: Array, job: int, in_target: bool) -> tuple[int, int, int]:
    """Return the least microwatts that a job needs where nothing runs, over all options of all entries.

    On the best units: at their stated maximum or with the least margin, whichever is less; predicted, without a margin;
    and the margin at the option that needs least with it. ``least`` (4,): see ``AnnouncedSteps.least``. A job without
    an entry needs ``NO_CAP``. Options for use in load targets count only where ``in_target``.
    """
    need, bare, with_margin, margin = codes.NO_CAP, codes.NO_CAP, codes.NO_CAP, 0
    for p in range(len(view.units.free)):
        entry = as_int64(view.entries.of_job[job, p])
        if entry < 0:
            continue
        own = 0
        if least[BASE_UW] < 0:  # the nodes of others may be off
            own = int(view.nodes[job]) * as_int64(view.units.idle_uw[p]) * view.now.scope_machine
        last = as_int64(view.entries.last[entry] if in_target else view.entries.plain[entry])
        for option in range(as_int64(view.entries.first[entry]), last + 1):
            net = as_int64(least_net(view, p, job, option))
            kept = net_with_margin(least, net)
            bare = min(bare, own + net)
            need = min(need, own + min(kept, as_int64(greatest_net(view, p, job, net))))
            if kept < with_margin:
                with_margin, margin = kept, kept - net
    return need, bare, margin


@inlined
def net_with_margin(least: Array, net: int) -> int:
    """Return the microwatts that a job of ``net`` predicted ones needs alone, with the least margin."""
    watts = net / codes.MICRO
    margin = math.sqrt(least[1] * square_w(net) + least[2] * watts * watts)
    return as_int64(math.ceil(least[0] * (net + math.ceil(margin * codes.MICRO))))


@separate
def start_one(view: KernelView) -> None:
    """Start the first entry of the queue that fits at its maximum, if there is one. Nothing may run.

    Of a pass without backfilling and of that of cwm only the head of each partition may start. A limited queue depth
    counts every entry; otherwise those that do not fit are skipped by a search in the tree.
    """
    code = view.now.backfill
    heads_only = code == codes.NO_BACKFILL or code == codes.LAST_END
    every = heads_only or view.now.depth < codes.ANY_NEED
    every = every or (has_supply(view) and view.supply.marks[MARGIN] != 0)  # searches leave out what a margin refuses
    for p in range(len(view.units.free)):
        view.reserved.candidate[p] = next_alone(view, p, as_int64(0), every)
    tried = 0
    while tried < view.now.depth:
        p = next_partition(view)
        if p < 0:
            return
        tried += 1
        leaf = as_int64(view.reserved.candidate[p])
        if start_alone(view, p, view.entries.start[p] + leaf):
            return
        view.reserved.candidate[p] = -1 if heads_only else next_alone(view, p, leaf + 1, every)


@kernel
def next_alone(view: KernelView, p: int, leaf: int, every: bool) -> int:
    """Return the next queued entry of partition p from ``leaf`` on, -1 for none; unless ``every``, one that may fit."""
    if leaf >= view.tree.size[p, 0]:
        return -1
    need, watt = as_int64(codes.ANY_NEED), as_int64(codes.ANY_WATT)
    if not every:
        if has_supply(view):
            update_classes(view)
        need = as_int64(view.units.free[p])
        room = room_uw(view, as_int64(view.now.cap_uw))
        each = unit_net(view, p)
        if each > 0:
            need = min(need, max(room, as_int64(0)) // each)
        if each < 0 or units_differ(view):
            watt = as_int64(room)  # the prediction counts
        if need <= 0:
            return -1
    need_class = class_of(view.tree.need_step, need)
    watt_class = class_of(view.tree.watt_step, watt)
    anything = codes.ANY_NEED, codes.ANY_WATT
    limits = Limits(need, watt, INF, *anything, need_class, watt_class)
    return undelayed(view, p, as_int64(tree_next(view.tree, p, leaf, limits)), limits)


@kernel
def start_alone(view: KernelView, p: int, entry: int) -> bool:
    """Start ``entry`` at the first option that a pass would try and that fits at the maximum; return whether it did."""
    job = as_int64(view.entries.job[entry])
    if view.nodes[job] > view.units.free[p]:
        return False
    ready_units(view, p, job)
    for option in range(first_option(view, entry), last_option(view, entry) + 1):
        net = net_watt(view, job, option)
        end = view.now.time_s + wall_s(view, job, option)
        if fits_alone(view, p, job, net, end) and fits_announced(view, p, job, option, net):
            start_entry(view, entry, option)
            view.now.dirty = 1  # reservations and the plan were made without it
            return True
    return False
