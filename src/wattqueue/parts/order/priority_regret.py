"""Order entries by regret: how much worse their partition suits the job than its best one does."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.efficiency import check, choose, part_eff
from wattqueue.parts.order._entries import allowed, by_job, entries_of


class PriorityRegret:
    """Priority is minus part_eff over the job's best: PriorityInc with degrees instead of steps.

    A second choice that costs 4 % ranks above one that costs 33 %, so the free nodes of a partition
    go to the jobs that lose least there.

    Beyond paper 1 (sections 4.1 and 4.2.1). Raises: PolicyError for a weight that is not positive.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("partitions",)

    def __init__(self, *, t_weight: float = 1.0) -> None:
        check(t_weight, "text")
        self.t_weight = t_weight

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, one per allowed partition. Shapes (m,)."""
        efficiency = part_eff(choose(prediction, machine, "distance", self.t_weight), self.t_weight)
        least = np.min(efficiency, 1, keepdims=True, initial=np.inf)
        with np.errstate(invalid="ignore"):
            regret = np.where(np.isfinite(efficiency), efficiency / least, 0.0)
        return entries_of(-by_job(regret, prediction, len(jobs)), allowed(jobs, prediction, machine))
