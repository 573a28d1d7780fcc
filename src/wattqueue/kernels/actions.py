"""Actions that Python requests: each is carried out, or refused with one of the REFUSED codes.

``sim/world.py`` and ``policy/session.py`` call these between two calls of the loop, for controls and custom passes. An
entry checks its arguments, since parts in plain Python may return anything, and returns 0 or a code; what is refused
changes nothing. Actions that raise watts are checked against the ledger (rule 14 of docs/semantics.md).

``change_speed`` is behind both SetFrequency and SetSocketCap. A job's progress is measured by what is left until its
end at the old factor: the remaining work is ``left / old_factor`` reference seconds. Expectation (the view) and truth
are updated separately, each with its own factors.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, by_reference, entry, kernel
from wattqueue.kernels.chance import fits_change, fits_watts, square_w
from wattqueue.kernels.entries import (
    entry_partition,
    least_net,
    net_of,
    net_watt,
    ready_units,
    row_of,
    start_entry,
)
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.nodes import job_on, requeue_job, stop_unit, wake_unit
from wattqueue.kernels.power import (
    account,
    job_speed,
    limited_factor,
    limited_uw,
    round_us,
    set_physics,
)
from wattqueue.kernels.ranked import choose_units
from wattqueue.kernels.running import running_insert, running_net, running_remove
from wattqueue.kernels.state import Array, KernelView, Log, Truth


@entry
def start_checked(view: KernelView, index: int, option: int) -> int:
    """Start an entry for a custom pass or a control; return 0, or why not (``kernels/codes.py``).

    The entry must be queued, the option in its frequency window, and units and watts must suffice. Reservations are
    not checked: whoever names a start decides who may overtake. ``index`` may be any number, since it comes from a
    part.
    """
    view = by_reference(view)
    if index < 0 or index >= len(view.entries.job):
        return codes.REFUSED_STATE
    p = entry_partition(view, index)
    job = as_int64(view.entries.job[index])
    # A leaf without a need is an entry that is not queued: it runs, has ended, or has not been submitted.
    if view.tree.need[view.tree.offset[p, 0] + index - view.entries.start[p]] == codes.NEVER:
        return codes.REFUSED_STATE
    if option < view.entries.first[index] or option > view.entries.last[index]:
        return codes.REFUSED_OPTION
    if view.nodes[job] > view.units.free[p]:
        return codes.REFUSED_BUSY
    ready_units(view, p, job)
    if not fits_watts(view, net_watt(view, job, option)):
        return codes.REFUSED_POWER
    start_entry(view, index, option)
    view.counter[codes.DIRTY] = 1  # a reservation, or a plan, may have been this job's
    return 0


@entry
def net_of_start(view: KernelView, p: int, job: int, option: int) -> int:
    """Return the net microwatts that a start of ``job`` in partition p would add to the ledger.

    Where units differ: on the units that it would get now; on the best ones where too few are free.
    """
    view = by_reference(view)
    if view.nodes[job] > view.units.free[p]:
        return least_net(view, p, job, option)
    ready_units(view, p, job)
    return net_watt(view, job, option)


@entry
def least_nets(view: KernelView, jobs: Array, options: Array, found: Array) -> None:
    """Write the net microwatts of jobs on the best units of a partition to ``found`` (k,) float64.

    ``jobs`` (k,) int32; ``options`` (k,) int64, whose partitions are meant.
    """
    view = by_reference(view)
    for k in range(len(jobs)):
        option = as_int64(options[k])
        p = as_int64(view.units.option_partition[option])
        found[k] = least_net(view, p, as_int64(jobs[k]), option)


@entry
def units_of_start(view: KernelView, p: int, job: int, found: Array) -> int:
    """Write the units that a start of ``job`` in partition p would take to ``found`` (U,) int32; return how many.

    None where too few are free. For views in which units differ or are ranked.
    """
    view = by_reference(view)
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
    view = by_reference(view)
    for k in range(len(jobs)):
        row = row_of(view.predicted, view.predicted.power_uw, as_int64(jobs[k]))
        for option in range(uw.shape[1]):
            view.predicted.power_uw[row, option] = uw[k, option]


@entry
def set_margin(view: KernelView, margin_uw: int) -> None:
    """Set the microwatts that must stay free below the cap."""
    view = by_reference(view)
    if view.counter[codes.MARGIN] != margin_uw:
        view.counter[codes.MARGIN] = margin_uw
        set_budget(view)


@entry
def set_frequency(view: KernelView, truth: Truth, log: Log, job: int, option: int) -> int:
    """Run ``job`` at another option of its partition; return 0, or why not.

    The ledger's figure for the job under the limits on its units is compared with what it counts now: a job that is
    limited to the same watts at both frequencies needs no room. A job that was started at this very instant is
    refused: its true end is set when the instant is over.
    """
    view, truth, log = by_reference(view), by_reference(truth), by_reference(log)
    if job < 0 or job >= len(log.state) or log.state[job] != codes.RUNNING_NOW:
        return codes.REFUSED_STATE
    before = as_int64(view.held.option[job])
    if option < 0 or option >= len(view.units.option_partition):
        return codes.REFUSED_OPTION
    if view.units.option_partition[option] != view.units.option_partition[before]:
        return codes.REFUSED_OPTION
    net, counted = limited_net(view, truth, job, option), running_net(view, job)
    if not fits_change(view, net - counted, square_w(net) - square_w(counted)):
        return codes.REFUSED_POWER
    change_speed(view, truth, log, job, option)
    return 0


@kernel
def change_speed(view: KernelView, truth: Truth, log: Log, job: int, option: int) -> None:
    """Continue a job at ``option`` under the limits in force: remaining work, energy so far, expected and true end.

    Remaining work is (end - now) / old factor, in seconds at reference speed. The new end is that times the new
    factor, rounded to 1 µs (rule 1 of docs/semantics.md).
    """
    now = view.num[codes.NOW]
    old_uw = truth.uw[job]
    old_factor = truth.factor[job]
    left = truth.ends.time[truth.ends.place[job]] - now
    # Take the job out of the running sums at its old watts, and put it back at the new ones.
    account(view, truth, job, as_int64(-1))
    expect_speed(view, truth, job, option)
    set_physics(view, truth, job)
    account(view, truth, job, as_int64(1))
    # The last stretch is billed from the start at the final watts: add what the first one differed by.
    log.energy_j[job] += (now - log.start[job]) * ((old_uw - truth.uw[job]) / codes.MICRO)
    heap_remove(truth.ends, truth.tally, codes.HEAP, job)
    end = max(now, round_us(now + left / old_factor * truth.factor[job]))
    heap_push(truth.ends, truth.tally, codes.HEAP, end, job)
    view.counter[codes.DIRTY] = 1


@kernel
def expect_speed(view: KernelView, truth: Truth, job: int, option: int) -> None:
    """Update the view for a change of speed: expected end, predicted time factor, net watts.

    The job leaves the sorted blocks and comes back, because its expected end, by which they are sorted, changes.
    """
    now = view.num[codes.NOW]
    held = view.held
    running_remove(view, job)
    old_factor = held.factor[job]
    held.option[job] = option
    speed = job_speed(view, truth, view.predicted, view.by_unit.factors, job)
    held.factor[job] = limited_factor(view, truth, view.predicted, job, speed)
    held.end[job] = round_us(now + (held.end[job] - now) / old_factor * held.factor[job])
    running_insert(view, job, limited_net(view, truth, job, option))


@kernel
def limited_net(view: KernelView, truth: Truth, job: int, option: int) -> int:
    """Return what the ledger counts for a running job at ``option``, under the limits on its units."""
    before = as_int64(view.held.option[job])
    view.held.option[job] = option  # the functions of kernels/power.py take the option from there
    speed = job_speed(view, truth, view.predicted, view.by_unit.factors, job)
    net = net_of(view, job, option, limited_uw(view, truth, view.predicted, view.by_unit.factors, job, speed))
    view.held.option[job] = before
    return net


@entry
def set_unit_cap(truth: Truth, unit: int, cap_uw: float) -> int:
    """Set the limit on one unit (inf for none). ``refresh_job`` then applies it to the job on it."""
    truth = by_reference(truth)
    if unit < 0 or unit >= len(truth.unit_cap_uw) or not cap_uw >= 0.0:
        return codes.REFUSED_OPTION
    before = truth.unit_cap_uw[unit] < codes.NO_CAP
    after = cap_uw < codes.NO_CAP
    truth.tally[codes.LIMITED_UNITS] += int(after) - int(before)
    truth.unit_cap_uw[unit] = cap_uw
    return 0


@entry
def limits_fit(view: KernelView, truth: Truth, jobs: Array) -> bool:
    """Return whether the ledger has room for running jobs under the limits that were just set. ``jobs`` (k,) int32.

    Compares their sum with what the ledger counts for them now: a limit that is raised for one job and lowered for
    another is one action.
    """
    view, truth = by_reference(view), by_reference(truth)
    more = 0
    squares = 0
    for k in range(len(jobs)):
        job = as_int64(jobs[k])
        net, counted = limited_net(view, truth, job, as_int64(view.held.option[job])), running_net(view, job)
        more += net - counted
        squares += square_w(net) - square_w(counted)
    return fits_change(view, more, squares)


@entry
def refresh_job(view: KernelView, truth: Truth, log: Log, job: int) -> None:
    """Continue a running job under the limits in force now."""
    view, truth, log = by_reference(view), by_reference(truth), by_reference(log)
    # With the last limit lifted, lowest_limit() answers inf without a look at the units.
    if truth.ends.place[job] < 0:
        # Started by an action of this instant: apply_starts() has yet to set its true watts and end.
        expect_speed(view, truth, job, view.held.option[job])
    else:
        change_speed(view, truth, log, job, view.held.option[job])


@entry
def stop_node(view: KernelView, truth: Truth, unit: int) -> int:
    """Shut the node of a unit down."""
    view, truth = by_reference(view), by_reference(truth)
    if unit < 0 or unit >= len(truth.unit_state):
        return codes.REFUSED_OPTION
    return stop_unit(view, truth, unit)


@entry
def wake_node(view: KernelView, truth: Truth, unit: int) -> int:
    """Boot the stopped node of a unit."""
    view, truth = by_reference(view), by_reference(truth)
    if unit < 0 or unit >= len(truth.unit_state):
        return codes.REFUSED_OPTION
    return wake_unit(view, truth, unit)


@entry
def requeue(view: KernelView, truth: Truth, log: Log, job: int) -> int:
    """Put a running job back at its previous place in the queue."""
    view, truth, log = by_reference(view), by_reference(truth), by_reference(log)
    if job < 0 or job >= len(log.state) or log.state[job] != codes.RUNNING_NOW:
        return codes.REFUSED_STATE
    requeue_job(view, truth, log, job)
    return 0


@entry
def job_of_unit(view: KernelView, unit: int) -> int:
    """Return the running job that holds ``unit``, -1 for none."""
    view = by_reference(view)
    return job_on(view, unit)
