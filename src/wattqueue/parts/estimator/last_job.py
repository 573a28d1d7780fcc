"""Predict the watts of the user's job that finished last: the simplest history, and a baseline for the others."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.parts.history import HistoryBase, LoopKernel
from wattqueue.parts.online import Completions, Target


class LastJob(HistoryBase):
    """Feature 7 of Table 1 as the prediction; a user without history is predicted as in ``HistoryMean``.

    Reference: paper 4, Table 1.
    """

    loop_kernel: ClassVar[LoopKernel] = "history"
    last_job = True

    def __init__(self, *, target: Target = "mean", completions: Completions = "simulated") -> None:
        super().__init__(target=target, completions=completions)
