"""The seven features of Table 1 of paper 4, each known when a job is submitted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs

FEATURES = (
    "submission hour",
    "processors",
    "nodes",
    "requested time",
    "history",
    "spread of the history",
    "last job",
)
ASKED = 4
"""So many come from the job itself; the others are lagged: they come from the user's finished jobs."""
PROCESSORS = ("processors", "requested_procs", "cores", "num_cores_req", "num_cores_alloc")
"""Columns of ``Jobs.extra`` that may hold the number of processors, the best known first."""


def asked_features(jobs: Jobs) -> Floats:
    """Features 1 to 4. Shape (n, 4).

    The hour of the day is that of the trace's clock. A job whose processors no column tells is
    taken to use as many as it has nodes: scaled, the same feature as nodes times a constant.
    """
    hour = np.floor(jobs.submit_s / 3600.0) % 24.0
    return np.column_stack((hour, _processors(jobs), jobs.nodes.astype(np.float64), jobs.walltime_s))


def _processors(jobs: Jobs) -> Floats:
    nodes = jobs.nodes.astype(np.float64)
    for name in PROCESSORS:
        column = jobs.extra.get(name)
        if column is not None and np.asarray(column).dtype.kind in "iuf":
            known = np.asarray(column, np.float64)
            return np.where(np.isfinite(known) & (known > 0), known, nodes)
    return nodes


def lagged_features(lags: Floats) -> NDArray[np.float64]:
    """Features 5 to 7 from what the history kernel gives: prediction, spread, last watts. Shape (k, 3).

    A user without history has the prediction that everybody gets for features 5 and 7, and no spread;
    before any job has finished all are NaN.
    """
    history, spread, last = lags[:, 0], lags[:, 1], lags[:, 2]
    return np.column_stack((history, np.where(np.isnan(spread), 0.0, spread), np.where(np.isnan(last), history, last)))


def job_features(jobs: Jobs, target: str = "mean") -> tuple[Floats, Floats]:
    """Features of all jobs of a trace at their submissions, and the watts to predict. Shapes (n, 7), (n,).

    Lagged features know only jobs that had ended by then (``Timeline``). NaN where nothing had.
    """
    from wattqueue.parts.estimator._history import history_columns, new_history
    from wattqueue.parts.timeline import job_watts, trace_timeline

    watts = job_watts(jobs, target)
    lags = history_columns(new_history(np.zeros(len(jobs.user.names), np.int64)), jobs, trace_timeline(jobs), watts)
    return np.column_stack((asked_features(jobs), lagged_features(lags))), watts
