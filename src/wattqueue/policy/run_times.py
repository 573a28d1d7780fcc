"""The run-time part of a policy at work: asked, taught and checked in one place.

A prediction that cannot be used (a wrong shape, not above 0, not finite) ends a simulation with one message; NaN stands
for the walltime. Within one call, completions are learned before submissions are predicted (rule 2 of
docs/semantics.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.kernels.overruns import STEPS_S
from wattqueue.kernels.recent_runs import LEAST_S
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import FinishedRuns, Floats, OnlineRunTime, RunTime


def begin_run_times(part: RunTime | None, jobs: KnownJobs, machine: Machine) -> Floats | None:
    """Return the planned seconds of all jobs before any has ended; None where they are the walltimes. Shape (n,).

    Raises: PolicyError for an answer that cannot be used.
    """
    answer = None if part is None else part.seconds(jobs, machine)
    if answer is None:
        return None
    return within_walltime(checked_seconds(part, answer, len(jobs)), jobs.walltime_s)


def ask_run_times(part: OnlineRunTime, finished: FinishedRuns | None, rows: NDArray[np.int32], now_s: float) -> Floats:
    """Teach jobs that ended, then return the seconds of those that arrive now, NaN for not known. Shape (k,).

    Raises: PolicyError for an answer that cannot be used.
    """
    if finished is not None and len(finished.rows):
        part.learn_runs(finished)
    return checked_seconds(part, part.seconds_of(rows, now_s), len(rows))


def run_times_batch(
    part: RunTime,
    online: OnlineRunTime | None,
    jobs: KnownJobs,
    machine: Machine,
    finished: FinishedRuns,
    rows: NDArray[np.int32],
    now_s: float,
) -> Floats:
    """Ask about some rows of a table from the beginning: the planned seconds of each at its submission. Shape (k,).

    ``finished`` are jobs of the same table that ended before; a part that learns forgets everything else. What it
    answers depends on the table alone, so a live controller that was restarted plans the same.

    Raises: PolicyError for an answer that cannot be used.
    """
    walltime_s = jobs.walltime_s[rows]
    before = begin_run_times(part, jobs, machine)
    if online is not None:
        return within_walltime(ask_run_times(online, finished, rows, now_s), walltime_s)
    return walltime_s if before is None else before[rows]


def within_walltime(seconds: Floats, walltime_s: Floats) -> Floats:
    """Return answers as planned seconds: NaN is the walltime, the rest from a second to the walltime. Shapes (k,)."""
    return np.minimum(np.where(np.isnan(seconds), np.inf, np.maximum(seconds, LEAST_S)), walltime_s)


def planned_after(predicted_s: Floats, walltime_s: Floats, ran_s: Floats, correction: int) -> Floats:
    """Return the planned seconds of jobs that have run for ``ran_s``, all at reference speed. Shapes (k,).

    ``correction`` is a number of ``kernels/codes.py``. The same as the simulator's corrections one after the other
    (``kernels/overruns.py``): a plan is over once a job has run for so long.
    """
    if correction in (codes.PLAN_IS_LIMIT, codes.LIMIT_AT_START):
        return walltime_s
    steps = STEPS_S if correction == codes.STEPS_AT_OVERRUN else STEPS_S[:1]
    planned = walltime_s
    for step in reversed(steps):
        longer = predicted_s + step
        planned = np.where(longer > ran_s, np.minimum(longer, walltime_s), planned)
    return planned


def checked_seconds(part: object, answer: Any, count: int) -> Floats:
    """Return an answer as an array. Raises: PolicyError for a wrong shape, or figures that are not above 0."""
    name, hint = type(part).__name__, "one figure for each job: seconds above 0, or nan (not known)"
    try:
        seconds = np.asarray(answer, np.float64)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"gave no array of seconds: {error}", where=name, hint=hint) from error
    if seconds.shape != (count,):
        raise PolicyError(f"gave seconds of shape {seconds.shape} for {count} jobs", where=name, hint=hint)
    wrong = ~(np.isnan(seconds) | ((seconds > 0) & np.isfinite(seconds)))
    if wrong.any():
        raise PolicyError(f"predicts a run time of {seconds[wrong][0]} s", where=name, hint=hint)
    return seconds
