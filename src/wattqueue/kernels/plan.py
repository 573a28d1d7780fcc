"""Conservative backfilling: every queued entry has a place in a plan (rule 9 of docs/semantics.md).

The plan is a *profile*: rows of (time, free units of each partition, free watts), each holding until the next row's
time. A pass builds the profile from the expected ends of running jobs, then places the queued entries one after the
other: each takes the earliest begin from which units and watts suffice for its whole planned time, and its units and
watts are subtracted from the rows between begin and end. An entry whose begin is now, starts::

    time     0    40   60   90          running jobs end at 40, 60 and 90
    free     2     5    6   10
    entry that needs 5 units for 30 s: begins at 40, ends at 70
    time     0    40   60   70   90     a row is inserted at 70
    free     2     0    1    6   10

Finding that begin is the hot spot, for it looks at every row before it. Rows are compared 64 at a time, a bit each
(``rows_with``), because what suffices and what does not alternates every few rows: a search by skipping would skip
little.

Incremental passes. The plan is defined to be rebuilt at every pass. Where only arrivals happened since the last one,
the same plan would come out for every entry that was there (running jobs and cap are the same, and none of them was
planned to start in between), so new entries are added to the existing plan instead. Not so where a job runs past its
expected end: it holds its units longer than the plan says, and the plan is rebuilt.

Several partitions: a job's later entry is planned as if its earlier one had no place; whichever begins earlier stays.
Several frequencies: an entry may start now at any frequency of its window, the highest first; a place in the future is
planned at the lowest, and on the worst units where they differ (rule 12).

Power domains are tested where a place is now (rule 22): an entry that they hold back keeps its place, and the first of
a partition has a reservation by its domains, as in an EASY pass. Then the next pass rebuilds the plan.

Buffers: rows PROFILE_HEAD to PROFILE - 1 are in use; the engine doubles the buffer before an instant that might not
fit (``loop.log_is_full``), and ``new_plan`` guarantees at least 64 rows.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, at_least, inlined, kernel, separate
from wattqueue.kernels.announced import domains_hold_back, next_row
from wattqueue.kernels.bits import ZERO, lowest_bit, mask
from wattqueue.kernels.consent import consent_ends, last_option, promised_net, promised_option
from wattqueue.kernels.entries import (
    net_watt,
    note_beyond,
    ready_units,
    start_entry,
    units_differ,
    wall_s,
)
from wattqueue.kernels.first_match import first_from
from wattqueue.kernels.greedy import (
    consume_leftovers,
    drop_reservations,
    find_candidate,
    follow_candidates,
    keeps_reservations,
    next_partition,
    refresh_candidates,
    reserve,
)
from wattqueue.kernels.ledger import available_under
from wattqueue.kernels.state import KernelView, ReservationPlan
from wattqueue.kernels.supply import forget_refused, has_supply
from wattqueue.kernels.supply_ahead import take_reached
from wattqueue.kernels.supply_classes import fits_supply, idle_machine_holds
from wattqueue.kernels.supply_load import each_of

INF = float("inf")


@separate
def pass_conservative(view: KernelView) -> None:
    """Run one pass: plan every entry in queue order, start those whose place is now.

    Complexity: each entry looks at the rows of the profile before its place, 64 at a time, and shifts the rows behind
    its begin and end: O(queue x rows), some 250 x 500 in the usual case.
    """
    refresh_candidates(view, begin_plan(view))
    tried = 0
    while tried < view.now.depth:
        p = next_partition(view)
        if p < 0:
            break
        tried += 1
        leaf = view.reserved.candidate[p]
        if plan_entry(view, p, view.entries.start[p] + leaf):
            follow_candidates(view)
        if view.reserved.candidate[p] == leaf:
            view.reserved.candidate[p] = find_candidate(view, p, leaf + 1)
    view.now.tried = tried


@inlined
def begin_plan(view: KernelView) -> int:
    """Rebuild the profile, or advance the last one to now; return the rank from which entries are planned."""
    now = view.now
    whole = now.dirty != 0 or now.fcfs_ranks == 0 or now.plan_stands == 0
    whole = whole or now.depth < codes.ANY_NEED or is_overdue(view) or consent_ends(view)
    first_rank = now.first_new
    now.dirty = 0
    now.first_new = -1
    now.plan_stands = 1
    for p in range(len(view.units.free)):
        view.reserved.entry[p] = -1
    if whole:
        forget_refused(view, 0)
        build_profile(view)
        if view.now.looks_ahead != 0:
            limit_profile(view)
        return 0
    advance_profile(view)
    if first_rank < 0:
        return codes.ANY_NEED
    return int(first_rank)


@inlined
def is_overdue(view: KernelView) -> bool:
    """Return whether some job runs at or past its expected end.

    The blocks are sorted by expected end, so the first row decides. The last plan has that job's units free by now.
    """
    if view.now.blocks == 0:
        return False
    return bool(view.running.end[view.running.order[0], 0] <= view.now.time_s)


@inlined
def build_profile(view: KernelView) -> None:
    """Write the profile of running jobs alone: free units and watts from now on, a row for each distinct expected end.

    A job past its expected end is expected to end in a microsecond (``CLOCK_S``): its units are not free now.
    """
    plan = view.plan
    running = view.running
    time_s = view.now.time_s
    partitions = len(view.units.free)
    plan.time[0] = time_s
    plan.watt[0] = view.now.available_uw
    for p in range(partitions):
        plan.nodes[p, 0] = view.units.free[p]
    row = 0
    for at in range(view.now.blocks):
        block = as_int64(running.order[at])
        for k in range(running.filled[block]):
            end = max(running.end[block, k], time_s + codes.CLOCK_S)
            if end > plan.time[row]:
                row += 1
                plan.time[row] = end
                plan.watt[row] = plan.watt[row - 1]
                for p in range(partitions):
                    plan.nodes[p, row] = plan.nodes[p, row - 1]
            job = as_int64(running.job[block, k])
            plan.watt[row] += running.net[block, k]
            plan.nodes[view.units.option_partition[view.held.option[job]], row] += view.nodes[job]
    view.now.plan_end = row + 1
    view.now.plan_head = 0
    view.now.plan_stamp += 1


@kernel
def limit_profile(view: KernelView) -> None:
    """Let the profile follow the announced limits: a row where each begins, with the watts that it leaves.

    From the first that begins on: the limit in force may be lower than what is announced for now.
    """
    plan, ahead, end = view.plan, view.ahead, as_int64(view.now.ahead_end)
    first = as_int64(next_row(view))
    for row in range(first, end):
        profile_row(view, float(ahead.time_s[row]))
    behind = first
    for row in range(as_int64(view.now.plan_head), as_int64(view.now.plan_end)):
        while behind < end and ahead.time_s[behind] <= plan.time[row]:
            behind += 1
        if behind > first:
            limit = as_int64(ahead.limit_uw[behind - 1])
            plan.watt[row] += available_under(view, limit, as_int64(0)) - view.now.available_uw


@inlined
def advance_profile(view: KernelView) -> None:
    """Let the profile begin now: rows that are over are dropped by moving the head."""
    head = view.now.plan_head
    while head + 1 < view.now.plan_end and view.plan.time[head + 1] <= view.now.time_s:
        head += 1
    view.plan.time[head] = max(view.plan.time[head], view.now.time_s)
    view.now.plan_head = head


@inlined
def plan_entry(view: KernelView, p: int, entry: int) -> bool:
    """Give ``entry`` its earliest place beside all placed before it; return whether it started.

    ``before`` is the job's entry in another partition, if it has a place. The new place wins if it is now, or earlier
    than that one; ties keep the first (rule 9).
    """
    job = as_int64(view.entries.job[entry])
    before = withdraw_plan(view, job)
    last = as_int64(promised_option(view, entry))
    if units_differ(view):
        if start_on_very_units(view, p, entry):
            return True
    else:
        for option in range(as_int64(view.entries.first[entry]), as_int64(last_option(view, entry)) + 1):
            if option != last and fits_now(view, p, job, as_int64(option)):
                if domains_admit(view, p, job, as_int64(option)):
                    start_planned(view, entry, as_int64(option))
                    return True
    watt = as_int64(promised_net(view, entry))
    need = as_int64(view.nodes[job])
    wall = wall_s(view, job, last)
    row, behind = earliest_place(view, p, need, watt, wall)
    now = row >= 0 and row == view.now.plan_head and need <= view.units.free[p]
    starts = now and domains_admit(view, p, job, last)
    if now and not starts and not hold_back(view, p, entry):
        row = as_int64(-1)
    if starts or (row >= 0 and (before < 0 or view.plan.time[row] < view.plan.begin[job])):
        view.plan.begin[job] = view.plan.time[row]
        take_rows(view, p, row, behind, view.plan.time[row] + wall, need, watt)
        if starts:
            start_in_plan(view, p, entry, last)
            return True
        view.plan.entry[job] = entry
        view.plan.stamp[job] = view.now.plan_stamp
    elif before >= 0:
        view.plan.entry[job] = before
        change_profile(view, before, as_int64(promised_option(view, before)), as_int64(-1), promised_net(view, before))
    if row < 0 and units_differ(view):
        note_beyond(view, entry)
    return False


@kernel
def start_on_very_units(view: KernelView, p: int, entry: int) -> bool:
    """Start ``entry`` now, if it fits on the units that it would get; return whether it started.

    At the last option, too: a place ahead counts other watts.
    """
    job = as_int64(view.entries.job[entry])
    if view.nodes[job] > view.units.free[p]:
        return False
    ready_units(view, p, job)
    for option in range(as_int64(view.entries.first[entry]), as_int64(last_option(view, entry)) + 1):
        if fits_now(view, p, job, option):
            start_planned(view, entry, option)
            return True
    return False


@inlined
def withdraw_plan(view: KernelView, job: int) -> int:
    """Give back the place of an earlier entry of ``job`` in this plan; return that entry, -1 for none.

    A stamp of another profile means that the place was in a plan that has been rebuilt since.
    """
    entry = as_int64(view.plan.entry[job])
    if view.plan.stamp[job] != view.now.plan_stamp or entry < 0:
        return -1
    view.plan.entry[job] = -1
    change_profile(view, entry, as_int64(promised_option(view, entry)), as_int64(1), promised_net(view, entry))
    return int(entry)


@inlined
def start_planned(view: KernelView, entry: int, option: int) -> None:
    """Start ``entry`` now and subtract it from the profile until its expected end."""
    job = as_int64(view.entries.job[entry])
    view.plan.begin[job] = view.now.time_s
    change_profile(view, entry, option, as_int64(-1), net_watt(view, job, option))
    start_in_plan(view, as_int64(view.units.option_partition[option]), entry, option)


@inlined
def start_in_plan(view: KernelView, p: int, entry: int, option: int) -> None:
    """Start ``entry`` of partition p, which the profile counts; what domain reservations leave over follows."""
    job = as_int64(view.entries.job[entry])
    view.plan.entry[job] = -1
    watt = as_int64(net_watt(view, job, option))
    start_entry(view, entry, option)
    if has_supply(view):
        if view.now.looks_ahead != 0:
            take_reached(view, job, watt)
        take_from_reservations(view, p, job, watt)


@separate
def take_from_reservations(view: KernelView, p: int, job: int, watt: int) -> None:
    """Let ``job``, which has just started with ``watt`` net microwatts, count at the shadow times of reservations."""
    consume_leftovers(view, p, job, watt, float(view.held.end[job]))
    drop_reservations(view, job, p)


@inlined
def domains_admit(view: KernelView, p: int, job: int, option: int) -> bool:
    """Return whether power domains let ``job`` start now at ``option``."""
    return not has_supply(view) or keeps_domains(view, p, job, option)


@separate
def keeps_domains(view: KernelView, p: int, job: int, option: int) -> bool:
    """Return whether ``job`` fits under all domains, and beside the reservations of what they hold back."""
    watt = as_int64(net_watt(view, job, option))
    return fits_supply(view, p, job, watt, view.now.time_s + wall_s(view, job, option)) and keeps_reservations(
        view, p, job, option, watt
    )


@separate
def hold_back(view: KernelView, p: int, entry: int) -> bool:
    """Promise an entry that power domains hold back a start by these, unless one of its partition has that already.

    Return whether it keeps its place: not one that announced limits, or those in force on an idle machine, never admit.
    """
    view.now.plan_stands = 0
    need = int(view.nodes[view.entries.job[entry]])
    if not idle_machine_holds(view, p, need, each_of(promised_net(view, entry), need)):
        return False
    if view.now.looks_ahead != 0 and domains_hold_back(view, entry):
        return False
    if view.reserved.entry[p] < 0:
        reserve(view, p, entry)
    return True


@inlined
def fits_now(view: KernelView, p: int, job: int, option: int) -> bool:
    """Return whether ``job`` fits at ``option`` from now until its expected end.

    Free units are compared, too: ``take_units`` looks for them without an end.
    """
    end = view.now.time_s + wall_s(view, job, option)
    head = as_int64(view.now.plan_head)
    need = as_int64(view.nodes[job])
    watt = net_watt(view, job, option)
    if view.units.free[p] < need or view.plan.nodes[p, head] < need or view.plan.watt[head] < watt:
        return False
    filled = as_int64(view.now.plan_end)
    behind = first_low(view.plan, p, head + 1, filled, end, need, watt)
    return behind == filled or view.plan.time[behind] >= end


@inlined
def earliest_place(view: KernelView, p: int, need: int, watt: int, wall: float) -> tuple[int, int]:
    """The first row of the profile from which ``need`` units and ``watt`` are there for ``wall`` seconds, and the
    first row at or past their end; -1 and -1 for never.

    Rows are looked at by the 64, a bit each, because what is there and what is not takes turns every few rows.
    """
    plan = view.plan
    time = plan.time
    filled = as_int64(view.now.plan_end)
    begin = as_int64(-1)  # the row from which they are there without a gap
    end = INF
    at = as_int64(view.now.plan_head)
    while at < filled:
        count = min(filled - at, as_int64(64))
        there = rows_with(plan, p, at, need, watt) & mask(as_int64(0), count)
        row = at
        while True:
            if begin < 0:
                # No place is open: look for the next row that has enough.
                ahead = there & ~mask(as_int64(0), row - at)
                if ahead == ZERO:
                    break
                row = at + lowest_bit(ahead)
                begin = row
                end = time[row] + wall
            # The first row behind the begin that has too little; none in this word: go on with the next 64.
            gaps = ~there & ~mask(as_int64(0), row - at)
            row = at + (count if gaps == ZERO else min(lowest_bit(gaps), count))
            # Every row from the begin up to the end had enough.
            if row < filled and time[row] >= end:
                return begin, first_from(time, begin + 1, row, end)
            if row == at + count:
                break
            begin = as_int64(-1)
        at += count
    if begin < 0:
        return -1, -1
    return begin, first_from(time, begin + 1, filled, end)


@inlined
def rows_with(plan: ReservationPlan, p: int, row: int, need: int, watt: int) -> np.uint64:
    """Return a bit for each of the 64 rows from ``row`` on: whether it has ``need`` units of partition p and ``watt``.

    The last 64 rows of the buffer are read where fewer than 64 follow ``row``; the bits are shifted into place. Rows
    behind the last one in use hold anything: the caller masks them.
    """
    room = len(plan.watt)
    at = min(row, room - 64)
    bits = at_least(plan.nodes, p * room + at, need) & at_least(plan.watt, at, watt)
    return np.uint64(bits >> np.uint64(row - at))


@inlined
def first_low(plan: ReservationPlan, p: int, row: int, filled: int, end: float, need: int, watt: int) -> int:
    """Return the first row from ``row`` on that has less than needed, or that lies at ``end`` or past it.

    ``filled`` if there is none.
    """
    nodes, watts, time = plan.nodes, plan.watt, plan.time
    while row < filled and time[row] < end and nodes[p, row] >= need and watts[row] >= watt:
        row += 1
    return row


@kernel
def take_rows(view: KernelView, p: int, first: int, behind: int, end: float, need: int, watt: int) -> None:
    """Subtract units and watts from row ``first`` on until ``end``.

    ``behind`` is the first row at or past ``end``. A row is inserted there if none begins at ``end``.
    """
    put_row(view, behind, end)
    add_rows(view.plan, p, first, behind, -need, -watt)


@inlined
def add_rows(plan: ReservationPlan, p: int, first: int, behind: int, need: int, watt: int) -> None:
    """Add units and watts to rows ``first`` .. ``behind - 1``.

    One column at a time and by unsigned indices, which cannot count from the end: both let the compiler use vector
    instructions.
    """
    nodes, watts = plan.nodes, plan.watt
    for i in range(behind - first):
        nodes[p, np.uint64(first + i)] += need
    for i in range(behind - first):
        watts[np.uint64(first + i)] += watt


@kernel
def change_profile(view: KernelView, entry: int, option: int, sign: int, watt: int) -> None:
    """Add (1) or subtract (-1) the units and ``watt`` net microwatts of ``entry`` over its place in the plan."""
    job = as_int64(view.entries.job[entry])
    begin = view.plan.begin[job]
    p = as_int64(view.units.option_partition[option])
    first = profile_row(view, begin)
    last = profile_row(view, begin + wall_s(view, job, option))
    add_rows(view.plan, p, first, last, sign * view.nodes[job], sign * watt)


@kernel
def profile_row(view: KernelView, time: float) -> int:
    """Return the row of the profile that begins at ``time``; it is inserted if there is none."""
    head, filled = as_int64(view.now.plan_head), as_int64(view.now.plan_end)
    row = first_from(view.plan.time, head, filled, time)
    put_row(view, row, time)
    return row


@inlined
def put_row(view: KernelView, row: int, time: float) -> None:
    """Let ``row``, the first that begins at ``time`` or later, begin then; a row is inserted where it begins later."""
    filled = view.now.plan_end
    if row == filled or view.plan.time[row] != time:
        shift_rows(view.plan, row, filled)
        view.plan.time[row] = time
        view.now.plan_end = filled + 1


@inlined
def shift_rows(plan: ReservationPlan, low: int, filled: int) -> None:
    """Move the rows from ``low`` on one up; row ``low`` keeps the values of the row before it.

    A column at a time, and by unsigned rows, which cannot count from the end: both let the compiler move several rows
    at once. The engine has made room for the rows of one instant beforehand (``loop.log_is_full``).
    """
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
