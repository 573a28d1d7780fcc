"""The seven features of Table 1 of paper 4, each known when a job is submitted.

Features 1 to 4 come from the job itself, 5 to 7 from the user's jobs that had finished by its submission. The weekly
estimators fill them in as jobs arrive; ``job_features`` computes them for a whole trace (scikit-learn users).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs

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
"""Number of features that come from the job itself; the others are lagged: from the user's finished jobs."""
PROCESSORS = ("processors", "requested_procs", "cores", "num_cores_req", "num_cores_alloc")
"""Columns of ``Jobs.extra`` that may hold the number of processors, the preferred one first."""

TEXTS = ("script", "submit_line", "job_environment")
"""Columns of ``Jobs.extra`` that may hold what a user wrote into the submission."""


def asked_features(jobs: KnownJobs) -> Floats:
    """Return features 1 to 4: hour, processors, nodes, walltime in seconds. Shape (n, 4).

    The hour of the day is that of the trace's clock. Where no column gives the processors, the nodes stand in: after
    scaling, that is the same feature as nodes times a constant.
    """
    hour = np.floor(jobs.submit_s / 3600.0) % 24.0
    return np.column_stack((hour, _processors(jobs), jobs.nodes.astype(np.float64), jobs.walltime_s))


def _processors(jobs: KnownJobs) -> Floats:
    """Return the processors of each job from the first usable column, gaps filled with its nodes. Shape (n,)."""
    nodes = jobs.nodes.astype(np.float64)
    for name in PROCESSORS:
        column = jobs.extra.get(name)
        if column is not None and np.asarray(column).dtype.kind in "iuf":
            known = np.asarray(column, np.float64)
            return np.where(np.isfinite(known) & (known > 0), known, nodes)
    return nodes


def lagged_features(lags: Floats) -> NDArray[np.float64]:
    """Return features 5 to 7 from the history kernel's columns: prediction, spread, last watts. Shape (k, 3).

    A user without history has the mean over all users for features 5 and 7, and spread 0; before any job has finished
    all are NaN.
    """
    history, spread, last = lags[:, 0], lags[:, 1], lags[:, 2]
    return np.column_stack((history, np.where(np.isnan(spread), 0.0, spread), np.where(np.isnan(last), history, last)))


def job_features(jobs: Jobs, target: str = "mean") -> tuple[Floats, Floats]:
    """Return the features of all jobs of a trace at their submissions, and the watts to predict. Shapes (n, 7), (n,).

    ``target`` is ``mean`` or ``max``. Lagged features use only jobs that had ended by the submission
    (``parts.timeline``); NaN where none had.
    """
    from wattqueue.kernels.history import new_history
    from wattqueue.parts.history import history_columns
    from wattqueue.parts.timeline import job_watts, trace_timeline

    watts = job_watts(jobs, target)
    lags = history_columns(new_history(np.zeros(len(jobs.user.names), np.int64)), jobs, trace_timeline(jobs), watts)
    return np.column_stack((asked_features(KnownJobs.of(jobs)), lagged_features(lags))), watts
