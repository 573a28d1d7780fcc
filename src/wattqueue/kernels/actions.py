"""Actions that Python requests: each is carried out, or refused with one of the REFUSED codes.

``sim/world.py`` and ``policy/session.py`` call these between two calls of the loop, for controls and custom passes. An
entry checks its arguments, since parts in plain Python may return anything, and returns 0 or a code; what is refused
changes nothing. Actions that raise watts are checked against the ledger (rule 14 of docs/semantics.md).

SetFrequency and SetDeviceLimits change what is needed for the new speeds first, and have ``kernels/devices.py`` list
the jobs that they reach; without room in the ledger they change it back.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined
from wattqueue.kernels.chance import fits_watts
from wattqueue.kernels.consent import first_option, last_option, looks_at_target
from wattqueue.kernels.devices import clear_list, list_changed, list_job
from wattqueue.kernels.entries import (
    entry_partition,
    holds_starts,
    is_delayed,
    least_net,
    net_watt,
    ready_units,
    row_of,
    start_entry,
    unit_uw,
)
from wattqueue.kernels.greedy import keeps_reservations
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.measured import date_job
from wattqueue.kernels.nodes import drain_unit, requeue_job, stop_unit, wake_unit
from wattqueue.kernels.parking import resume_job, store_work, suspend_job
from wattqueue.kernels.progress import fits_alone, least_alone
from wattqueue.kernels.ranked import choose_units
from wattqueue.kernels.speed import apply_speeds, change_speed, listed_fit, refresh_listed, switch_option
from wattqueue.kernels.state import Array, KernelView, Log, Truth
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_ahead import reach_rows
from wattqueue.kernels.supply_classes import fits_supply

INF = float("inf")


@entry
@inlined
def start_checked(view: KernelView, index: int, option: int) -> int:
    """Start an entry for a custom pass or a control; return 0, or why not (``kernels/codes.py``).

    The entry must be queued, the option in its frequency window, and units and watts must suffice. Reservations are
    not checked: whoever names a start decides who may overtake. ``index`` may be any number, since it comes from a
    part.
    """
    if index < 0 or index >= len(view.entries.job):
        return codes.REFUSED_STATE
    p = entry_partition(view, index)
    job = as_int64(view.entries.job[index])
    # A leaf without a need is an entry that is not queued: it runs, has ended, or has not been submitted.
    if view.tree.need[view.tree.offset[p, 0] + index - view.entries.start[p]] == codes.NEVER:
        return codes.REFUSED_STATE
    if is_delayed(view, job):
        return codes.REFUSED_STATE
    if option < view.entries.first[index] or option > view.entries.last[index]:
        return codes.REFUSED_OPTION
    if view.nodes[job] > view.units.free[p]:
        return codes.REFUSED_BUSY
    ready_units(view, p, job)
    if option < first_option(view, index) or option > last_option(view, index):
        return codes.REFUSED_CONSENT if view.now.by_target == 0 and looks_at_target(view) else codes.REFUSED_OPTION
    net = net_watt(view, job, option)
    fits = fits_watts(view, net) and fits_supply(view, p, job, net, -INF)
    if holds_starts(view) or (not fits and not fits_alone(view, p, job, net, -INF)):
        return codes.REFUSED_POWER
    start_entry(view, index, option)
    view.now.dirty = 1  # a reservation, or a plan, may have been this job's
    return 0


@entry
def delay_start(view: KernelView, job: int, until: float) -> int:
    """Start a queued job no earlier than a time; return 0, or why not: it does not wait."""
    for p in range(len(view.units.free)):
        index = as_int64(view.entries.of_job[job, p])
        if index >= 0:
            leaf = view.tree.offset[p, 0] + index - view.entries.start[p]
            if view.tree.need[leaf] != codes.NEVER:
                view.planned.not_before[job] = until
                view.now.dirty = 1  # a reservation, or a place in the plan, may be this job's
                return 0
    return codes.REFUSED_STATE


@entry
def start_beside(view: KernelView, index: int, option: int) -> int:
    """Start an entry as ``start_checked``, if it delays no reservation of the pass before it; return 0, or why not.

    ``REFUSED_BUSY`` for one that would.
    """
    if 0 <= index < len(view.entries.job) and 0 <= option < len(view.units.option_partition):
        p, job = entry_partition(view, index), as_int64(view.entries.job[index])
        if view.nodes[job] <= view.units.free[p]:
            ready_units(view, p, job)
            if has_supply(view) and view.now.looks_ahead != 0:
                reach_rows(view, -INF)
            if not keeps_reservations(view, p, job, option, net_watt(view, job, option)):
                return codes.REFUSED_BUSY
    return start_checked(view, index, option)


@entry
def net_of_start(view: KernelView, p: int, job: int, option: int) -> int:
    """Return the net microwatts that a start of ``job`` in partition p would add to the ledger.

    Where units differ: on the units that it would get now; on the best ones where too few are free.
    """
    if view.nodes[job] > view.units.free[p]:
        return least_net(view, p, job, option)
    ready_units(view, p, job)
    return net_watt(view, job, option)


@entry
def least_nets(view: KernelView, jobs: Array, options: Array, found: Array) -> None:
    """Write the net microwatts of jobs on the best units of a partition to ``found`` (k,) float64.

    ``jobs`` (k,) int32; ``options`` (k,) int64, whose partitions are meant.
    """
    for k in range(len(jobs)):
        option = as_int64(options[k])
        p = as_int64(view.units.option_partition[option])
        found[k] = least_net(view, p, as_int64(jobs[k]), option)


@entry
def least_of_jobs(view: KernelView, least: Array, jobs: Array, found: Array) -> None:
    """Write what jobs need where nothing runs to ``found`` (k, 4) int64 microwatts (``progress.least_alone``).

    The last column is what they need at least during a load target.
    ``least`` (4,) float64: see ``AnnouncedSteps.least``; ``jobs`` (k,) int32.
    """
    for k in range(len(jobs)):
        found[k, 0], found[k, 1], found[k, 2] = least_alone(view, least, as_int64(jobs[k]), False)
        found[k, 3], _, _ = least_alone(view, least, as_int64(jobs[k]), True)


@entry
def units_of_start(view: KernelView, p: int, job: int, found: Array) -> int:
    """Write the units that a start of ``job`` in partition p would take to ``found`` (U,) int32; return how many.

    None where too few are free. For views in which units differ or are ranked.
    """
    if view.nodes[job] > view.units.free[p]:
        return 0
    choose_units(view, p, job)
    for k in range(view.nodes[job]):
        found[k] = view.by_unit.chosen[k]
    return int(view.nodes[job])


@entry
def set_predictions(view: KernelView, jobs: Array, uw: Array) -> None:
    """Set the predicted microwatts of one unit of ``jobs`` (k,) int32 at each option. ``uw`` (k, O) int64.

    Only before the jobs are queued: a leaf of the tree holds the watts of that moment.
    """
    for k in range(len(jobs)):
        row = row_of(view.predicted, view.predicted.power_uw, as_int64(jobs[k]))
        for option in range(uw.shape[1]):
            view.predicted.power_uw[row, option] = uw[k, option]


@entry
def set_margin(view: KernelView, margin_uw: int) -> None:
    """Set the microwatts that must stay free below the cap."""
    if view.now.margin_uw != margin_uw:
        view.now.margin_uw = margin_uw
        set_budget(view)


@inlined
def is_running(log: Log, job: int) -> bool:
    """Return whether a number is that of a job that runs."""
    return bool(0 <= job < len(log.state) and log.state[job] == codes.RUNNING_NOW)


@inlined
def is_unit(truth: Truth, unit: int) -> bool:
    """Return whether a number is that of a unit."""
    return bool(0 <= unit < len(truth.unit_state))


@entry
def set_frequency(view: KernelView, truth: Truth, log: Log, job: int, option: int) -> int:
    """Run ``job`` at another option of its partition; return 0, or why not.

    The ledger's figures under the limits in force are compared with what it counts now: a job that is limited to the
    same watts at both frequencies needs no room. Where it shares limited devices, the jobs beside it count, too. A job
    that was started at this very instant is refused: its true end is set when the instant is over.
    """
    if not is_running(log, job) or view.held.parked[job] != 0:
        return codes.REFUSED_STATE
    before = as_int64(view.held.option[job])
    if option < 0 or option >= len(view.units.option_partition):
        return codes.REFUSED_OPTION
    if view.units.option_partition[option] != view.units.option_partition[before]:
        return codes.REFUSED_OPTION
    raised = truth.loop.sensing != 0 and unit_uw(view.predicted, job, option) > unit_uw(view.predicted, job, before)
    since = date_job(view, job, view.now.time_s) if raised else 0.0
    switch_option(view, truth, job, option)
    list_job(truth, job)
    list_changed(view, truth)
    if not listed_fit(view, truth):
        if raised:
            date_job(view, job, since)
        switch_option(view, truth, job, before)
        list_changed(view, truth)
        clear_list(truth)
        return codes.REFUSED_POWER
    change_speed(view, truth, log, job)
    refresh_listed(view, truth, log)
    return 0


@entry
def stop_node(view: KernelView, truth: Truth, unit: int) -> int:
    """Shut the node of a unit down."""
    return stop_unit(view, truth, unit) if is_unit(truth, unit) else codes.REFUSED_OPTION


@entry
def drain_node(view: KernelView, truth: Truth, unit: int) -> int:
    """Stop the node of a unit when its jobs have ended."""
    return drain_unit(view, truth, unit) if is_unit(truth, unit) else codes.REFUSED_OPTION


@entry
def suspend(view: KernelView, truth: Truth, log: Log, job: int) -> int:
    """Suspend a running job: it keeps its units, which draw idle watts."""
    return suspend_job(view, truth, log, job) if is_running(log, job) else codes.REFUSED_STATE


@entry
def resume(view: KernelView, truth: Truth, log: Log, job: int) -> int:
    """Continue a suspended job."""
    return resume_job(view, truth, log, job) if is_running(log, job) else codes.REFUSED_STATE


@entry
def wake_node(view: KernelView, truth: Truth, unit: int) -> int:
    """Boot the stopped node of a unit."""
    return wake_unit(view, truth, unit) if is_unit(truth, unit) else codes.REFUSED_OPTION


@entry
def requeue(view: KernelView, truth: Truth, log: Log, job: int, checkpointed_s: float, checkpoint_s: float) -> int:
    """Put a running job back at its previous place in the queue; so many seconds of its work are kept.

    Whole checkpoints, each of ``checkpoint_s`` seconds of work.
    """
    if not is_running(log, job):
        return codes.REFUSED_STATE
    if checkpointed_s > 0.0:
        store_work(view, truth, log, job, checkpointed_s, checkpoint_s)
    requeue_job(view, truth, log, job)
    apply_speeds(view, truth, log)
    return 0
