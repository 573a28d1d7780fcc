"""The jobs that wait, as the arrays of which a policy's snapshot is built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Ints
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.contracts import Entries, Prediction


class PendingJobs(NamedTuple):
    """The waiting jobs as arrays, kept while the queue does not change."""

    jobs: KnownJobs
    prediction: Prediction
    row: Ints
    """Rows of ``prediction`` for ``jobs``."""
    entries: Entries
    window: tuple[NDArray[Any], NDArray[Any]]
    """First and last option of each entry."""
    rank: NDArray[np.float64] | None
    """Rank of each unit for each application of ``jobs``; None where the policy has none."""
    planned_s: NDArray[np.float64] | None
    """Planned seconds of ``jobs``; None where the policy does not predict run times."""

    def take(self, kept: NDArray[np.bool_]) -> PendingJobs:
        """Return some of the jobs, in the same order. ``kept``: shape (n,)."""
        entry = kept[self.entries.job]
        number = np.cumsum(kept) - 1
        row = self.row[kept]
        return PendingJobs(
            self.jobs.take(kept), replace(self.prediction, row=row), row,
            Entries(
                number[self.entries.job[entry]].astype(np.int32), self.entries.partition[entry],
                self.entries.priority[entry],
            ),
            (self.window[0][entry], self.window[1][entry]), self.rank,
            None if self.planned_s is None else self.planned_s[kept],
        )  # fmt: skip
