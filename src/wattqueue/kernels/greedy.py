"""The greedy passes: none, first-fit and EASY over one or several partitions (SEMANTICS rules 7, 8).

Entries are tried once, in the one global order. A partition with a reservation is searched through
its tree; one without is walked entry by entry, because the first that does not start is promised.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, kernel, wide
from wattqueue.kernels.chance import fits_watts
from wattqueue.kernels.entries import net_watt, start_entry, wall_s
from wattqueue.kernels.search import first_from
from wattqueue.kernels.state import View
from wattqueue.kernels.tree import Limits, class_of, tree_next

INF = float("inf")
CLOSED = -2  # a partition whose pass is over


@inlined
def pass_greedy(view: View) -> None:
    """One pass; starts go to the buffer, reservations stay for the next pass of arrivals only."""
    first_rank = begin_pass(view)
    refresh_candidates(view, first_rank)
    tried = 0
    while tried < view.counter[codes.DEPTH]:
        p = next_partition(view)
        if p < 0:
            break
        tried += 1
        leaf = view.promise.candidate[p]
        entry = view.entries.start[p] + leaf
        ledger = view.counter[codes.LEDGER]
        if try_entry(view, p, entry):
            rank = view.entries.rank[entry]
            if drop_promises(view, view.entries.job[entry], p) or view.counter[codes.LEDGER] < ledger:
                refresh_candidates(view, rank + 1)
            else:
                follow_candidates(view)
        else:
            refuse_entry(view, p, entry)
        if view.promise.candidate[p] == leaf:
            view.promise.candidate[p] = find_candidate(view, p, leaf + 1)
    view.counter[codes.TRIED] = tried


@inlined
def begin_pass(view: View) -> int:
    """Forget the last pass unless only arrivals happened since; the rank from which to try entries.

    With static ranks that arrivals only append to, entries tried before still do not fit: resources
    are the same, and time has only moved towards the shadow times.
    """
    count = view.counter
    whole = count[codes.DIRTY] != 0 or count[codes.FCFS_RANKS] == 0 or count[codes.DROPPED] != 0
    whole = whole or count[codes.NEGATIVE_NET] != 0 or count[codes.DEPTH] < codes.ANY_NEED
    # The entry that closed a partition may be gone since: its job may have started in another one.
    whole = whole or (count[codes.CODE] == codes.NO_BACKFILL and len(view.units.free) > 1)
    first_rank = count[codes.FIRST_NEW]
    count[codes.DIRTY] = 0
    count[codes.FIRST_NEW] = -1
    if not whole:
        if first_rank < 0:
            return codes.ANY_NEED
        return int(first_rank)
    count[codes.DROPPED] = 0
    for p in range(len(view.units.free)):
        view.promise.entry[p] = -1
    return 0


@inlined
def refresh_candidates(view: View, rank: int) -> None:
    """Look for every partition's next candidate at ``rank`` or behind it."""
    for p in range(len(view.units.free)):
        view.promise.candidate[p] = find_candidate(view, p, leaf_of_rank(view, p, rank))


@inlined
def follow_candidates(view: View) -> None:
    """A start took a job's other entries out of the queue: move candidates on that are gone."""
    for p in range(len(view.units.free)):
        leaf = view.promise.candidate[p]
        if leaf >= 0 and view.tree.need[view.tree.offset[p, 0] + leaf] == codes.NEVER:
            view.promise.candidate[p] = find_candidate(view, p, leaf + 1)


@inlined
def leaf_of_rank(view: View, p: int, rank: int) -> int:
    """The first entry of partition p, counted from its begin, whose rank is at least ``rank``."""
    if rank <= 0:
        return 0
    start = wide(view.entries.start[p])
    return first_from(view.entries.rank, start, wide(view.entries.start[p + 1]), rank) - start


@inlined
def next_partition(view: View) -> int:
    """The partition whose candidate comes first in the global order, or -1."""
    best = -1
    best_rank = codes.ANY_WATT
    for p in range(len(view.units.free)):
        leaf = view.promise.candidate[p]
        if leaf >= 0:
            rank = view.entries.rank[view.entries.start[p] + leaf]
            if rank < best_rank:
                best = p
                best_rank = rank
    return best


@kernel
def find_candidate(view: View, p: int, leaf: int) -> int:
    """The next entry of partition p, from ``leaf`` on, that is worth a try; -1 if there is none."""
    if view.promise.entry[p] == CLOSED or leaf >= view.tree.size[p, 0]:
        return -1
    need = wide(codes.ANY_NEED)
    watt = wide(codes.ANY_WATT)
    wall = INF
    spare_need = codes.ANY_NEED
    spare_watt = codes.ANY_WATT
    code = view.counter[codes.CODE]
    prune = code == codes.FIRST_FIT or (code == codes.EASY and view.promise.entry[p] >= 0)
    if prune and view.counter[codes.DEPTH] >= codes.ANY_NEED:
        need = view.units.free[p]
        watt = view.counter[codes.AVAILABLE]
        if need <= 0:
            return -1
        if code == codes.EASY and view.promise.time[p] < INF:
            # A hair wider than exact: this only prunes, the test at the leaf decides.
            now = view.num[codes.NOW]
            wall = (view.promise.time[p] - now) + 1e-9 * abs(now) + 1e-9
            spare_need = view.promise.nodes[p]
            spare_watt = view.promise.watt[p]
    need_class = class_of(view.tree.need_step, need)
    watt_class = class_of(view.tree.watt_step, watt)
    limits = Limits(need, watt, wall, spare_need, spare_watt, need_class, watt_class)
    found = tree_next(view.tree, p, leaf, limits)
    if need == codes.ANY_NEED and leaf <= view.tree.head[p] < found:
        view.tree.head[p] = found  # whatever is queued would have been found
    return found


@inlined
def try_entry(view: View, p: int, entry: int) -> bool:
    """Start ``entry`` at the highest frequency that fits; whether it started."""
    job = wide(view.entries.job[entry])
    if view.nodes[job] > view.units.free[p]:
        return False
    for option in range(wide(view.entries.first[entry]), wide(view.entries.last[entry]) + 1):
        watt = net_watt(view, job, option)
        if fits_watts(view, watt) and keeps_promises(view, p, job, option):
            end = view.num[codes.NOW] + wall_s(view, job, option)
            start_entry(view, entry, option)
            consume_leftovers(view, p, job, watt, end)
            return True
    return False


@inlined
def keeps_promises(view: View, p: int, job: int, option: int) -> bool:
    """Whether starting ``job`` delays no reservation but its own job's (SEMANTICS rule 8)."""
    end = view.num[codes.NOW] + wall_s(view, job, option)
    watt = net_watt(view, job, option)
    promise = view.promise
    for q in range(len(view.units.free)):
        if promise.entry[q] < 0 or end <= promise.time[q] or view.entries.job[promise.entry[q]] == job:
            continue
        if watt > promise.watt[q] or (q == p and view.nodes[job] > promise.nodes[q]):
            return False
    return True


@inlined
def consume_leftovers(view: View, p: int, job: int, watt: int, end: float) -> None:
    """A start that outlives a shadow time takes from what is left over there."""
    promise = view.promise
    for q in range(len(view.units.free)):
        if promise.entry[q] >= 0 and end > promise.time[q] and view.entries.job[promise.entry[q]] != job:
            promise.watt[q] -= watt
            if q == p:
                promise.nodes[q] -= view.nodes[job]


@inlined
def drop_promises(view: View, job: int, p: int) -> bool:
    """A job that started in partition p gives up its reservations elsewhere; whether it had one."""
    dropped = False
    for q in range(len(view.units.free)):
        entry = wide(view.promise.entry[q])
        if entry >= 0 and q != p and view.entries.job[entry] == job:
            view.promise.entry[q] = -1
            view.counter[codes.DROPPED] = 1
            dropped = True
    return dropped


@inlined
def refuse_entry(view: View, p: int, entry: int) -> None:
    """What follows when ``entry`` does not start: nothing, the end of the partition's pass, a reservation."""
    code = view.counter[codes.CODE]
    if code == codes.NO_BACKFILL:
        view.promise.entry[p] = CLOSED
        view.promise.candidate[p] = -1
    elif code == codes.EASY and view.promise.entry[p] < 0:
        reserve(view, p, entry)


@inlined
def reserve(view: View, p: int, entry: int) -> None:
    """Promise ``entry`` its shadow time, at the lowest frequency of its window.

    Skips whole blocks of running jobs while their sums do not suffice; sums only grow from block to
    block unless some job draws less than its idle share, and then nothing is skipped.
    """
    job = wide(view.entries.job[entry])
    nodes = view.units.free[p] - view.nodes[job]
    watt = view.counter[codes.AVAILABLE] - net_watt(view, job, wide(view.entries.last[entry]))
    running = view.running
    view.promise.entry[p] = entry
    view.promise.time[p] = INF
    view.promise.nodes[p] = 0
    view.promise.watt[p] = 0
    at = 0
    while at < view.counter[codes.BLOCKS] and view.counter[codes.NEGATIVE_NET] == 0:
        block = wide(running.order[at])
        if nodes + running.nodes_sum[block, p] >= 0 and watt + running.net_sum[block] >= 0:
            break
        nodes += running.nodes_sum[block, p]
        watt += running.net_sum[block]
        at += 1
    find_shadow(view, p, at, nodes, watt)


@inlined
def find_shadow(view: View, p: int, at: int, nodes: int, watt: int) -> None:
    """The first expected end, from the block at position ``at`` on, at which nothing is missing any
    more; ``nodes`` and ``watt`` are what is left over before it. Ends of one instant count together."""
    running = view.running
    k = 0
    while at < view.counter[codes.BLOCKS]:
        block = wide(running.order[at])
        end = running.end[block, k]
        job = wide(running.job[block, k])
        watt += running.net[block, k]
        if view.units.option_partition[view.held.option[job]] == p:
            nodes += view.nodes[job]
        k += 1
        if k == running.filled[block]:
            at += 1
            k = 0
        if at < view.counter[codes.BLOCKS] and running.end[running.order[at], k] == end:
            continue
        if nodes >= 0 and watt >= 0:
            view.promise.time[p] = end
            view.promise.nodes[p] = nodes
            view.promise.watt[p] = watt
            return
