"""The watts of the user's job that finished last."""

from __future__ import annotations

from wattqueue.parts.estimator._history import HistoryBase
from wattqueue.parts.estimator._online import Completions, Target


class LastJob(HistoryBase):
    """Feature 7 of Table 1 taken as the prediction; without history, as HistoryMean does.

    Reference: paper 4, Table 1.
    """

    column = 2

    def __init__(self, *, target: Target = "mean", completions: Completions = "simulated") -> None:
        super().__init__(target=target, completions=completions)
