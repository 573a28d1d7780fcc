"""What is known of one job of a live controller: its request, where it ran, what it was measured to draw.

``request_table`` makes the job table of it that the parts of a policy expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wattqueue.live.cluster import JobKey
from wattqueue.live.world import NO_LIMIT_S
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownColumns, KnownJobs, Observed


class JobRequest(NamedTuple):
    """What the user of a job requested: all that an estimator may use."""

    key: JobKey
    user: str
    """``u`` and the numeric user id: names differ between hosts, ids do not."""
    app: str
    """Job name; empty where the details have not been read."""
    partition: str
    """Machine partition, empty where the job may use several."""
    nodes: int
    walltime_s: float
    """Inf for a job without a limit."""
    node_w: float = 0.0
    """Watts of one node as the user states them; 0 for none."""


class ObservedJob(NamedTuple):
    """A job that runs or ran, with the prediction that was made for it."""

    request: JobRequest
    predicted_node_w: float
    """Watts of one node; NaN where the job was never predicted."""
    hardware: str = ""
    """Machine partition on which it runs."""
    frequency_hz: float = math.nan
    """NaN where no frequency was chosen."""
    node_names: tuple[str, ...] = ()
    """Nodes on which it runs."""


class MeasuredJob(NamedTuple):
    """A job that ended and was measured. Watts are those of one node, times seconds since the epoch."""

    request: JobRequest
    start_s: float
    end_s: float
    mean_node_w: float
    max_node_w: float
    """NaN where only the energy is known (accounting)."""
    predicted_node_w: float
    hardware: str = ""
    """Machine partition on which it ran; empty where that is not known."""
    frequency_hz: float = math.nan
    node_names: tuple[str, ...] = ()
    """Nodes on which it ran; empty where they are not known."""


def where_it_ran(ran: ObservedJob) -> dict[str, Any]:
    """Return the fields of a measured job that say where and how it ran."""
    return {"hardware": ran.hardware, "frequency_hz": ran.frequency_hz, "node_names": ran.node_names}


def request_table(requests: Sequence[JobRequest], learned: Sequence[MeasuredJob] = ()) -> KnownJobs:
    """Build a job table: measured jobs first, then the new ones.

    The measurements of the first are what has been observed; jobs without a limit get ``NO_LIMIT_S``. What users state
    of new jobs is the column ``user_power_w``, as in a trace; of measured ones it is not kept.
    """
    rows = [*(one.request for one in learned), *requests]
    measured = np.full((4, len(rows)), np.nan)
    for k, one in enumerate(learned):
        measured[:, k] = one.start_s, one.end_s, one.mean_node_w, one.max_node_w
    stated_w = np.array([0.0] * len(learned) + [r.node_w for r in requests])
    return KnownJobs.build(
        np.array([r.key.submit_s for r in rows], np.float64),
        np.array([r.nodes for r in rows], np.int32),
        np.array([min(r.walltime_s, NO_LIMIT_S) for r in rows], np.float64),
        observed=Observed(*measured),
        job_id=np.array([r.key.name for r in rows], object),
        user=Labels.of([r.user for r in rows]),
        app=Labels.of([r.app for r in rows]),
        partition=Labels.of([r.partition for r in rows]),
        extra=KnownColumns({"user_power_w": stated_w} if stated_w.any() else {}),
    )
