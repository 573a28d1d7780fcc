"""Cut a window of a run: what ran at an instant goes on, the jobs that had not started are scheduled again.

A window is a workload of its own, which a policy can be run on: jobs that ran at the instant are submitted a second
before it, with what was left of their run and walltime. They start at once, since they ran beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.schedule import Schedule
from wattqueue.workload.cycle import HOUR_S
from wattqueue_studies.bound.instance import Whole

BEFORE_S = 1.0
"""Seconds before the window at which jobs that run already start."""
BUSY_SHARE, BUSY_JOBS = 0.1, 20
"""An instant is busy if so many of the window's jobs wait: a tenth of them, at most 20."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundWindow:
    """A piece of a run.

    Attributes:
        begin_s: Its first instant, on the trace's clock.
        jobs: The jobs that ran at that instant, then those that are scheduled.
        running: How many ran.
        option: The option of the machine at which each of these ran. Shape (running,).
        rows: Rows of the whole workload. Shape (n,).
        past: What had ended before; None where the run begins with the window.
    """

    begin_s: float
    jobs: Jobs
    running: int
    option: Whole
    rows: Whole
    past: Past | None = None


def whole_window(jobs: Jobs) -> BoundWindow:
    """Return a workload as a window that begins with an empty machine, at its first submission."""
    return BoundWindow(float(jobs.submit_s.min()), jobs, 0, np.zeros(0, np.int64), np.arange(len(jobs)))


def cut_window(jobs: Jobs, schedule: Schedule, begin_s: float, count: int, factor: Floats) -> BoundWindow:
    """Return the window of ``count`` jobs, in order of submission, that had not started at an instant of a run.

    ``factor`` (n,): run time of each job at its option, relative to that at reference speed.

    Raises: InputError where there are fewer.
    """
    runs = (schedule.start_s < begin_s) & (schedule.end_s > begin_s)
    later = np.flatnonzero(schedule.ran & (schedule.start_s >= begin_s))
    later = later[np.argsort(jobs.submit_s[later], kind="stable")][:count]
    if len(later) < count:
        raise InputError(
            f"{len(later)} jobs start after {begin_s:.0f} s", where="--window", hint=f"at most {len(later)} there"
        )
    busy = np.flatnonzero(runs)
    left_s = (schedule.end_s[busy] - begin_s) / factor[busy]
    before_s = BEFORE_S / factor[busy]
    # A job that was killed at its walltime has as much left of both.
    limit_s = np.maximum(left_s, jobs.walltime_s[busy] - (begin_s - schedule.start_s[busy]) / factor[busy])
    rows = np.concatenate((busy, np.sort(later)))
    both, k = jobs.take(rows), len(busy)
    submit, work, limit = np.maximum(both.submit_s, begin_s), both.runtime_s.copy(), both.walltime_s.copy()
    submit[:k], work[:k], limit[:k] = begin_s - BEFORE_S, left_s + before_s, limit_s + before_s
    window = replace(both, submit_s=submit, runtime_s=work, walltime_s=limit)
    past = Past.before(jobs, schedule.end_s, begin_s)
    return BoundWindow(begin_s, window, k, schedule.option[busy].astype(np.int64), rows, past)


def busy_instant(jobs: Jobs, schedule: Schedule, count: int, seed: int) -> float:
    """Draw a busy full hour of a run after which ``count`` jobs start: many jobs wait at it.

    Raises: InputError where the run has none.
    """
    ran = schedule.ran
    submit, start = np.sort(jobs.submit_s[ran]), np.sort(schedule.start_s[ran])
    hours = np.arange(np.ceil(submit[0] / HOUR_S), np.floor(start[-1] / HOUR_S) + 1) * HOUR_S
    begun = np.searchsorted(start, hours, side="left")
    waiting = np.searchsorted(submit, hours, side="left") - begun
    needed = min(max(1, int(BUSY_SHARE * count)), BUSY_JOBS)
    good = hours[(waiting >= needed) & (len(start) - begun >= count)]
    if not len(good):
        raise InputError(
            f"at no full hour do {needed} jobs wait and {count} start later", where="--window",
            hint="use a busier or longer workload, or fewer jobs",
        )  # fmt: skip
    rng = np.random.default_rng(seed)
    return float(rng.choice(good))
