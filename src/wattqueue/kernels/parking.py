"""Suspended jobs: they keep their units, which draw idle watts, and do no work until they are resumed (rule 16).

A suspended job stays among the running ones, with an end at infinity in truth and in expectation, and leaves its power
devices: what it drew there is the others' to take. Its remaining work is kept in seconds at reference speed.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel
from wattqueue.kernels.devices import EXPECTED, TRUE, clear_list, count_job, job_speed, list_changed, list_job
from wattqueue.kernels.entries import net_of
from wattqueue.kernels.measured import date_job
from wattqueue.kernels.power import draw, round_us, true_factor, true_uw
from wattqueue.kernels.running import running_insert, running_net, running_partition, running_remove
from wattqueue.kernels.speed import apply_speeds, expected_factor, expected_net, listed_fit, move_end, refresh_listed
from wattqueue.kernels.state import KernelView, Log, Truth
from wattqueue.kernels.supply import has_supply, variance_of
from wattqueue.kernels.supply_changes import recount_job

INF = float("inf")
ROUNDING = 1e-9
LEAST_S = 1.0  # a shorter planned time counts as a second (rule 3)


@kernel
def suspend_job(view: KernelView, truth: Truth, log: Log, job: int) -> int:
    """Suspend a running job; return 0, or why not: it is suspended already.

    For sensors its units are idle from now on: a measured ledger counts the job at idle watts, and what a shared sensor
    shows of its units as that of idle ones.
    """
    held, time_s = view.held, view.now.time_s
    if held.parked[job] != 0:
        return codes.REFUSED_STATE
    truth.left[job] = (truth.ends.time[truth.ends.place[job]] - time_s) / truth.factor[job]
    held.left[job] = (held.end[job] - time_s) / held.factor[job]
    if truth.loop.keeps_owners != 0:
        count_job(view, truth, job, as_int64(-1))
    held.parked[job] = 1
    idle = view.nodes[job] * view.units.idle_uw[running_partition(view, job)]
    draw(view, truth, log, job, as_int64(idle), as_int64(-1))
    move_end(truth, job, INF)
    net = net_of(view, job, as_int64(held.option[job]), as_int64(idle))
    if has_supply(view):
        recount_job(view, job, running_net(view, job), net, variance_of(view, job))
    running_remove(view, job)
    held.end[job] = INF
    running_insert(view, job, net)
    log.parked_s[job] -= time_s
    view.now.dirty = 1
    apply_speeds(view, truth, log)
    return 0


@kernel
def resume_job(view: KernelView, truth: Truth, log: Log, job: int) -> int:
    """Continue a suspended job at its option; return 0, or why not: where the ledger has no room for its watts."""
    held, time_s, since = view.held, view.now.time_s, 0.0
    if held.parked[job] == 0:
        return codes.REFUSED_STATE
    held.parked[job] = 0
    if truth.loop.sensing != 0:
        since = date_job(view, job, time_s)  # samples of its suspension say nothing of what it will draw
    if truth.loop.keeps_owners != 0:
        count_job(view, truth, job, as_int64(1))
    list_job(truth, job)
    list_changed(view, truth)
    if not listed_fit(view, truth):
        if truth.loop.keeps_owners != 0:
            count_job(view, truth, job, as_int64(-1))
        list_changed(view, truth)
        clear_list(truth)
        if truth.loop.sensing != 0:
            date_job(view, job, since)
        held.parked[job] = 1
        return codes.REFUSED_POWER
    log.parked_s[job] += time_s
    speed = job_speed(view, truth, as_int64(TRUE), job)
    truth.factor[job] = true_factor(view, truth, job, speed)
    draw(view, truth, log, job, true_uw(view, truth, job, speed), as_int64(1))
    move_end(truth, job, max(time_s, round_us(time_s + truth.left[job] * truth.factor[job])))
    speed = job_speed(view, truth, as_int64(EXPECTED), job)
    net = expected_net(view, truth, job, speed)
    if has_supply(view):
        recount_job(view, job, running_net(view, job), net, variance_of(view, job))
    running_remove(view, job)
    held.factor[job] = expected_factor(view, truth, job, speed)
    held.end[job] = round_us(time_s + held.left[job] * held.factor[job])
    running_insert(view, job, net)
    view.now.dirty = 1
    refresh_listed(view, truth, log)
    return 0


@kernel
def store_work(view: KernelView, truth: Truth, log: Log, job: int, checkpointed_s: float, checkpoint_s: float) -> None:
    """Keep work of a running job for its next start: at most what it has done of it, in seconds at reference speed.

    Whole checkpoints since its start, each of ``checkpoint_s`` seconds; a rounding below one is one.
    Walltime and planned time are what is left of them, too. The columns belong to the run (``own_work``).
    """
    held, time_s = view.held, view.now.time_s
    left, expected = truth.left[job], held.left[job]
    if held.parked[job] == 0:
        left = (truth.ends.time[truth.ends.place[job]] - time_s) / truth.factor[job]
        expected = (held.end[job] - time_s) / held.factor[job]
    planned = view.planned.seconds[job]
    kept = min(checkpointed_s, max(0.0, truth.work[job] - left), max(0.0, planned - expected))
    kept = math.floor(kept / checkpoint_s + ROUNDING) * checkpoint_s
    truth.work[job] -= kept
    view.planned.seconds[job] = max(planned - kept, min(planned, LEAST_S))
    if len(view.planned.promise) > 0:  # else it is the column of walltimes itself
        view.walltime[job] = max(view.walltime[job] - kept, view.planned.seconds[job])
    log.checkpointed_s[job] += kept
