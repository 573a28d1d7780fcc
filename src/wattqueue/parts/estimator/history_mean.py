"""Time-weighted mean of the mean watts of the user's finished jobs: paper 4's light-weight predictor."""

from __future__ import annotations

import math
from typing import ClassVar

from wattqueue.parts.history import HistoryBase, LoopKernel
from wattqueue.parts.online import Completions


class HistoryMean(HistoryBase):
    """Predict a job's mean watts from the finished jobs of its user.

    ``alpha``: exponent of the weight of older jobs (2 in the paper). ``window_s``: greatest age of a job that counts;
    inf for the whole history, as in the paper. ``completions``: ends that count (``_online.Completions``).

    Reference: paper 4, eq. 1-3 and section 6.2.
    """

    loop_kernel: ClassVar[LoopKernel] = "history"

    def __init__(
        self, *, alpha: float = 2.0, window_s: float = math.inf, completions: Completions = "simulated"
    ) -> None:
        super().__init__(target="mean", alpha=alpha, window_s=window_s, completions=completions)
