"""A quantile of a job's mean watts from its user's history: the weighted mean plus a multiple of the spread."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import ClassVar

from wattqueue.errors import PolicyError
from wattqueue.parts.history import HistoryBase, LoopKernel
from wattqueue.parts.online import Completions


class HistoryQuantile(HistoryBase):
    """Watts that a job's mean stays below with probability ``at`` if errors are normal: eq. 1 + z sd.

    The standard deviation is that of the user's finished jobs (Table 1, feature 6), at least ``least`` of the
    prediction, because two jobs can be equal by chance. A user without history gets the unit's maximum.

    Raises: PolicyError for an ``at`` outside [0.5, 1), or a negative ``least``.

    Reference: beyond paper 4.
    """

    loop_kernel: ClassVar[LoopKernel] = "history"

    def __init__(
        self,
        *,
        at: float = 0.99,
        least: float = 0.05,
        alpha: float = 2.0,
        completions: Completions = "simulated",
    ) -> None:
        super().__init__(target="mean", alpha=alpha, completions=completions)
        if not (0.5 <= at < 1.0 and 0.0 <= least < math.inf):
            raise PolicyError(
                f"{at=}, {least=}", where="at, least", hint="use a probability of 0.5 to below 1, and a share"
            )
        self.at, self.least_spread = at, least
        self.spreads = NormalDist().inv_cdf(at)
