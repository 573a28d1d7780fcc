"""Jobs that continue at another speed: another frequency, another limit, or other jobs on their devices.

A job's progress is measured by what is left until its end at the old factor: the remaining work is
``left / old_factor`` reference seconds. Expectation (the view) and truth are changed separately, each with its own
factors, and only where something differs: a time that is computed again is rounded again.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined, kernel, separate
from wattqueue.kernels.chance import fits_change, square_of
from wattqueue.kernels.devices import (
    EXPECTED,
    TRUE,
    clear_list,
    count_job,
    job_speed,
    keep_owners,
    list_changed,
    list_job,
    set_limit,
)
from wattqueue.kernels.entries import net_of, unit_uw
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.measured import measured_net
from wattqueue.kernels.phases import has_profile, sample_uw
from wattqueue.kernels.power import draw, limited_factor, limited_uw, round_us, true_factor, true_uw
from wattqueue.kernels.running import running_insert, running_net, running_remove
from wattqueue.kernels.state import Array, KernelView, Log, Truth
from wattqueue.kernels.supply import has_supply, variance_of
from wattqueue.kernels.supply_changes import listed_fit_domains, recount_job


@kernel
def change_speed(view: KernelView, truth: Truth, log: Log, job: int) -> None:
    """Continue a running job at its option under the limits in force, in expectation and in truth."""
    speed = job_speed(view, truth, as_int64(EXPECTED), job)
    expect_speed(view, job, expected_factor(view, truth, job, speed), expected_net(view, truth, job, speed))
    speed = job_speed(view, truth, as_int64(TRUE), job)
    change_truth(view, truth, log, job, true_uw(view, truth, job, speed), true_factor(view, truth, job, speed))


@kernel
def change_truth(view: KernelView, truth: Truth, log: Log, job: int, uw: int, factor: float) -> None:
    """Set the true watts and time factor of a running job; its energy so far and its end follow.

    Remaining work is (end - now) / old factor, in seconds at reference speed. The new end is that times the new
    factor, rounded to 1 µs (rule 1 of docs/semantics.md). A job that only draws other watts keeps its end.
    """
    time_s = view.now.time_s
    draw(view, truth, log, job, uw, as_int64(0))
    if factor != truth.factor[job]:
        left = (truth.ends.time[truth.ends.place[job]] - time_s) / truth.factor[job]
        truth.factor[job] = factor
        move_end(truth, job, max(time_s, round_us(time_s + left * factor)))


@kernel
def move_end(truth: Truth, job: int, end: float) -> None:
    """Give a running job another true end."""
    heap_remove(truth.ends, job)
    heap_push(truth.ends, end, job)


@kernel
def expect_speed(view: KernelView, job: int, factor: float, net: int) -> None:
    """Update the view for a change of speed: predicted time factor, expected end, net watts.

    The job leaves the sorted blocks and comes back, because its expected end, by which they are sorted, changes.
    """
    time_s = view.now.time_s
    held = view.held
    if has_supply(view):
        recount_job(view, job, running_net(view, job), net, variance_of(view, job))
    running_remove(view, job)
    held.end[job] = round_us(time_s + (held.end[job] - time_s) / held.factor[job] * factor)
    held.factor[job] = factor
    running_insert(view, job, net)
    view.now.dirty = 1


@inlined
def expected_factor(view: KernelView, truth: Truth, job: int, speed: float) -> float:
    """Return the predicted time factor of a running job, slowed to ``speed``."""
    return limited_factor(view, truth, view.predicted, job, speed)


@inlined
def expected_net(view: KernelView, truth: Truth, job: int, speed: float) -> int:
    """Return what the ledger counts for a running job: its prediction, slowed to ``speed``, or what is measured."""
    if view.now.by_sample != 0:
        return measured_net(view, truth, job)
    option = as_int64(view.held.option[job])
    watt = unit_uw(view.predicted, job, option)
    return net_of(view, job, option, limited_uw(view, truth, view.by_unit.factors, job, watt, speed))


@kernel
def switch_option(view: KernelView, truth: Truth, job: int, option: int) -> None:
    """Give a running job another option of its partition; its speed, watts and ends follow by ``change_speed``."""
    if truth.loop.keeps_owners != 0:
        count_job(view, truth, job, as_int64(-1))
    view.held.option[job] = option
    if has_profile(truth, job):
        truth.phases.unit_uw[job] = sample_uw(view, truth, job, as_int64(truth.phases.place[job]))
    if truth.loop.keeps_owners != 0:
        count_job(view, truth, job, as_int64(1))


@kernel
def count_listed(view: KernelView, truth: Truth) -> None:
    """Compute what the ledger counts for the listed jobs at their new speeds."""
    for k in range(truth.loop.listed):
        job = as_int64(truth.devices.job[k])
        truth.devices.net[k] = expected_net(view, truth, job, job_speed(view, truth, as_int64(EXPECTED), job))


@kernel
def listed_fit(view: KernelView, truth: Truth) -> bool:
    """Return whether the ledger has room for the listed jobs at their new speeds, beside all others.

    Counts them: ``refresh_listed`` may follow.
    """
    count_listed(view, truth)
    if has_supply(view) and not listed_fit_domains(view, truth):
        return False
    more = 0
    squares = 0
    for k in range(truth.loop.listed):
        job, net = as_int64(truth.devices.job[k]), as_int64(truth.devices.net[k])
        counted = running_net(view, job)
        more += net - counted
        squares += square_of(view, job, net) - square_of(view, job, counted)
    return fits_change(view, more, squares)


@kernel
def refresh_listed(view: KernelView, truth: Truth, log: Log) -> None:
    """Continue the listed jobs at their new speeds, once they are counted, and empty the list."""
    for k in range(truth.loop.listed):
        job, net = as_int64(truth.devices.job[k]), as_int64(truth.devices.net[k])
        factor = expected_factor(view, truth, job, job_speed(view, truth, as_int64(EXPECTED), job))
        if factor != view.held.factor[job] or net != running_net(view, job):
            expect_speed(view, job, factor, net)
        speed = job_speed(view, truth, as_int64(TRUE), job)
        uw, factor = true_uw(view, truth, job, speed), true_factor(view, truth, job, speed)
        if uw != truth.uw[job] or factor != truth.factor[job]:
            change_truth(view, truth, log, job, uw, factor)
    clear_list(truth)


@entry
def set_device_limits(view: KernelView, truth: Truth, log: Log, devices: Array, caps_uw: Array, before: Array) -> int:
    """Set the device limits (inf for none); jobs whose speed changes continue at the new one.

    ``devices`` (k,) int32, all on the machine; ``caps_uw`` (k,) float64 microwatts, the last one of a device holds;
    ``before`` (k,) float64 working space. All are set before the ledger is asked: a limit that is raised for one device
    and lowered for another is one action. Without room they are reset, and nothing has changed. Returns 0, or why not.
    """
    for k in range(len(devices)):
        if not caps_uw[k] >= 0.0:
            return codes.REFUSED_OPTION
    keep_owners(view, truth)
    for k in range(len(devices)):
        before[k] = truth.devices.cap_uw[devices[k]]
        set_limit(truth, as_int64(devices[k]), caps_uw[k])
    list_changed(view, truth)
    if not listed_fit(view, truth):
        for k in range(len(devices) - 1, -1, -1):
            set_limit(truth, as_int64(devices[k]), before[k])
        list_changed(view, truth)
        clear_list(truth)
        return codes.REFUSED_POWER
    refresh_listed(view, truth, log)
    return 0


@separate
def apply_speeds(view: KernelView, truth: Truth, log: Log) -> None:
    """Continue the listed jobs, and those on touched devices, at the speed that others leave them: after ends, starts
    and samples of profiles.

    What has happened cannot be refused: the ledger follows (rule 14 of docs/semantics.md).
    """
    list_changed(view, truth)
    count_listed(view, truth)
    refresh_listed(view, truth, log)


@separate
def begin_in_devices(view: KernelView, truth: Truth) -> None:
    """Let the jobs of the buffer of starts join their devices; list them, and the jobs that they slow."""
    for k in range(view.now.starts):
        job = as_int64(view.entries.job[view.start_entry[k]])
        count_job(view, truth, job, as_int64(1))
        if truth.loop.limited > 0:
            list_job(truth, job)  # the pass admitted it at full speed
    list_changed(view, truth)
