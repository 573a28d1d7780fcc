"""Time-weighted mean of the greatest watts of the user's finished jobs."""

from __future__ import annotations

import math

from wattqueue.parts.estimator._history import HistoryBase
from wattqueue.parts.estimator._online import Completions


class HistoryMax(HistoryBase):
    """Predicts a job's greatest watts; a finished job whose maximum is unknown teaches its mean.

    Reference: paper 4, eq. 1-3 and section 6.2.
    """

    def __init__(
        self, *, alpha: float = 2.0, window_s: float = math.inf, completions: Completions = "simulated"
    ) -> None:
        super().__init__(target="max", alpha=alpha, window_s=window_s, completions=completions)
