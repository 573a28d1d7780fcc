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
    seconds = checked_seconds(part, answer, len(jobs))
    known = np.where(np.isnan(seconds), np.inf, np.maximum(seconds, LEAST_S))
    return np.minimum(known, jobs.walltime_s)


def ask_run_times(part: OnlineRunTime, finished: FinishedRuns | None, rows: NDArray[np.int32], now_s: float) -> Floats:
    """Teach jobs that ended, then return the seconds of those that arrive now, NaN for not known. Shape (k,).

    Raises: PolicyError for an answer that cannot be used.
    """
    if finished is not None and len(finished.rows):
        part.learn_runs(finished)
    return checked_seconds(part, part.seconds_of(rows, now_s), len(rows))


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
