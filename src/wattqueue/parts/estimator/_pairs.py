"""Numbers for pairs of (user, application), in a job table and in an earlier one (``Past``).

A history per pair needs one array index per job; two tables number their users and applications differently, so the
past is translated by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs, Past


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs of a job table.

    Jobs without a user have no pair; those of one user without an application share one.
    """

    code: NDArray[np.int32]
    """Pair of each job, -1 for none. Shape (n,)."""
    known: NDArray[np.int64]
    """Joined number of each pair, sorted, so that it can be searched. Shape (pairs,)."""
    users: tuple[str, ...]
    apps: tuple[str, ...]

    @classmethod
    def of(cls, jobs: KnownJobs) -> Self:
        """Number the pairs of all jobs of a table."""
        pair = _joined(jobs.user.codes, jobs.app.codes, len(jobs.app.names))
        known, code = np.unique(pair, return_inverse=True)
        code = np.where(jobs.user.codes < 0, -1, code)
        return cls(np.asarray(code, np.int32), known, jobs.user.names, jobs.app.names)

    def of_past(self, past: Past) -> NDArray[np.int32]:
        """Return the same numbers for jobs of a past; -1 for pairs that the table does not have. Shape (k,)."""
        user, app = past.user_codes(self.users), past.app_codes(self.apps)
        lost = (user < 0) | ((app < 0) & (past.jobs.app.codes >= 0))
        pair = _joined(user, app, len(self.apps))
        place = np.minimum(np.searchsorted(self.known, pair), max(len(self.known) - 1, 0))
        found = ~lost & (self.known[place] == pair) if len(self.known) else np.zeros(len(pair), np.bool_)
        codes: NDArray[np.int32] = np.where(found, place, -1).astype(np.int32)
        return codes


def _joined(user: NDArray[np.int32], app: NDArray[np.int32], apps: int) -> NDArray[np.int64]:
    """Return one number for each (user, application); -1 (missing) is a value like any other, hence the + 1."""
    pair: NDArray[np.int64] = (user.astype(np.int64) + 1) * (apps + 1) + app + 1
    return pair
