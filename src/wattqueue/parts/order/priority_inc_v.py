"""EAMC-PriorityInc-V: as PriorityInc, with partitions that suit the job badly behind all others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Floats, Prediction
from wattqueue.parts.efficiency import choose, part_eff, positions
from wattqueue.parts.order._entries import allowed, by_job, entries_of

DISTANCES = ("relative", "absolute")


class PriorityIncV:
    """Priority is minus the position; an entry worse than the job's best by the threshold ranks below all others.

    "35 % from the optimal part_eff" is read as ``relative`` (default): part_eff at least 1.35 times
    the best. The published code compares ``absolute`` costs: at least 0.35 above the best.

    Raises: PolicyError for an unknown distance or a threshold that is not positive.
    Reference: paper 1, section 4.2.1 (EAMC-PriorityInc-V).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("partitions",)

    def __init__(
        self, *, t_weight: float = 1.0, reading: str = "text", threshold: float = 0.35, distance: str = "relative"
    ) -> None:
        if distance not in DISTANCES:
            raise PolicyError(
                f"is {distance!r}", where="priority_inc_v: distance", hint=f"use {' or '.join(DISTANCES)}"
            )
        if not threshold > 0:
            raise PolicyError(
                f"is {threshold}", where="priority_inc_v: threshold", hint="use a positive number, 0.35 in the paper"
            )
        self.t_weight, self.reading, self.threshold, self.distance = t_weight, reading, threshold, distance

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, one per allowed partition. Shapes (m,)."""
        best = choose(prediction, machine, "distance", self.t_weight, self.reading)
        efficiency = part_eff(best, self.t_weight, self.reading)
        priority = -positions(efficiency).astype(np.float64)
        # Positions are 0 to P - 1, so -P is below every one of them: optimal entries first, then second choices, and
        # finally all beyond the threshold.
        priority[self.beyond(efficiency)] = -float(len(machine.partitions))
        return entries_of(by_job(priority, prediction, len(jobs)), allowed(jobs, prediction, machine))

    def beyond(self, efficiency: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return which entries suit the job worse than its best one by the threshold or more. Shape as given."""
        optimum = np.min(efficiency, 1, keepdims=True, initial=np.inf)
        with np.errstate(invalid="ignore"):
            excess = efficiency - optimum if self.distance == "absolute" else efficiency / optimum - 1.0
        bad: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = excess >= self.threshold
        return bad
