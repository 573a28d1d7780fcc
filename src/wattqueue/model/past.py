"""Jobs that ended before a run begins: the history that an online estimator may start with.

A run over the second half of a trace, or a live start on a cluster with accounting data, would otherwise predict its
first jobs without any history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats, Jobs, Labels


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Jobs that have ended, in order of their ends.

    Raises: InputError for ends that fall, are not finite, or are not one per job.
    """

    jobs: Jobs
    end_s: Floats
    """End of each job on the trace's clock, not falling. Shape (n,)."""

    def __post_init__(self) -> None:
        if len(self.end_s) != len(self.jobs):
            raise InputError(f"{len(self.jobs)} jobs with {len(self.end_s)} ends", where="past")
        bounds.TIME_S.require_column(self.end_s, "end_s", where="past")
        if (np.diff(self.end_s) < 0).any():
            raise InputError("ends must not fall", where="past", hint="use Past.before()")

    def __len__(self) -> int:
        return len(self.end_s)

    @classmethod
    def before(cls, jobs: Jobs, end_s: Floats, now_s: float) -> Self:
        """Return the jobs of a replayed trace that had ended by ``now_s``; NaN ends never did. Shapes (n,)."""
        order = np.argsort(end_s, kind="stable")
        rows = order[: int(np.searchsorted(end_s[order], now_s, side="right"))]
        return cls(jobs.take(rows), end_s[rows])

    def user_codes(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        """Return each job's user as an index into ``names`` of another table; -1 where it is not there. Shape (n,)."""
        return _codes(self.jobs.user, names)

    def app_codes(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        """Return each job's application as an index into ``names``; -1 where it is not there. Shape (n,)."""
        return _codes(self.jobs.app, names)


def _codes(column: Labels, names: tuple[str, ...]) -> NDArray[np.int32]:
    """Translate the codes of a column to those of other names, by name."""
    if column.names == names:
        return column.codes
    place = {name: i for i, name in enumerate(names)}
    found = np.array([*(place.get(name, -1) for name in column.names), -1], np.int32)
    codes: NDArray[np.int32] = found[column.codes]
    return codes
