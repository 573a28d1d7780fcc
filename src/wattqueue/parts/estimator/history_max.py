"""Time-weighted mean of the highest watts of the user's finished jobs."""

from __future__ import annotations

import math
from typing import ClassVar

from wattqueue.parts.history import HistoryBase, LoopKernel
from wattqueue.parts.online import Completions


class HistoryMax(HistoryBase):
    """Predict a job's highest watts; a finished job whose maximum is unknown is learned with its mean.

    ``alpha``, ``window_s`` and ``completions`` as in ``HistoryMean``.

    Reference: paper 4, eq. 1-3 and section 6.2.
    """

    loop_kernel: ClassVar[LoopKernel] = "history"

    def __init__(
        self, *, alpha: float = 2.0, window_s: float = math.inf, completions: Completions = "simulated"
    ) -> None:
        super().__init__(target="max", alpha=alpha, window_s=window_s, completions=completions)
