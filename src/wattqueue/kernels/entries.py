"""What one entry needs at one option, and the two moves of an entry: into the queue, and to a start."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, wide
from wattqueue.kernels.placement import give_units, take_units
from wattqueue.kernels.running import running_insert, running_partition, running_remove
from wattqueue.kernels.state import Array, Rows, View
from wattqueue.kernels.tree import tree_clear, tree_set

INF = float("inf")


@inlined
def row_of(rows: Rows, table: Array, job: int) -> int:
    """The row of ``job`` in one of the tables of ``rows``."""
    if table.shape[0] == 1:
        return 0
    if len(rows.row) > 0:
        return int(rows.row[job])
    return job


@inlined
def unit_uw(rows: Rows, job: int, option: int) -> int:
    """Microwatts of one unit of ``job`` at ``option``."""
    return int(rows.power_uw[row_of(rows, rows.power_uw, job), option])


@inlined
def time_factor(rows: Rows, job: int, option: int) -> float:
    """Run time of ``job`` at ``option`` relative to its reference."""
    return float(rows.time_factor[row_of(rows, rows.time_factor, job), option])


@inlined
def net_watt(view: View, job: int, option: int) -> int:
    """What starting ``job`` at ``option`` adds to the cap's scope (microwatts)."""
    unit = unit_uw(view.predicted, job, option)
    if view.counter[codes.SCOPE_JOBS] == 0:
        unit -= view.units.idle_uw[view.units.option_partition[option]]
    return int(view.nodes[job]) * unit


@inlined
def wall_s(view: View, job: int, option: int) -> float:
    """Predicted walltime of ``job`` at ``option``."""
    return float(view.walltime[job]) * time_factor(view.predicted, job, option)


@inlined
def entry_partition(view: View, entry: int) -> int:
    """The partition of ``entry``."""
    p = 0
    while entry >= view.entries.start[p + 1]:
        p += 1
    return p


@inlined
def enqueue(view: View, entry: int) -> None:
    """Put ``entry`` into its partition's tree, with the least it may need."""
    p = entry_partition(view, entry)
    job = wide(view.entries.job[entry])
    wall = INF
    watt = codes.ANY_WATT
    for option in range(wide(view.entries.first[entry]), wide(view.entries.last[entry]) + 1):
        wall = min(wall, wall_s(view, job, option))
        watt = min(watt, net_watt(view, job, option))
    tree_set(view.tree, p, entry - view.entries.start[p], view.nodes[job], wall, watt)
    view.counter[codes.QUEUED] += 1


@inlined
def enqueue_job(view: View, job: int) -> None:
    """Queue every entry of ``job``, and note the lowest rank that is new."""
    for p in range(len(view.units.free)):
        entry = wide(view.entries.of_job[job, p])
        if entry >= 0:
            enqueue(view, entry)
            rank = view.entries.rank[entry]
            if view.counter[codes.FIRST_NEW] < 0 or rank < view.counter[codes.FIRST_NEW]:
                view.counter[codes.FIRST_NEW] = rank


@inlined
def dequeue_job(view: View, job: int) -> None:
    """Take every entry of ``job`` out of the queue."""
    for p in range(len(view.units.free)):
        entry = wide(view.entries.of_job[job, p])
        if entry >= 0:
            leaf = entry - view.entries.start[p]
            if view.tree.need[view.tree.offset[p, 0] + leaf] != codes.NEVER:
                tree_clear(view.tree, p, leaf)
                view.counter[codes.QUEUED] -= 1


@inlined
def start_entry(view: View, entry: int, option: int) -> None:
    """Start ``entry`` now: units, watts, expected end; one row in the buffer of starts."""
    job = wide(view.entries.job[entry])
    p = wide(view.units.option_partition[option])
    dequeue_job(view, job)
    take_units(view, p, job)
    view.held.option[job] = option
    view.held.factor[job] = time_factor(view.predicted, job, option)
    view.held.end[job] = view.num[codes.NOW] + wall_s(view, job, option)
    running_insert(view, job, net_watt(view, job, option))
    k = view.counter[codes.STARTS]
    view.start_entry[k] = entry
    view.start_option[k] = option
    view.counter[codes.STARTS] = k + 1


@inlined
def release_job(view: View, job: int) -> None:
    """A running job ended (or goes back to the queue): give units and watts back."""
    p = running_partition(view, job)
    running_remove(view, job)
    give_units(view, p, job)
    view.held.option[job] = -1
    view.counter[codes.DIRTY] = 1
