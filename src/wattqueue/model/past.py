"""What ended before a run begins: the memory that an estimator may start with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs, Labels


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Jobs that have ended, in order of their ends. ``end_s`` (n,) on the trace's clock.

    Raises: InputError for ends that fall, or are not one a job.
    """

    jobs: Jobs
    end_s: Floats

    def __post_init__(self) -> None:
        if len(self.end_s) != len(self.jobs):
            raise InputError(f"a past of {len(self.jobs)} jobs with {len(self.end_s)} ends")
        if not np.isfinite(self.end_s).all() or (np.diff(self.end_s) < 0).any():
            raise InputError("the ends of a past must be finite and must not fall", mend="use Past.before()")

    def __len__(self) -> int:
        return len(self.end_s)

    @classmethod
    def before(cls, jobs: Jobs, end_s: Floats, now_s: float) -> Self:
        """The jobs of a replayed trace that had ended by ``now_s``; NaN ends never did. Shapes (n,)."""
        order = np.argsort(end_s, kind="stable")
        rows = order[: int(np.searchsorted(end_s[order], now_s, side="right"))]
        return cls(jobs.take(rows), end_s[rows])

    def user_codes(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        """The users by their places in ``names``; -1 for those that are not there. Shape (n,)."""
        return _codes(self.jobs.user, names)

    def app_codes(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        """The applications by their places in ``names``; -1 for those that are not there. Shape (n,)."""
        return _codes(self.jobs.app, names)


def _codes(column: Labels, names: tuple[str, ...]) -> NDArray[np.int32]:
    if column.names == names:
        return column.codes
    place = {name: i for i, name in enumerate(names)}
    found = np.array([*(place.get(name, -1) for name in column.names), -1], np.int32)
    codes: NDArray[np.int32] = found[column.codes]
    return codes
