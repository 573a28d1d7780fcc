"""When the jobs of a trace were submitted and when they ended: the order in which a predictor sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Rows in order of submissions and of ends; at one instant ends come first (SEMANTICS rule 2).

    Shapes: ``end_s``, ``by_submit``, ``by_end`` (n,); equal times keep the order of the trace.
    ``early_starts`` counts rows whose recorded start lies before their submission.
    """

    end_s: Floats
    by_submit: NDArray[np.int64]
    by_end: NDArray[np.int64]
    early_starts: int = 0


def trace_timeline(jobs: Jobs) -> Timeline:
    """The trace's own ends: recorded start, or else submission, plus min(runtime, walltime).

    A start before the submission is a clock that ran backwards: the submission is taken instead.
    """
    start = jobs.submit_s
    early = 0
    if jobs.start_s is not None:
        early = int((jobs.start_s < jobs.submit_s).sum())
        start = np.fmax(jobs.start_s, jobs.submit_s)
    end = start + np.minimum(jobs.runtime_s, jobs.walltime_s)
    return Timeline(end, np.argsort(jobs.submit_s, kind="stable"), np.argsort(end, kind="stable"), early)


def job_watts(jobs: Jobs, target: str) -> Floats:
    """Watts of one unit to predict: ``mean``, or ``max`` with gaps filled from the mean; NaN unknown. Shape (n,)."""
    power = jobs.mean_power_w if target == "mean" else jobs.peak_power_w()
    return np.full(len(jobs), np.nan) if power is None else power
