"""EAMC-PriorityInc: entries on a job's best partition rank above all second choices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.efficiency import choose, part_eff, positions
from wattqueue.parts.order._entries import allowed, by_job, entries_of


class PriorityInc:
    """Priority is minus the position of the partition in the job's list sorted by part_eff (0 is the best).

    ``t_weight`` and ``reading`` as in ``efficiency.part_eff``. With P partitions there are P priorities, so submission
    order decides between jobs of the same choice.

    Reference: paper 1, section 4.2.1 (EAMC-PriorityInc).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("partitions",)

    def __init__(self, *, t_weight: float = 1.0, reading: str = "text") -> None:
        self.t_weight, self.reading = t_weight, reading

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, one per allowed partition. Shapes (m,)."""
        best = choose(prediction, machine, "distance", self.t_weight, self.reading)
        place = by_job(positions(part_eff(best, self.t_weight, self.reading)), prediction, len(jobs))
        return entries_of(-place.astype(np.float64), allowed(jobs, prediction, machine))
