"""Time-weighted mean of the mean watts of the user's finished jobs of the same application."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.parts.history import HistoryBase, LoopKernel
from wattqueue.parts.online import Completions


class AppMean(HistoryBase):
    """HistoryMean over the user's jobs of the same application; where there are none, over all of the user's jobs.

    An application is the value of ``Jobs.app`` at submission: a job's name, or its executable.

    Reference: beyond paper 4; its eq. 1-3 applied to narrower groups of jobs.
    """

    loop_kernel: ClassVar[LoopKernel] = "history"
    by_app = True

    def __init__(self, *, alpha: float = 2.0, completions: Completions = "simulated") -> None:
        super().__init__(target="mean", alpha=alpha, completions=completions)
