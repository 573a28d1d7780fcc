"""Time-weighted mean of the mean watts of the user's finished jobs: paper 4's light-weight predictor."""

from __future__ import annotations

import math

from wattqueue.parts.estimator._history import HistoryBase
from wattqueue.parts.estimator._online import Completions


class HistoryMean(HistoryBase):
    """Predicts a job's mean watts; by default alpha 2 and the whole history, as the paper.

    Reference: paper 4, eq. 1-3 and section 6.2.
    """

    def __init__(
        self, *, alpha: float = 2.0, window_s: float = math.inf, completions: Completions = "simulated"
    ) -> None:
        super().__init__(target="mean", alpha=alpha, window_s=window_s, completions=completions)
