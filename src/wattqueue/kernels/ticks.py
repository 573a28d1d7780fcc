"""Ticks: true watts follow power profiles by the work that jobs have done.

A run may be asked to follow the profiles of its jobs (``simulate(phases_s=...)``). Then ticks are events: at each,
every running job that carries a profile draws what its profile says of the work that it has done, until the next tick.
A job that is slowed walks through its profile more slowly. Expectation does not follow: estimators predict one figure.
"""

from __future__ import annotations

import math

from wattqueue.kernels._numba import as_int64, kernel, separate
from wattqueue.kernels.devices import TRUE, count_watts, list_job, touch_devices
from wattqueue.kernels.phases import has_profile, sample_uw
from wattqueue.kernels.speed import apply_speeds
from wattqueue.kernels.state import KernelView, Log, Truth

MOMENT_S = 1e-6  # times are rounded to it: work that falls short of a period by less has completed the period


@separate
def tick(view: KernelView, truth: Truth, log: Log) -> None:
    """Sample the profiles of all running jobs; continue those whose watts changed, and the jobs that this slows."""
    phases, time_s = truth.phases, view.now.time_s
    for k in range(truth.ends.filled[0]):
        job = as_int64(truth.ends.item[k])
        if phases.pattern[job] >= 0 and view.held.parked[job] == 0:
            done = log.checkpointed_s[job] + max(
                0.0, truth.work[job] - (truth.ends.time[k] - time_s) / truth.factor[job]
            )
            place = place_at(truth, done)
            if place != phases.place[job]:
                show_place(view, truth, job, place)
    apply_speeds(view, truth, log)
    period = truth.loop.tick_period_s
    at = (math.floor(time_s / period) + 1.0) * period
    truth.loop.tick_at_s = at if at > time_s else at + period


@kernel
def place_at(truth: Truth, done: float) -> int:
    """Return the period of a profile in which a job is that has done so many seconds of work."""
    return as_int64(math.floor((done + MOMENT_S) / truth.loop.profile_period_s))


@kernel
def show_place(view: KernelView, truth: Truth, job: int, place: int) -> None:
    """Let a running job draw the sample of a period of its profile; list it if its watts change."""
    before = truth.phases.unit_uw[job]
    sample = sample_uw(view, truth, job, place)
    truth.phases.place[job] = place
    if sample == before:
        return
    if truth.loop.keeps_owners != 0:
        count_watts(view, truth, as_int64(TRUE), truth.by_unit, job, before, as_int64(-1))
        count_watts(view, truth, as_int64(TRUE), truth.by_unit, job, sample, as_int64(1))
        touch_devices(view, truth, job)
    truth.phases.unit_uw[job] = sample
    list_job(truth, job)


@separate
def begin_phases(view: KernelView, truth: Truth, log: Log) -> None:
    """Let the jobs of the buffer of starts draw the first samples of their profiles, behind the work that was kept."""
    for k in range(view.now.starts):
        job = as_int64(view.entries.job[view.start_entry[k]])
        if has_profile(truth, job):
            place = place_at(truth, log.checkpointed_s[job])
            truth.phases.place[job] = place
            truth.phases.unit_uw[job] = sample_uw(view, truth, job, place)
