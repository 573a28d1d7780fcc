"""The mean of the user's last two run times."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.parts.contracts import Correction
from wattqueue.parts.recent_runs import RecentBase


class LastTwo(RecentBase):
    """Plan a job at the mean run time of the last two jobs of its user that have ended, at most at its walltime.

    A user with fewer than two has the walltime. A job that outlives its planned time is planned at its walltime from
    then on (``correction``: in steps of 1, 5, 15 and 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours beyond the
    prediction, as published; or at the walltime from its start).

    Reference: Tsafrir, Etsion and Feitelson, Backfilling using system-generated predictions rather than user runtime
    estimates, IEEE TPDS 18(6), 2007. The steps are those of published simulators, the text itself was not at hand.
    """

    in_loop: ClassVar[bool] = True

    def __init__(self, *, correction: Correction = "limit") -> None:
        super().__init__(alike=("user",), jobs=2, fewest=2, at=None, correction=correction)
