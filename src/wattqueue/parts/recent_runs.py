"""Base of the parts that predict from the latest jobs that are alike; the compiled loop does the same by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Labels
from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Correction, FinishedRuns, Ints

if TYPE_CHECKING:
    from wattqueue.kernels.recent_runs import RecentRuns

COLUMNS = ("user", "app", "nodes", "walltime", "partition")
"""What groups of jobs that are alike may have in common."""
MOST_JOBS = 1_000
"""Longest ring of run times: each prediction sorts it."""


class RecentBase:
    """Predict from a ring of run times for each group of jobs that are alike.

    ``at`` is the quantile, None the mean. Raises: PolicyError for options out of range.
    """

    asked: Asked = "at_submit"
    in_loop: ClassVar[bool] = False
    """Whether the compiled loop may predict in its place; stated in the body of the class that it is true of."""

    def __init__(
        self, *, alike: tuple[str, ...], jobs: int, fewest: int, at: float | None, correction: Correction
    ) -> None:
        from wattqueue.parts.correction import checked_correction

        if not 1 <= fewest <= jobs <= MOST_JOBS:
            raise PolicyError(
                f"{jobs=}, {fewest=}", where="jobs, fewest", hint=f"use 1 <= fewest <= jobs <= {MOST_JOBS}"
            )
        if at is not None and not 0.0 <= at <= 1.0:
            raise PolicyError(f"is {at}", where="at", hint="use a quantile from 0 to 1")
        self.correction = checked_correction(correction)
        self.alike = tuple(level.split() for level in alike)
        unknown = [name for level in self.alike for name in level if name not in COLUMNS]
        if unknown or not self.alike or not all(self.alike):
            raise PolicyError(
                f"{list(alike)!r}",
                where="alike",
                hint=f"use columns out of {', '.join(COLUMNS)}, as in 'user nodes'",
            )
        self.jobs, self.fewest, self.at = jobs, fewest, at
        self._table: KnownJobs | None = None
        self._runs: RecentRuns | None = None

    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        """Forget all run times, and number the groups of the jobs; nothing is known before one has ended."""
        self._table = jobs
        self._runs = self._empty(groups(self.alike, jobs, None))

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        """Return the predicted run times of the jobs that arrive now, NaN for not known. Shape (k,)."""
        from wattqueue.kernels.recent_runs import recent_seconds_rows

        out = np.empty(len(rows))
        recent_seconds_rows(self.loop_state(), rows, out)
        return out

    def learn_runs(self, finished: FinishedRuns) -> None:
        """Add the run times of jobs that ended, in order of their ends."""
        from wattqueue.kernels.recent_runs import recent_learn_rows

        recent_learn_rows(self.loop_state(), finished.rows, finished.run_s)

    def remember_runs(self, past: Past) -> None:
        """Add jobs that ended before the run; users, applications and partitions are matched by name."""
        from wattqueue.kernels.recent_runs import recent_learn_rows

        if self._table is None:
            raise PolicyError("asked before it was given jobs", where=type(self).__name__)
        group = groups(self.alike, self._table, past)
        before = self._empty(group)
        run_s = np.minimum(past.jobs.runtime_s, past.jobs.walltime_s)
        recent_learn_rows(before, np.arange(len(past), dtype=np.int32) + len(self._table), run_s)
        self._runs = before._replace(group=np.ascontiguousarray(group[:, : len(self._table)]))

    def loop_state(self) -> RecentRuns:
        """Return the state itself, not a copy: what the loop learns is seen by later calls of this object.

        Raises: PolicyError before seconds().
        """
        if self._runs is None:
            raise PolicyError("asked before it was given jobs", where=type(self).__name__)
        return self._runs

    def _empty(self, group: NDArray[np.int32]) -> RecentRuns:
        """Return empty rings for the groups. Shape (levels, n)."""
        from wattqueue.kernels import recent_runs as k

        count = int(group.max(initial=-1)) + 1
        rule = np.zeros(k.RECENT_SLOTS, np.int64)
        rule[[k.PREDICTS, k.MEAN, k.FEWEST]] = 1, self.at is None, self.fewest
        ring, seen = np.zeros((count, self.jobs)), np.zeros(count, np.int64)
        return k.RecentRuns(rule, np.array([self.at or 0.0]), group, ring, ring.copy(), seen)


def groups(alike: tuple[list[str], ...], jobs: KnownJobs, past: Past | None) -> NDArray[np.int32]:
    """Return the group of each job at each level, those of a past behind; -1 without a user where it is asked for.

    Groups are numbered over all levels. Shape (levels, n + jobs of the past).
    """
    found, first = [], 0
    for level in alike:
        columns = [_column(name, jobs, past) for name in level]
        known = np.ones(len(columns[0]), np.bool_)
        if "user" in level:
            known = columns[level.index("user")] >= 0
        number = np.zeros(len(known), np.int64)
        for column in columns:  # two columns at a time, so that products stay small
            value = np.unique(column, return_inverse=True)[1].astype(np.int64)
            number = np.unique(number * (int(value.max(initial=0)) + 1) + value, return_inverse=True)[1].astype(
                np.int64
            )
        found.append(np.where(known, number + first, -1))
        first += int(number.max(initial=-1)) + 1
    return np.ascontiguousarray(np.array(found, np.int32))


def _column(name: str, jobs: KnownJobs, past: Past | None) -> NDArray[np.float64]:
    """Return a column of both tables as numbers; names that the first one lacks are -2, which no job of it has."""
    if name in ("nodes", "walltime"):
        key = "walltime_s" if name == "walltime" else name
        own = np.asarray(getattr(jobs, key), np.float64)
        return own if past is None else np.concatenate((own, np.asarray(getattr(past.jobs, key), np.float64)))
    labels: Labels = getattr(jobs, name)
    own = labels.codes.astype(np.float64)
    if past is None:
        return own
    theirs: Labels = getattr(past.jobs, name)
    code = {text: i for i, text in enumerate(labels.names)}
    of_name = np.array([*(code.get(text, -2) for text in theirs.names), -1], np.float64)
    return np.concatenate((own, of_name[theirs.codes]))
