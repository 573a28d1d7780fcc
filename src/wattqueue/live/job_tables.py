"""Join and filter the job tables that a policy's snapshot is built from.

A snapshot has one job table: waiting jobs first, in queue order, then those that run or are under way. Entries and
windows refer to rows of the first part, ``RunningJobs.row`` to rows of the second. Both parts are columns already, so
joining costs one concatenation per column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattqueue.live.world import NO_LIMIT_S, Busy
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownJobs, Observed
from wattqueue.parts.contracts import Entries, Prediction


def joined(first: KnownJobs, busy: Sequence[Busy]) -> KnownJobs:
    """Return one table of the waiting jobs followed by the busy ones.

    The labels (user, application) of busy jobs are left empty: no part may use them in a pass. Observed are the starts
    of those that run; what is under way has none.
    """
    if not busy:
        return first
    count = len(busy)
    wall = np.fromiter((min(b.row.walltime_s, NO_LIMIT_S) for b in busy), np.float64, count)

    start = [b.row.start_s if b.row.active else np.nan for b in busy]
    unknown = Observed.nothing(len(first) + count)
    observed = replace(unknown, start_s=np.concatenate((first.observed.start_s, np.array(start, np.float64))))

    def more(labels: Labels) -> Labels:
        """Extend a column of labels by unknown ones."""
        return Labels(np.concatenate((labels.codes, np.full(count, -1, np.int32))), labels.names)

    return replace(
        first,
        job_id=np.concatenate((first.job_id, np.array([b.row.key.name for b in busy], object))),
        submit_s=np.concatenate((first.submit_s, np.fromiter((b.row.key.submit_s for b in busy), np.float64, count))),
        nodes=np.concatenate((first.nodes, np.fromiter((len(b.units) for b in busy), np.int32, count))),
        walltime_s=np.concatenate((first.walltime_s, wall)),
        user=more(first.user),
        app=more(first.app),
        partition=more(first.partition),
        _observed=observed,
    )


def offered(
    entries: Entries, window: tuple[np.ndarray, np.ndarray], prediction: Prediction
) -> tuple[Entries, tuple[np.ndarray, np.ndarray]]:
    """Leave out entries whose watts are infinite: the estimator does not offer these options."""
    first, last = (np.asarray(side) for side in window)
    keep = np.isfinite(prediction.watts(entries.job, first)) & np.isfinite(prediction.watts(entries.job, last))
    if keep.all():
        return entries, (first, last)
    return Entries(entries.job[keep], entries.partition[keep], entries.priority[keep]), (first[keep], last[keep])
