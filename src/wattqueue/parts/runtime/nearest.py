"""The k most similar of the jobs that ended last, by what users requested (k-NN)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Correction, FinishedRuns, Ints
from wattqueue.parts.correction import checked_correction

if TYPE_CHECKING:
    from wattqueue.kernels.nearest_runs import NearestRuns

MOST_NEIGHBOURS = 100
MOST_LAST = 100_000


class Nearest:
    """Plan a job at the quantile ``at`` of the run times of the ``neighbours`` nearest of the ``last`` jobs that ended.

    The distance of two jobs counts doublings of nodes and of the requested time, ``user_apart`` where the users differ,
    and ``app_apart`` where the applications do. Of equally near jobs the latest count. Before enough jobs have ended, a
    job is planned at its walltime.

    Raises: PolicyError for options out of range.

    Reference: k-NN on features of the submission, as in 10.21203/rs.3.rs-9372280. Its text was not at hand: features,
    distance and figures here are assumptions.
    """

    asked: Asked = "at_submit"

    def __init__(
        self,
        *,
        neighbours: int = 10,
        last: int = 1_000,
        at: float = 0.5,
        user_apart: float = 4.0,
        app_apart: float = 2.0,
        correction: Correction = "limit",
    ) -> None:
        if not 1 <= neighbours <= MOST_NEIGHBOURS or not neighbours <= last <= MOST_LAST:
            raise PolicyError(
                f"{neighbours=}, {last=}",
                where="neighbours, last",
                hint=f"use 1 to {MOST_NEIGHBOURS} neighbours out of at least as many, at most {MOST_LAST}",
            )
        if not 0.0 <= at <= 1.0 or not (0.0 <= user_apart < np.inf and 0.0 <= app_apart < np.inf):
            raise PolicyError(
                f"{at=}, {user_apart=}, {app_apart=}",
                where="at, user_apart, app_apart",
                hint="use a quantile from 0 to 1, and distances of 0 or more",
            )
        self.correction = checked_correction(correction)
        self.neighbours, self.last, self.at = neighbours, last, at
        self.apart = (user_apart, app_apart)
        self._runs: NearestRuns | None = None

    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        """Forget all jobs that ended, and take what users requested."""
        from wattqueue.kernels.nearest_runs import NearestRuns

        size = np.log2(np.array([jobs.nodes, jobs.walltime_s], np.float64))
        user, app = (np.ascontiguousarray(labels.codes, np.int32) for labels in (jobs.user, jobs.app))
        ring = (np.zeros(self.last, np.int32), np.zeros(self.last), np.zeros(1, np.int64))
        near, near_s, ordered = (np.zeros(self.neighbours) for _ in range(3))
        figures = (np.array([self.at]), np.array(self.apart))
        self._runs = NearestRuns(*figures, user, app, size, *ring, near, near_s, ordered)

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        """Return the predicted run times of the jobs that arrive now, NaN for not known. Shape (k,)."""
        from wattqueue.kernels.nearest_runs import nearest_seconds_rows

        out = np.empty(len(rows))
        nearest_seconds_rows(self._known(), rows, out)
        return out

    def learn_runs(self, finished: FinishedRuns) -> None:
        """Add the run times of jobs that ended, in order of their ends."""
        from wattqueue.kernels.nearest_runs import nearest_learn_rows

        nearest_learn_rows(self._known(), finished.rows, finished.run_s)

    def _known(self) -> NearestRuns:
        """Return the state. Raises: PolicyError before seconds()."""
        if self._runs is None:
            raise PolicyError("asked before it was given jobs", where=type(self).__name__)
        return self._runs
