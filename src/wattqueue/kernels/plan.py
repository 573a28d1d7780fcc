"""Conservative backfilling (SEMANTICS rule 9): every queued entry has its place in a plan.

The plan is rebuilt from scratch at every pass. Where only arrivals happened since the last one, the
same plan would come out for everybody who was there (running jobs and cap are the same, and nobody
was planned to start in between), so the new entries are added to it instead; unless a job is past its
expected end, which moves what was planned behind it.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._jit import at_least, inlined, kernel, wide
from wattqueue.kernels.bits import ZERO, lowest_bit, mask
from wattqueue.kernels.entries import net_watt, start_entry, wall_s
from wattqueue.kernels.greedy import find_candidate, follow_candidates, next_partition, refresh_candidates
from wattqueue.kernels.search import first_from
from wattqueue.kernels.state import Plan, View

INF = float("inf")
OVERDUE_S = 1e-6  # a job past its expected end holds its units at least to the next microsecond


@kernel
def pass_conservative(view: View) -> None:
    """One pass: plan every entry in the global order, start those whose place is now."""
    refresh_candidates(view, begin_plan(view))
    tried = 0
    while tried < view.counter[codes.DEPTH]:
        p = next_partition(view)
        if p < 0:
            break
        tried += 1
        leaf = view.promise.candidate[p]
        if plan_entry(view, p, view.entries.start[p] + leaf):
            follow_candidates(view)
        if view.promise.candidate[p] == leaf:
            view.promise.candidate[p] = find_candidate(view, p, leaf + 1)
    view.counter[codes.TRIED] = tried
    view.counter[codes.PLANNED] = 1


@inlined
def begin_plan(view: View) -> int:
    """Rebuild the profile, or move the last one to now; the rank from which entries are planned."""
    count = view.counter
    whole = count[codes.DIRTY] != 0 or count[codes.FCFS_RANKS] == 0 or count[codes.PLANNED] == 0
    whole = whole or count[codes.DEPTH] < codes.ANY_NEED or is_overdue(view)
    first_rank = count[codes.FIRST_NEW]
    count[codes.DIRTY] = 0
    count[codes.FIRST_NEW] = -1
    for p in range(len(view.units.free)):
        view.promise.entry[p] = -1
    if whole:
        build_profile(view)
        return 0
    advance_profile(view)
    if first_rank < 0:
        return codes.ANY_NEED
    return int(first_rank)


@inlined
def is_overdue(view: View) -> bool:
    """Whether some job runs on at or past its expected end: the last plan has its units free by now."""
    if view.counter[codes.BLOCKS] == 0:
        return False
    return bool(view.running.end[view.running.order[0], 0] <= view.num[codes.NOW])


@inlined
def build_profile(view: View) -> None:
    """Free units and watts from now on, as running jobs reach their expected ends."""
    plan = view.plan
    running = view.running
    now = view.num[codes.NOW]
    partitions = len(view.units.free)
    plan.time[0] = now
    plan.watt[0] = view.counter[codes.AVAILABLE]
    for p in range(partitions):
        plan.nodes[p, 0] = view.units.free[p]
    row = 0
    for at in range(view.counter[codes.BLOCKS]):
        block = wide(running.order[at])
        for k in range(running.filled[block]):
            end = max(running.end[block, k], now + OVERDUE_S)
            if end > plan.time[row]:
                row += 1
                plan.time[row] = end
                plan.watt[row] = plan.watt[row - 1]
                for p in range(partitions):
                    plan.nodes[p, row] = plan.nodes[p, row - 1]
            job = wide(running.job[block, k])
            plan.watt[row] += running.net[block, k]
            plan.nodes[view.units.option_partition[view.held.option[job]], row] += view.nodes[job]
    view.counter[codes.PROFILE] = row + 1
    view.counter[codes.PROFILE_HEAD] = 0
    view.counter[codes.STAMP] += 1


@inlined
def advance_profile(view: View) -> None:
    """Let the profile begin now."""
    head = view.counter[codes.PROFILE_HEAD]
    while head + 1 < view.counter[codes.PROFILE] and view.plan.time[head + 1] <= view.num[codes.NOW]:
        head += 1
    view.plan.time[head] = max(view.plan.time[head], view.num[codes.NOW])
    view.counter[codes.PROFILE_HEAD] = head


@inlined
def plan_entry(view: View, p: int, entry: int) -> bool:
    """Give ``entry`` its earliest place beside all placed before it; whether it started."""
    job = wide(view.entries.job[entry])
    before = withdraw_plan(view, job)
    last = wide(view.entries.last[entry])
    for option in range(wide(view.entries.first[entry]), last):
        if fits_now(view, p, job, option):
            start_planned(view, entry, option)
            return True
    need = wide(view.nodes[job])
    watt = net_watt(view, job, last)
    wall = wall_s(view, job, last)
    row, behind = earliest_place(view, p, need, watt, wall)
    if row >= 0 and (
        row == view.counter[codes.PROFILE_HEAD] or before < 0 or view.plan.time[row] < view.plan.begin[job]
    ):
        view.plan.begin[job] = view.plan.time[row]
        take_rows(view, p, row, behind, view.plan.time[row] + wall, need, watt)
        if row == view.counter[codes.PROFILE_HEAD]:
            view.plan.entry[job] = -1
            start_entry(view, entry, last)
            return True
        view.plan.entry[job] = entry
        view.plan.stamp[job] = view.counter[codes.STAMP]
    elif before >= 0:
        view.plan.entry[job] = before
        change_profile(view, before, wide(view.entries.last[before]), wide(-1))
    return False


@inlined
def withdraw_plan(view: View, job: int) -> int:
    """Take the place of an earlier entry of ``job`` out of this profile; that entry, or -1."""
    entry = wide(view.plan.entry[job])
    if view.plan.stamp[job] != view.counter[codes.STAMP] or entry < 0:
        return -1
    view.plan.entry[job] = -1
    change_profile(view, entry, wide(view.entries.last[entry]), wide(1))
    return int(entry)


@inlined
def start_planned(view: View, entry: int, option: int) -> None:
    """Start ``entry`` now and take it out of the profile until its expected end."""
    job = wide(view.entries.job[entry])
    view.plan.begin[job] = view.num[codes.NOW]
    change_profile(view, entry, option, wide(-1))
    view.plan.entry[job] = -1
    start_entry(view, entry, option)


@inlined
def fits_now(view: View, p: int, job: int, option: int) -> bool:
    """Whether ``job`` fits from now on for its whole walltime at ``option``."""
    end = view.num[codes.NOW] + wall_s(view, job, option)
    head = wide(view.counter[codes.PROFILE_HEAD])
    need = wide(view.nodes[job])
    watt = net_watt(view, job, option)
    if view.plan.nodes[p, head] < need or view.plan.watt[head] < watt:
        return False  # asked by itself: a walltime may be too short for the clock, and end now
    filled = wide(view.counter[codes.PROFILE])
    behind = first_low(view.plan, p, head + 1, filled, end, need, watt)
    return behind == filled or view.plan.time[behind] >= end


@inlined
def earliest_place(view: View, p: int, need: int, watt: int, wall: float) -> tuple[int, int]:
    """The first row of the profile from which ``need`` units and ``watt`` are there for ``wall`` seconds, and the
    first row at or past their end; -1 and -1 for never.

    Rows are looked at by the 64, a bit each, because what is there and what is not takes turns every few rows.
    """
    plan = view.plan
    time = plan.time
    filled = wide(view.counter[codes.PROFILE])
    begin = wide(-1)  # the row from which they are there without a gap
    end = INF
    at = wide(view.counter[codes.PROFILE_HEAD])
    while at < filled:
        count = min(filled - at, wide(64))
        there = rows_with(plan, p, at, need, watt) & mask(wide(0), count)
        row = at
        while True:
            if begin < 0:
                ahead = there & ~mask(wide(0), row - at)
                if ahead == ZERO:
                    break
                row = at + lowest_bit(ahead)
                begin = row
                end = time[row] + wall
            gaps = ~there & ~mask(wide(0), row - at)
            row = at + (count if gaps == ZERO else min(lowest_bit(gaps), count))
            if row < filled and time[row] >= end:
                return begin, first_from(time, begin + 1, row, end)
            if row == at + count:
                break
            begin = wide(-1)
        at += count
    if begin < 0:
        return -1, -1
    return begin, first_from(time, begin + 1, filled, end)


@inlined
def rows_with(plan: Plan, p: int, row: int, need: int, watt: int) -> np.uint64:
    """A bit for each of the 64 rows from ``row`` on: whether it has ``need`` units of partition p and ``watt``."""
    room = len(plan.watt)
    at = min(row, room - 64)
    bits = at_least(plan.nodes, p * room + at, need) & at_least(plan.watt, at, watt)
    return np.uint64(bits >> np.uint64(row - at))


@inlined
def first_low(plan: Plan, p: int, row: int, filled: int, end: float, need: int, watt: int) -> int:
    """The first row from ``row`` on that has less, or that lies at ``end`` or past it; ``filled`` for none."""
    nodes, watts, time = plan.nodes, plan.watt, plan.time
    while row < filled and time[row] < end and nodes[p, row] >= need and watts[row] >= watt:
        row += 1
    return row


@kernel
def take_rows(view: View, p: int, first: int, behind: int, end: float, need: int, watt: int) -> None:
    """Take units and watts from row ``first`` on until ``end``; ``behind`` is the first row at or past it."""
    put_row(view, behind, end)
    add_rows(view.plan, p, first, behind, -need, -watt)


@inlined
def add_rows(plan: Plan, p: int, first: int, behind: int, need: int, watt: int) -> None:
    """Add units and watts to rows ``first`` to ``behind``, the last not included."""
    nodes, watts = plan.nodes, plan.watt
    for i in range(behind - first):
        nodes[p, np.uint64(first + i)] += need
    for i in range(behind - first):
        watts[np.uint64(first + i)] += watt


@kernel
def change_profile(view: View, entry: int, option: int, sign: int) -> None:
    """Add (1) or take (-1) the units and watts of ``entry`` over its place in the plan."""
    job = wide(view.entries.job[entry])
    begin = view.plan.begin[job]
    p = wide(view.units.option_partition[option])
    first = profile_row(view, begin)
    last = profile_row(view, begin + wall_s(view, job, option))
    add_rows(view.plan, p, first, last, sign * view.nodes[job], sign * net_watt(view, job, option))


@kernel
def profile_row(view: View, time: float) -> int:
    """The row of the profile that begins at ``time``; put in where there is none."""
    head, filled = wide(view.counter[codes.PROFILE_HEAD]), wide(view.counter[codes.PROFILE])
    row = first_from(view.plan.time, head, filled, time)
    put_row(view, row, time)
    return row


@inlined
def put_row(view: View, row: int, time: float) -> None:
    """Let ``row``, the first that begins at ``time`` or later, begin then; put in where it begins later."""
    filled = view.counter[codes.PROFILE]
    if row == filled or view.plan.time[row] != time:
        shift_rows(view.plan, row, filled)
        view.plan.time[row] = time
        view.counter[codes.PROFILE] = filled + 1


@inlined
def shift_rows(plan: Plan, low: int, filled: int) -> None:
    """Move the rows from ``low`` on one up; row ``low`` keeps what holds before it. A column at a time, and by
    unsigned rows, which cannot count from the end: both let the compiler move several rows at once."""
    time, watt, nodes = plan.time, plan.watt, plan.nodes
    one = np.uint64(1)
    for i in range(filled - low):
        k = np.uint64(filled - i)
        time[k] = time[k - one]
    for i in range(filled - low):
        k = np.uint64(filled - i)
        watt[k] = watt[k - one]
    watt[low] = watt[low - 1]
    for p in range(nodes.shape[0]):
        for i in range(filled - low):
            k = np.uint64(filled - i)
            nodes[p, k] = nodes[p, k - one]
        nodes[p, low] = nodes[p, low - 1]
