"""What an entry needs at an option, and the two moves of an entry: into the queue, and to a start.

The needs of an entry are three numbers: units, expected seconds, net microwatts. All kernels that compare them with
what is free take them from here.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.in_flight import forget_job
from wattqueue.kernels.placement import give_units, take_units
from wattqueue.kernels.ranked import choose_units
from wattqueue.kernels.running import running_insert, running_net, running_partition, running_remove
from wattqueue.kernels.state import Array, KernelView, Rows
from wattqueue.kernels.supply import give_back, has_supply, retry_refused
from wattqueue.kernels.supply_load import each_of
from wattqueue.kernels.supply_placement import take_under_supply
from wattqueue.kernels.tree import tree_clear, tree_set
from wattqueue.kernels.unit_watts import chosen_uw, sum_of_rising

INF = float("inf")


@inlined
def holds_starts(view: KernelView) -> bool:
    """Return whether nothing starts now beside the jobs that run: a control asks for it (rule 16)."""
    return bool(view.now.holds_starts != 0 and view.now.running > 0)


@inlined
def is_delayed(view: KernelView, job: int) -> bool:
    """Return whether a control has delayed the start of ``job`` beyond now."""
    return bool(len(view.planned.not_before) > 0 and view.planned.not_before[job] > view.now.time_s)


@inlined
def leaf_is_delayed(view: KernelView, p: int, leaf: int) -> bool:
    """Return the same of the job of an entry, by its place in the tree of partition p."""
    if len(view.planned.not_before) == 0:
        return False
    return bool(is_delayed(view, as_int64(view.entries.job[view.entries.start[p] + leaf])))


@inlined
def row_of(rows: Rows, table: Array, job: int) -> int:
    """Return the row of ``job`` in one of the tables of ``rows``.

    The only row, where one holds for all jobs; else the row that ``rows.row`` names; else the job's own.
    """
    if table.shape[0] == 1:
        return 0
    if len(rows.row) > 0:
        return int(rows.row[job])
    return job


@inlined
def unit_uw(rows: Rows, job: int, option: int) -> int:
    """Return the microwatts of one unit of ``job`` at ``option``."""
    return int(rows.power_uw[row_of(rows, rows.power_uw, job), option])


@inlined
def time_factor(rows: Rows, job: int, option: int) -> float:
    """Return the run time of ``job`` at ``option`` relative to its run time at reference speed."""
    return float(rows.time_factor[row_of(rows, rows.time_factor, job), option])


@inlined
def net_of(view: KernelView, job: int, option: int, uw: int) -> int:
    """Return what the ledger counts for a job that draws ``uw`` microwatts on all its units (rule 14).

    The only place where watts become ledger watts. Where the cap covers idle watts, a job counts at least what its
    units draw idle, so net watts are never negative: a job below idle would otherwise give credit that other jobs
    spend, and that is gone when it ends and its units idle again.
    """
    if view.now.scope_jobs != 0:
        return uw
    idle = view.nodes[job] * view.units.idle_uw[view.units.option_partition[option]]
    return int(max(uw - idle, 0))


@inlined
def units_differ(view: KernelView) -> bool:
    """Return whether predicted watts depend on the very units (docs/adr/0013)."""
    return bool(view.by_unit.factors.table.shape[0] > 0)


@inlined
def net_watt(view: KernelView, job: int, option: int) -> int:
    """Return the microwatts that starting ``job`` at ``option`` adds to the ledger (rule 14 of docs/semantics.md).

    Where units differ: on the units that ``ready_units`` has chosen.
    """
    if units_differ(view):
        uw = unit_uw(view.predicted, job, option)
        return net_of(view, job, option, chosen_uw(view.by_unit, job, as_int64(view.nodes[job]), uw))
    return equal_net(view, job, option)


@inlined
def equal_net(view: KernelView, job: int, option: int) -> int:
    """Return the net microwatts of ``job`` at ``option`` where all units of a partition are equal."""
    return net_of(view, job, option, int(view.nodes[job]) * unit_uw(view.predicted, job, option))


@inlined
def ready_units(view: KernelView, p: int, job: int) -> None:
    """Choose the units that a start of ``job`` in partition p would take, where its watts depend on them.

    There must be enough free ones. ``net_watt`` reads the choice, which holds until the next one.
    """
    if units_differ(view):
        choose_units(view, p, job)


@inlined
def least_net(view: KernelView, p: int, job: int, option: int) -> int:
    """Return the net microwatts of ``job`` on the best units of partition p, free or not (rule 12)."""
    if units_differ(view):
        first, uw = as_int64(view.units.unit_start[p]), unit_uw(view.predicted, job, option)
        return net_of(view, job, option, sum_of_rising(view.by_unit, job, first, as_int64(view.nodes[job]), uw))
    return equal_net(view, job, option)


@kernel
def worst_net(view: KernelView, entry: int, option: int) -> int:
    """Return the net microwatts of ``entry`` at ``option`` on the worst units of its partition (rule 12)."""
    job = as_int64(view.entries.job[entry])
    if not units_differ(view):
        return equal_net(view, job, option)
    p = as_int64(view.units.option_partition[option])
    first = as_int64(view.units.unit_start[p + 1]) - view.nodes[job]
    uw = sum_of_rising(view.by_unit, job, first, as_int64(view.nodes[job]), unit_uw(view.predicted, job, option))
    return net_of(view, job, option, uw)


@kernel
def note_beyond(view: KernelView, entry: int) -> None:
    """Note a job without a promised start whose worst units exceed the cap on an empty machine, though better ones fit.

    ``entry`` is queued: its leaf holds the least that it needs.
    """
    most = view.now.available_uw + view.now.ledger_uw
    p = entry_partition(view, entry)
    least = view.tree.watt[view.tree.offset[p, 0] + entry - view.entries.start[p]]
    if least <= most < view.by_unit.worst[entry]:
        view.by_unit.beyond[view.entries.job[entry]] = 1


@inlined
def wall_s(view: KernelView, job: int, option: int) -> float:
    """Return the planned time of ``job`` at ``option``, in seconds.

    The walltime, or a predicted run time, stretched with the speed (rule 3 of docs/semantics.md); at least a
    microsecond. An end that equals its begin would take nothing from a plan, which would then give away units that
    are held.
    """
    return max(float(view.planned.seconds[job]) * time_factor(view.predicted, job, option), codes.CLOCK_S)


@inlined
def entry_partition(view: KernelView, entry: int) -> int:
    """Return the partition of ``entry``. Entries are stored partition by partition; a machine has few."""
    p = 0
    while entry >= view.entries.start[p + 1]:
        p += 1
    return p


@inlined
def enqueue(view: KernelView, entry: int) -> None:
    """Put ``entry`` into its partition's tree, with the least that it needs over its options.

    Units do not depend on the option; walltime and watts do, and their minima may belong to different options. So the
    leaf is a necessary condition; the pass tests each option exactly. Where units differ, its watts are those of the
    best ones of the partition.
    """
    p = entry_partition(view, entry)
    job = as_int64(view.entries.job[entry])
    # The least over the options of the window; the two minima may come from different options.
    wall = INF
    watt = codes.ANY_WATT
    for option in range(as_int64(view.entries.first[entry]), as_int64(view.entries.last[entry]) + 1):
        wall = min(wall, wall_s(view, job, option))
        watt = min(watt, least_net(view, p, job, option))
    if units_differ(view):
        view.by_unit.worst[entry] = worst_net(view, entry, as_int64(view.entries.last[entry]))
    tree_set(view.tree, p, entry - view.entries.start[p], view.nodes[job], wall, watt)
    view.now.queued += 1


@inlined
def enqueue_job(view: KernelView, job: int) -> None:
    """Queue every entry of ``job``.

    ``first_new`` keeps the lowest rank that arrived since the last pass: where an incremental pass begins.
    """
    for p in range(len(view.units.free)):
        entry = as_int64(view.entries.of_job[job, p])
        if entry >= 0:
            enqueue(view, entry)
            rank = view.entries.rank[entry]
            if view.now.first_new < 0 or rank < view.now.first_new:
                view.now.first_new = rank


@inlined
def dequeue_job(view: KernelView, job: int) -> None:
    """Take every entry of ``job`` out of the queue.

    Not all of them need be queued: an estimator may offer fewer partitions, and entries that are too wide were
    dropped.
    """
    for p in range(len(view.units.free)):
        entry = as_int64(view.entries.of_job[job, p])
        if entry >= 0:
            leaf = entry - view.entries.start[p]
            if view.tree.need[view.tree.offset[p, 0] + leaf] != codes.NEVER:
                tree_clear(view.tree, p, leaf)
                view.now.queued -= 1


@inlined
def start_entry(view: KernelView, entry: int, option: int) -> None:
    """Start ``entry`` now: units, watts, expected end, and one row in the buffer of starts.

    The order matters: units are taken before the job joins the running blocks, whose sums read ``held.option``. The
    caller has checked that units and watts suffice.
    """
    job = as_int64(view.entries.job[entry])
    p = as_int64(view.units.option_partition[option])
    dequeue_job(view, job)
    if has_supply(view):
        take_under_supply(view, p, job, each_of(equal_net(view, job, option), int(view.nodes[job])))
        retry_refused(view)
    else:
        take_units(view, p, job)
    view.held.option[job] = option
    view.held.factor[job] = time_factor(view.predicted, job, option)
    if view.now.correction == codes.LIMIT_AT_START and view.planned.seconds[job] < view.walltime[job]:
        view.planned.seconds[job] = view.walltime[job]
        view.now.dirty = 1  # reservations and plans counted with an earlier end
    view.held.end[job] = view.now.time_s + wall_s(view, job, option)
    running_insert(view, job, net_watt(view, job, option))  # of the units that it just took
    if units_differ(view):
        view.now.dirty = 1  # entries that did not fit would now get other units, and draw less
    k = view.now.starts
    view.start_entry[k] = entry
    view.start_option[k] = option
    view.now.starts = k + 1


@inlined
def release_job(view: KernelView, job: int) -> None:
    """Give back the units and watts of a running job that ended or goes back to the queue.

    Sets ``dirty``: entries that did not fit may fit now.
    """
    p = running_partition(view, job)
    if has_supply(view):
        give_back(view, job, as_int64(running_net(view, job)))
    running_remove(view, job)
    forget_job(view.evidence, job)
    give_units(view, p, job)
    view.held.option[job] = -1
    view.now.dirty = 1
