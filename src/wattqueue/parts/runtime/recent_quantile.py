"""A quantile of the run times of the last jobs that are alike: by default the user's."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.parts.contracts import Correction
from wattqueue.parts.recent_runs import RecentBase


class RecentQuantile(RecentBase):
    """Plan a job at the quantile ``at`` of the last ``jobs`` run times of a group of jobs that are alike.

    ``alike`` names the groups, the narrowest first: each is a list of columns (``user``, ``app``, ``nodes``,
    ``walltime``, ``partition``) that must be equal, separated by blanks. The first group with at least ``fewest`` jobs
    that have ended answers; without one, the job is planned at its walltime. The quantile is linear between run times.

    The default correction, ``start``, lets the prediction decide which job may start and in which order, and plans a
    job that runs at its walltime: the reservation is late rather than early, and jobs that are shorter than requested
    fill the time before it.

    Raises: PolicyError for options out of range, or an unknown column.

    Reference: beyond the papers; the settings were chosen on the first half of KTH-SP2 (docs/runtimes-study.md).
    """

    in_loop: ClassVar[bool] = True

    def __init__(
        self,
        *,
        at: float = 0.75,
        jobs: int = 10,
        fewest: int = 2,
        alike: tuple[str, ...] = ("user",),
        correction: Correction = "start",
    ) -> None:
        super().__init__(alike=tuple(alike), jobs=jobs, fewest=fewest, at=at, correction=correction)
