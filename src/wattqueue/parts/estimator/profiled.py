"""Predict from a single profiling run: the first finished run of a user's application."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.contracts import Ints
from wattqueue.parts.online import Completions, OnlineBase, Target, measured
from wattqueue.parts.timeline import Timeline


class Profiled(OnlineBase):
    """Watts of the first measured run of the same (user, application).

    Until that run has ended, the unit's maximum. Jobs of one user without an application share one profile.
    """

    def __init__(self, *, target: Target = "mean", completions: Completions = "simulated") -> None:
        super().__init__(target=target, completions=completions)
        self._key: NDArray[np.int64] = np.zeros(0, np.int64)
        self._profile: Floats = np.zeros(0)

    def reset(self, jobs: KnownJobs) -> None:
        """Forget all profiles."""
        self._key, count = _keys(jobs)
        self._profile = np.full(count, np.nan)

    def watts(self, rows: Ints, now_s: float) -> Floats:
        """Return the profile of each job's (user, application), NaN where there is none yet. Shape (k,)."""
        return self._profile[self._key[rows]]

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        """Keep the first measured run of each (user, application). Shapes (k,)."""
        first = measured(watts) & np.isnan(self._profile[self._key[rows]])
        # Assigned in reverse, so that of two runs of one key in a batch the earlier one is written last and stays.
        self._profile[self._key[rows[first]][::-1]] = watts[first][::-1]

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Return each job's prediction at its submission: the first run, if it had ended by then. Shape (n,)."""
        # Reversed order of ends: the earliest run of each key is assigned last, and stays.
        key, count = _keys(KnownJobs.of(jobs))
        known = line.by_end[measured(watts)[line.by_end]][::-1]
        profile, since = np.full(count, np.nan), np.full(count, np.inf)
        profile[key[known]], since[key[known]] = watts[known], line.end_s[known]
        return np.where(since[key] <= jobs.submit_s, profile[key], np.nan)


def _keys(jobs: KnownJobs) -> tuple[NDArray[np.int64], int]:
    """Return a number for each job's (user, application), and how many there are."""
    pair = (jobs.user.codes.astype(np.int64) + 1) * (len(jobs.app.names) + 1) + jobs.app.codes + 1
    names, key = np.unique(pair, return_inverse=True)
    return key.astype(np.int64), len(names)
