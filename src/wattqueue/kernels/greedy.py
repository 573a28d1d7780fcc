"""The greedy passes: none, first-fit, EASY and cwm, over some partitions (rules 7 and 8 of docs/semantics.md).

``try_in_order`` is also the first half of EASY with shortest-first backfilling (``kernels/shortest.py``).

The rules are stated for one list: entries of all partitions in one queue order, each tried once. Done literally, that
costs a test for each queued entry at each event: with 100,000 queued jobs far too much. The pass visits the same
entries in the same order, but only those that may start:

* Each partition has a *candidate*: its next entry that is worth a try. The pass takes the candidate with the lowest
  rank (``next_partition``), tries it exactly (``try_entry``), and looks for that partition's next candidate.
* A partition with a reservation (and first-fit from the beginning) finds its candidates with a search in its tree
  (``find_candidate``), which skips subtrees in which nothing can fit. A partition without one is walked entry by
  entry, because the first entry that does not start gets the reservation (or, without backfilling, ends the pass).
* Free units, free watts and leftovers only shrink during a pass, so an entry that was skipped would not start later in
  the same pass. One event breaks that: a start that drops its job's reservation in another partition. After it, all
  candidates are searched again from the next rank on (``refresh_candidates``).

From one pass to the next, ``begin_pass`` keeps reservations where only arrivals happened in between, and begins at the
first new entry.
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.announced import fits_ahead, is_held_back, sees_ahead, take_ahead
from wattqueue.kernels.chance import (
    fits_watts,
    keeps_margin,
    margin_beside,
    most_net,
    square_kept,
    square_w,
    with_margin,
)
from wattqueue.kernels.consent import consent_ends, first_option, last_option, promised_net
from wattqueue.kernels.entries import (
    leaf_is_delayed,
    net_watt,
    note_beyond,
    ready_units,
    start_entry,
    units_differ,
    wall_s,
)
from wattqueue.kernels.first_match import first_from
from wattqueue.kernels.state import KernelView
from wattqueue.kernels.supply import forget_refused, has_supply, note_refused
from wattqueue.kernels.supply_ahead import sees_domains_ahead, take_reached
from wattqueue.kernels.supply_beside import is_hopeless
from wattqueue.kernels.supply_chunks import fits_at_once
from wattqueue.kernels.supply_classes import fits_supply
from wattqueue.kernels.supply_reservations import (
    begin_shadow,
    end_at_shadow,
    keeps_reserved,
    outlive_shadow,
    reserved_fits,
    room_at_top,
    room_beside_reserved,
    top_may_hold,
)
from wattqueue.kernels.tree import Limits, class_of, tree_next

INF = float("inf")
CLOSED = -2  # a partition whose pass is over


class Left(NamedTuple):
    """What is left over beside a reserved job at a later time, and what counts then with it."""

    nodes: int
    """Units; negative while some are missing."""
    watt: int
    """Microwatts, of which a chance ledger keeps its margin free; negative while some are missing."""
    ledger: int
    """Net microwatts of the jobs that run then."""
    squares: int
    """The sum of their squares (W^2)."""


@inlined
def try_in_order(view: KernelView) -> int:
    """Try entries in queue order; return how many. Starts go to the view's buffer.

    Reservations stay for the next pass of arrivals only. Complexity: O((starts + partitions + 1) log m) tree searches,
    plus O(running blocks) for each reservation.
    """
    refresh_candidates(view, begin_pass(view))
    tried = 0
    while tried < view.now.depth:
        p = next_partition(view)
        if p < 0:
            break
        tried += 1
        leaf = view.reserved.candidate[p]
        entry = view.entries.start[p] + leaf
        if try_entry(view, p, entry):
            rank = view.entries.rank[entry]
            if drop_reservations(view, view.entries.job[entry], p):
                refresh_candidates(view, rank + 1)
            else:
                follow_candidates(view)
        else:
            entry_not_started(view, p, entry)
        if view.reserved.candidate[p] == leaf:
            view.reserved.candidate[p] = find_candidate(view, p, leaf + 1)
    return tried


@inlined
def begin_pass(view: KernelView) -> int:
    """Forget the last pass unless only arrivals happened since; return the rank from which to try entries.

    Entries tried before still do not fit: resources are the same (not ``dirty``), the reservations are the same, and
    time has only moved towards the shadow times, which makes it harder to end before them. This needs ranks that
    arrivals only append to (``fcfs_ranks``): a new entry in front could start, or take the reservation. Starts of the
    last pass that changed a reservation otherwise than a whole pass would make this one whole (``whole_next``).
    """
    now = view.now
    whole = now.dirty != 0 or now.fcfs_ranks == 0 or now.whole_next != 0
    whole = whole or now.depth < codes.ANY_NEED
    # What announced limits leave over changes with each start and each second.
    whole = whole or sees_ahead(view) or (has_supply(view) and sees_domains_ahead(view))
    # What was tried slowed is then tried at full speed.
    whole = whole or consent_ends(view)
    # What starts later is not among the running jobs that the bound was taken from.
    whole = whole or now.backfill == codes.LAST_END
    # The entry that closed a partition may be gone since: its job may have started in another one.
    whole = whole or (now.backfill == codes.NO_BACKFILL and len(view.units.free) > 1)
    first_rank = now.first_new
    now.dirty = 0
    now.first_new = -1
    if not whole:
        if first_rank < 0:
            return codes.ANY_NEED
        forget_refused(view, int(first_rank))
        return int(first_rank)
    now.whole_next = 0
    forget_refused(view, 0)
    for p in range(len(view.units.free)):
        view.reserved.entry[p] = -1
    return 0


@inlined
def refresh_candidates(view: KernelView, rank: int) -> None:
    """Search every partition's next candidate at ``rank`` or behind it.

    Needed at the begin of a pass, and after a start that dropped a reservation: entries behind it may fit now.
    Shortest first, a partition with a reservation has none: the others are not tried in queue order.
    """
    for p in range(len(view.units.free)):
        view.reserved.candidate[p] = -1
        if view.now.backfill != codes.SHORTEST or view.reserved.entry[p] < 0:
            view.reserved.candidate[p] = find_candidate(view, p, leaf_of_rank(view, p, rank))


@inlined
def follow_candidates(view: KernelView) -> None:
    """Move candidates on that a start took out of the queue: other entries of the job that started.

    Every other candidate stays valid: nothing became free.
    """
    for p in range(len(view.units.free)):
        leaf = view.reserved.candidate[p]
        if leaf >= 0 and view.tree.need[view.tree.offset[p, 0] + leaf] == codes.NEVER:
            view.reserved.candidate[p] = find_candidate(view, p, leaf + 1)


@inlined
def leaf_of_rank(view: KernelView, p: int, rank: int) -> int:
    """Return the first entry of partition p, counted from its begin, whose rank is at least ``rank``.

    Ranks rise within a partition, so a binary search finds it.
    """
    if rank <= 0:
        return 0
    start = as_int64(view.entries.start[p])
    return first_from(view.entries.rank, start, as_int64(view.entries.start[p + 1]), rank) - start


@inlined
def next_partition(view: KernelView) -> int:
    """Return the partition whose candidate comes first in queue order, -1 if none has a candidate.

    Machines have few partitions, so a loop over all of them is faster than a heap.
    """
    best = -1
    best_rank = codes.ANY_WATT
    for p in range(len(view.units.free)):
        leaf = view.reserved.candidate[p]
        if leaf >= 0:
            rank = view.entries.rank[view.entries.start[p] + leaf]
            if rank < best_rank:
                best = p
                best_rank = rank
    return best


@kernel
def find_candidate(view: KernelView, p: int, leaf: int) -> int:
    """Return the next entry of partition p, from ``leaf`` on, that is worth a try; -1 if there is none.

    Without pruning that is simply the next queued entry. Under EASY with a reservation, it must fit into what is free
    and either end by the shadow time or fit into the leftovers. A limited queue depth counts tried entries, so it
    forbids skipping.
    """
    if view.reserved.entry[p] == CLOSED or leaf >= view.tree.size[p, 0]:
        return -1
    limits = candidate_limits(view, p)
    if limits.need <= 0:
        return -1
    found = as_int64(tree_next(view.tree, p, leaf, limits))
    if limits.need == codes.ANY_NEED and leaf <= view.tree.head[p] < found:
        view.tree.head[p] = found  # whatever is queued would have been found
    return undelayed(view, p, found, limits)


@inlined
def undelayed(view: KernelView, p: int, found: int, limits: Limits) -> int:
    """Return the first entry from leaf ``found`` of partition p on, within limits, that may start; -1 for none.

    It is not delayed, and the power domains may have room for it (only where ``limits`` prune).
    """
    domains = has_supply(view) and limits.need < codes.ANY_NEED
    while found >= 0 and (leaf_is_delayed(view, p, found) or (domains and is_hopeless(view, p, found, limits))):
        following = found + 1
        found = as_int64(-1)
        if following < view.tree.size[p, 0]:
            found = as_int64(tree_next(view.tree, p, following, limits))
    return int(found)


@inlined
def candidate_limits(view: KernelView, p: int) -> Limits:
    """Return what an entry of partition p may need to be worth a try; 0 units where none is."""
    need = as_int64(codes.ANY_NEED)
    watt = as_int64(codes.ANY_WATT)
    wall = INF
    spare_need = codes.ANY_NEED
    spare_watt = codes.ANY_WATT
    code = view.now.backfill
    reserves = code == codes.EASY or code == codes.LAST_END or code == codes.SHORTEST
    prune = code == codes.FIRST_FIT or (reserves and view.reserved.entry[p] >= 0)
    # Pruned: skip entries that cannot start. Not with a queue depth, which counts every entry that is tried.
    if prune and view.now.depth >= codes.ANY_NEED:
        need = view.units.free[p]
        if has_supply(view):
            need = min(need, as_int64(fits_at_once(view, p)))
        watt = as_int64(most_net(view))
        watt = min(watt, as_int64(room_at_top(view)))
        if reserves and view.reserved.time[p] < INF:
            # Slightly wider than exact: this only prunes, the test at the leaf decides.
            time_s = view.now.time_s
            wall = (view.reserved.time[p] - time_s) + 1e-9 * abs(time_s) + 1e-9
            spare_need = view.reserved.nodes[p]
            spare_watt = min(as_int64(view.reserved.watt[p]), as_int64(room_beside_reserved(view, p)))
    need_class = class_of(view.tree.need_step, need)
    watt_class = class_of(view.tree.watt_step, watt)
    return Limits(need, watt, wall, spare_need, spare_watt, need_class, watt_class)


@inlined
def try_entry(view: KernelView, p: int, entry: int) -> bool:
    """Start ``entry`` at the highest frequency that fits and keeps all reservations; return whether it started.

    This is the exact test: units, watts now, every reservation of this pass, and the announced limits. Options stand
    highest frequency first.
    """
    job = as_int64(view.entries.job[entry])
    if view.nodes[job] > view.units.free[p]:
        return False
    ready_units(view, p, job)
    for option in range(first_option(view, entry), last_option(view, entry) + 1):
        watt = net_watt(view, job, option)
        if (
            fits_watts(view, watt)
            and fits_supply(view, p, job, watt, view.now.time_s + wall_s(view, job, option))
            and keeps_reservations(view, p, job, option, watt)
            and (view.now.looks_ahead == 0 or fits_ahead(view, entry, job, option, False))
        ):
            end = view.now.time_s + wall_s(view, job, option)
            if view.now.looks_ahead != 0:
                take_ahead(view, entry, job, option)
            note_earlier_shadows(view, job, end)
            start_entry(view, entry, option)
            if view.now.looks_ahead != 0 and has_supply(view):
                take_reached(view, job, watt)
            consume_leftovers(view, p, job, watt, end)
            return True
    return False


@inlined
def keeps_reservations(view: KernelView, p: int, job: int, option: int, watt: int) -> bool:
    """Return whether starting ``job`` at ``watt`` net microwatts delays no reservation but its own job's (rule 8).

    Watts are shared, so a start in one partition can delay the reservation of another.
    """
    end = view.now.time_s + wall_s(view, job, option)
    reserved = view.reserved
    for q in range(len(view.units.free)):
        if reserved.entry[q] < 0 or end <= reserved.time[q] or view.entries.job[reserved.entry[q]] == job:
            continue
        if q == p and view.nodes[job] > reserved.nodes[q]:
            return False
        if watt > reserved.watt[q]:
            return False
        if with_margin(view, watt, as_int64(reserved.ledger[q]), as_int64(reserved.squares[q])) > reserved.watt[q]:
            return False
        if has_supply(view):
            if not keeps_reserved(view, p, job, watt, as_int64(q)):
                note_refused(view, as_int64(view.entries.rank[view.entries.of_job[job, p]]))
                return False
    return True


@inlined
def note_earlier_shadows(view: KernelView, job: int, end: float) -> None:
    """Make the next pass a whole one where the start of ``job``, until ``end``, moves a shadow time forward.

    A reserved entry that fits now at its last option waits for the reservation of another partition, or may not start
    at that option now (``by_target``, consent). Its shadow time is the first end of a running job (rule 8). The start
    adds an end before that. What an entry lacks no earlier end gives back: the job
    that starts takes at least as much until then. To be called before the start takes units and watts.
    """
    reserved = view.reserved
    partitions, now = len(view.units.free), view.now
    if partitions == 1 and now.by_target == 0 and now.in_target == 0:
        return  # the only reservation is held back by none, and may start at any of its options
    for q in range(partitions):
        entry = as_int64(reserved.entry[q])
        if entry >= 0 and end < reserved.time[q] and view.entries.job[entry] != job:
            if suffices(view, left_beside(view, q, entry)):
                now.whole_next = 1


@inlined
def consume_leftovers(view: KernelView, p: int, job: int, watt: int, end: float) -> None:
    """Subtract a start that outlives a shadow time from what is left over there.

    Its watts everywhere, its units in its own partition: units belong to a partition, watts are shared.
    """
    reserved = view.reserved
    for q in range(len(view.units.free)):
        if reserved.entry[q] >= 0 and end > reserved.time[q] and view.entries.job[reserved.entry[q]] != job:
            reserved.watt[q] -= with_margin(view, watt, as_int64(reserved.ledger[q]), as_int64(reserved.squares[q]))
            if keeps_margin(view):
                reserved.ledger[q] += watt
                reserved.squares[q] += square_w(watt)
            if has_supply(view):
                outlive_shadow(view, as_int64(q), job, watt)
            if q == p:
                reserved.nodes[q] -= view.nodes[job]


@inlined
def drop_reservations(view: KernelView, job: int, p: int) -> bool:
    """Drop the reservations of a job that started in partition p in other partitions; return whether it had one.

    The partition's next entry that does not start gets a new one. WHOLE_NEXT makes the next pass a whole one, because
    entries that were passed over while the reservation stood may start without it.
    """
    dropped = False
    for q in range(len(view.units.free)):
        entry = as_int64(view.reserved.entry[q])
        if entry >= 0 and q != p and view.entries.job[entry] == job:
            view.reserved.entry[q] = -1
            view.now.whole_next = 1
            dropped = True
    return dropped


@inlined
def entry_not_started(view: KernelView, p: int, entry: int) -> None:
    """Apply what follows when ``entry`` does not start.

    No backfilling: its partition's pass is over. EASY (either order), cwm: it becomes its partition's reservation, if
    there is none yet; not where announced limits hold it back. First-fit: nothing. Shortest first, a partition
    with a reservation has no other entries that are tried in queue order.
    """
    code = view.now.backfill
    if code == codes.NO_BACKFILL:
        view.reserved.entry[p] = CLOSED
        view.reserved.candidate[p] = -1
    elif view.now.looks_ahead != 0 and is_held_back(view, entry):
        return
    elif (code == codes.EASY or code == codes.SHORTEST) and view.reserved.entry[p] < 0:
        reserve(view, p, entry)
        if code == codes.SHORTEST:
            view.reserved.candidate[p] = -1
    elif code == codes.LAST_END and view.reserved.entry[p] < 0:
        bound_by_last_end(view, p, entry)


@inlined
def bound_by_last_end(view: KernelView, p: int, entry: int) -> None:
    """Let later entries start only if they end no later than the last running job: a shadow time without leftovers."""
    blocks = view.now.blocks
    view.reserved.entry[p] = entry
    view.reserved.time[p] = view.running.last_end[view.running.order[blocks - 1]] if blocks > 0 else INF
    view.reserved.nodes[p] = -1
    view.reserved.watt[p] = -1


@inlined
def reserve(view: KernelView, p: int, entry: int) -> None:
    """Promise ``entry`` its shadow time, at the option that it is promised, on its worst units (rule 12).

    ``left`` is what would be left over beside the job, negative while something is missing. Whole blocks of running
    jobs are skipped by their sums while these do not suffice: from 158,976 nodes with 30,000 running jobs some 500
    blocks are looked at instead of all jobs.
    """
    job = as_int64(view.entries.job[entry])
    running = view.running
    view.reserved.entry[p] = entry
    view.reserved.time[p] = INF
    view.reserved.nodes[p] = 0
    view.reserved.watt[p] = 0
    left = start = left_beside(view, p, entry)
    at = 0
    while at < view.now.blocks:
        block = as_int64(running.order[at])
        behind = after_ends(left, running.nodes_sum[block, p], running.net_sum[block], running.square_sum[block])
        if suffices(view, behind) and top_may_hold(view, entry, start.ledger - behind.ledger):
            break
        left = behind
        at += 1
    find_shadow(view, p, entry, at, left)
    if units_differ(view) and view.reserved.time[p] == INF:
        note_beyond(view, entry)
    if len(view.planned.promise) > 0 and view.planned.promise[job] == INF:
        view.planned.promise[job] = view.reserved.time[p]


@inlined
def left_beside(view: KernelView, p: int, entry: int) -> Left:
    """Return what would be left over now beside ``entry`` of partition p, at the watts that a reservation counts."""
    now, net = view.now, promised_net(view, entry)
    watt = now.available_uw - net
    if keeps_margin(view):
        watt += now.margin_uw
    nodes = view.units.free[p] - view.nodes[view.entries.job[entry]]
    return Left(nodes, watt, now.ledger_uw + net, now.squares_w2 + square_w(net))


@inlined
def find_shadow(view: KernelView, p: int, entry: int, at: int, left: Left) -> None:
    """Set the shadow time: the first expected end, from the block at position ``at`` on, at which nothing is missing.

    ``left`` is what is left over before that block beside ``entry``. Ends of one instant count together. Where no end
    suffices, the time stays infinite and nothing is left over: only a higher cap could start the job.
    """
    running, reserved = view.running, view.reserved
    if has_supply(view):
        begin_shadow(view, p, at, promised_net(view, entry))
    k = 0
    while at < view.now.blocks:
        block = as_int64(running.order[at])
        end = running.end[block, k]
        job = as_int64(running.job[block, k])
        net = as_int64(running.net[block, k])
        freed = view.nodes[job] if view.units.option_partition[view.held.option[job]] == p else 0
        left = after_ends(left, freed, net, square_kept(view, job, net))
        if has_supply(view):
            end_at_shadow(view, p, job, net)
        k += 1
        if k == running.filled[block]:
            at += 1
            k = 0
        if at < view.now.blocks and running.end[running.order[at], k] == end:
            continue
        if suffices(view, left) and (not has_supply(view) or reserved_fits(view, p)):
            reserved.time[p] = end
            reserved.nodes[p] = left.nodes
            reserved.watt[p] = left.watt - margin_beside(view, left.ledger, left.squares)
            reserved.ledger[p] = left.ledger
            reserved.squares[p] = left.squares
            return


@inlined
def after_ends(left: Left, nodes: int, net: int, squares: int) -> Left:
    """Return what is left over once jobs have ended that hold so many units, net microwatts and W^2."""
    return Left(left.nodes + nodes, left.watt + net, left.ledger - net, left.squares - squares)


@inlined
def suffices(view: KernelView, left: Left) -> bool:
    """Return whether nothing is missing, with the margin of a chance ledger for what runs then."""
    if left.nodes < 0 or left.watt < 0:
        return False
    return bool(left.watt >= margin_beside(view, left.ledger, left.squares))
