"""EAMC under a cap: the frequency of eq. 4, or the next lower one for which the cap has room."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.efficiency import check
from wattqueue.parts.frequency._fixed import fixed_window


class LeastDistanceOrLower:
    """A window from eq. 4's option down to that of least energy (or itself, if that is higher).

    Below the frequency of least energy a job takes longer and uses more energy, so the window ends there. It also
    ends above the first frequency that is not offered, because a window is a contiguous range.

    Beyond paper 1, which names power caps as future work (section 6).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks",)

    def __init__(self, *, t_weight: float = 1.0) -> None:
        check(t_weight, "text")
        self.t_weight = t_weight

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry. Shapes (m,)."""
        first, _ = fixed_window(entries, prediction, machine, "distance", self.t_weight)
        cheapest, _ = fixed_window(entries, prediction, machine, "energy")
        last = np.maximum(first, cheapest)
        # Options count downwards in frequency, so a larger number is a lower one; the window ends before the first gap.
        options = np.arange(prediction.power_w.shape[1])
        gap = ~np.isfinite(prediction.power_w[prediction.rows(entries.job)]) & (options > first[:, np.newaxis])
        before_gap = np.where(gap.any(1), np.argmax(gap, 1) - 1, options[-1])
        return first, np.minimum(last, before_gap).astype(np.int32)
