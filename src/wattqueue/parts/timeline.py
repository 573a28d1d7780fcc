"""The order in which a predictor sees the jobs of a trace: their submissions and their recorded ends.

Used where predictors are compared on a trace without a simulation (``wattqueue predict``) and by estimators with
``completions = "trace"``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs

WEEK_S = 7 * 86_400.0
"""Time between two trainings of an estimator that learns weekly, unless it is given another."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Rows in order of submissions and of ends; equal times keep the order of the trace. Shapes (n,).

    At one instant, ends come before submissions (rule 2 of docs/semantics.md).
    """

    end_s: Floats
    """End of each job on the trace's clock."""
    by_submit: NDArray[np.int64]
    """Row numbers in order of submission."""
    by_end: NDArray[np.int64]
    """Row numbers in order of end."""
    early_starts: int = 0
    """Rows whose recorded start lies before their submission."""


def trace_timeline(jobs: Jobs) -> Timeline:
    """Return the timeline of the trace's own ends: recorded start, or else submission, plus min(runtime, walltime).

    A start before the submission (a clock that was set back) is replaced by the submission, and counted.
    """
    start = jobs.submit_s
    early = 0
    if jobs.start_s is not None:
        early = int((jobs.start_s < jobs.submit_s).sum())
        start = np.fmax(jobs.start_s, jobs.submit_s)
    end = start + np.minimum(jobs.runtime_s, jobs.walltime_s)
    return Timeline(end, np.argsort(jobs.submit_s, kind="stable"), np.argsort(end, kind="stable"), early)


def job_watts(jobs: Jobs, target: str) -> Floats:
    """Return the watts of one unit to predict: ``mean``, or ``max`` with gaps filled from the mean; NaN unknown.

    Shape (n,).
    """
    power = jobs.mean_power_w if target == "mean" else jobs.peak_power_w()
    return np.full(len(jobs), np.nan) if power is None else power
