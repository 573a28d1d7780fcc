"""Actions that Python asks for, each carried out or refused (0, or one of the REFUSED codes)."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import direct, entry, kernel, lent, wide
from wattqueue.kernels.chance import fits_watts
from wattqueue.kernels.entries import entry_partition, net_watt, row_of, start_entry
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.nodes import job_on, requeue_job, stop_unit, wake_unit
from wattqueue.kernels.power import (
    account,
    limited_factor,
    limited_uw,
    lowest_limit,
    round_us,
    set_physics,
    speed_under,
)
from wattqueue.kernels.running import running_insert, running_remove
from wattqueue.kernels.schedule import set_budget
from wattqueue.kernels.state import Log, Truth, View


@direct
def start_checked(view: View, index: int, option: int) -> int:
    """Start an entry for a custom pass, if it is queued and fits."""
    view = lent(view)
    if index < 0 or index >= len(view.entries.job):
        return codes.REFUSED_STATE
    p = entry_partition(view, index)
    job = wide(view.entries.job[index])
    if view.tree.need[view.tree.offset[p, 0] + index - view.entries.start[p]] == codes.NEVER:
        return codes.REFUSED_STATE
    if option < view.entries.first[index] or option > view.entries.last[index]:
        return codes.REFUSED_OPTION
    if view.nodes[job] > view.units.free[p]:
        return codes.REFUSED_BUSY
    if not fits_watts(view, net_watt(view, job, option)):
        return codes.REFUSED_POWER
    start_entry(view, index, option)
    return 0


@direct
def set_prediction(view: View, job: int, option: int, uw: int) -> None:
    """Watts of one unit of ``job`` at ``option``, before it is queued."""
    view = lent(view)
    view.predicted.power_uw[row_of(view.predicted, view.predicted.power_uw, job), option] = uw
    p = wide(view.units.option_partition[option])
    if view.counter[codes.SCOPE_JOBS] == 0 and uw < view.units.idle_uw[p]:
        view.counter[codes.NEGATIVE_NET] = 1


@direct
def set_margin(view: View, margin_uw: int) -> None:
    """What must stay free below the cap from now on."""
    view = lent(view)
    if view.counter[codes.MARGIN] != margin_uw:
        view.counter[codes.MARGIN] = margin_uw
        set_budget(view)


@direct
def set_frequency(view: View, truth: Truth, log: Log, job: int, option: int) -> int:
    """Run ``job`` at another option of its partition; raised only within the cap."""
    view, truth, log = lent(view), lent(truth), lent(log)
    if job < 0 or job >= len(log.state) or log.state[job] != codes.RUNNING_NOW:
        return codes.REFUSED_STATE
    before = wide(view.held.option[job])
    if option < 0 or option >= len(view.units.option_partition):
        return codes.REFUSED_OPTION
    if view.units.option_partition[option] != view.units.option_partition[before]:
        return codes.REFUSED_OPTION
    more = net_watt(view, job, option) - net_watt(view, job, before)
    if more > 0 and more > view.counter[codes.AVAILABLE]:
        return codes.REFUSED_POWER
    change_speed(view, truth, log, job, option)
    return 0


@kernel
def change_speed(view: View, truth: Truth, log: Log, job: int, option: int) -> None:
    """Go on at ``option`` under the limits of now: remaining work, energy so far, expected end."""
    now = view.num[codes.NOW]
    old_uw = truth.uw[job]
    old_factor = truth.factor[job]
    left = truth.ends.time[truth.ends.place[job]] - now
    account(view, truth, job, wide(-1))
    expect_speed(view, truth, job, option)
    set_physics(view, truth, job)
    account(view, truth, job, wide(1))
    # The last stretch is billed from the start at the final watts: add what the first one differed by.
    log.energy_j[job] += (now - log.start[job]) * ((old_uw - truth.uw[job]) / codes.MICRO)
    heap_remove(truth.ends, truth.tally, codes.HEAP, job)
    end = max(now, round_us(now + left / old_factor * truth.factor[job]))
    heap_push(truth.ends, truth.tally, codes.HEAP, end, job)
    view.counter[codes.DIRTY] = 1


@kernel
def expect_speed(view: View, truth: Truth, job: int, option: int) -> None:
    """The view's side of a change of speed: expected end and predicted net watts."""
    now = view.num[codes.NOW]
    held = view.held
    running_remove(view, job)
    old_factor = held.factor[job]
    held.option[job] = option
    speed = speed_under(view, truth, view.predicted, job, lowest_limit(view, truth, job))
    held.factor[job] = limited_factor(view, truth, view.predicted, job, speed)
    held.end[job] = round_us(now + (held.end[job] - now) / old_factor * held.factor[job])
    net = limited_uw(view, truth, view.predicted, job, speed)
    if view.counter[codes.SCOPE_JOBS] == 0:
        net -= view.nodes[job] * view.units.idle_uw[view.units.option_partition[option]]
    running_insert(view, job, net)


@entry
def set_unit_cap(truth: Truth, unit: int, cap_uw: float) -> int:
    """Limit one unit; ``refresh_job`` then lets its job feel it."""
    truth = lent(truth)
    if unit < 0 or unit >= len(truth.unit_cap_uw) or not cap_uw >= 0.0:
        return codes.REFUSED_OPTION
    before = truth.unit_cap_uw[unit] < codes.NO_CAP
    after = cap_uw < codes.NO_CAP
    truth.tally[codes.LIMITED_UNITS] += int(after) - int(before)
    truth.unit_cap_uw[unit] = cap_uw
    return 0


@direct
def refresh_job(view: View, truth: Truth, log: Log, job: int) -> None:
    """Let a running job go on under the limits of now."""
    view, truth, log = lent(view), lent(truth), lent(log)
    # With the last limit lifted, lowest_limit() answers inf without a look at the units.
    change_speed(view, truth, log, job, view.held.option[job])


@direct
def stop_node(view: View, truth: Truth, unit: int) -> int:
    """Shut a free unit down."""
    view, truth = lent(view), lent(truth)
    if unit < 0 or unit >= len(truth.unit_state):
        return codes.REFUSED_OPTION
    return stop_unit(view, truth, unit)


@direct
def wake_node(view: View, truth: Truth, unit: int) -> int:
    """Boot a stopped unit."""
    view, truth = lent(view), lent(truth)
    if unit < 0 or unit >= len(truth.unit_state):
        return codes.REFUSED_OPTION
    return wake_unit(view, truth, unit)


@direct
def requeue(view: View, truth: Truth, log: Log, job: int) -> int:
    """Take a running job back to its old place in the queue."""
    view, truth, log = lent(view), lent(truth), lent(log)
    if job < 0 or job >= len(log.state) or log.state[job] != codes.RUNNING_NOW:
        return codes.REFUSED_STATE
    requeue_job(view, truth, log, job)
    return 0


@entry
def load_running(view: View, job: int, net: int) -> None:
    """Put a job that already runs into a view that is built from a snapshot; ``held`` is filled in."""
    view = lent(view)
    running_insert(view, job, net)


@direct
def job_of_unit(view: View, unit: int) -> int:
    """The running job that holds ``unit``, or -1."""
    view = lent(view)
    return job_on(view, unit)
