"""Time-weighted mean of the mean watts of the user's finished jobs of the same application."""

from __future__ import annotations

from wattqueue.parts.estimator._history import HistoryBase
from wattqueue.parts.estimator._online import Completions


class AppMean(HistoryBase):
    """HistoryMean over the user's jobs of the same application; where there are none, over all of his.

    An application is what ``Jobs.app`` says at submission: a job's name, or its executable.

    Reference: beyond paper 4, whose eq. 1-3 it takes for narrower groups of jobs.
    """

    by_app = True

    def __init__(self, *, alpha: float = 2.0, completions: Completions = "simulated") -> None:
        super().__init__(target="mean", alpha=alpha, completions=completions)
