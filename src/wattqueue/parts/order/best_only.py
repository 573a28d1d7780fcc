"""Queue each job only on the partition that suits it best (the paper's "Base Slurm")."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.efficiency import choose, part_eff
from wattqueue.parts.order._entries import allowed, by_job, entries_of


class BestOnly:
    """One entry per job, on the partition of least part_eff among those where it may run; ties to the first.

    ``t_weight`` and ``reading`` as in ``efficiency.part_eff``. A job waits for its partition even if others are free.

    Reference: paper 1, section 5 (Base Slurm: submitted only to the optimal partition).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("partitions",)

    def __init__(self, *, t_weight: float = 1.0, reading: str = "text") -> None:
        self.t_weight, self.reading = t_weight, reading

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, at most one per job. Shapes (m,)."""
        best = choose(prediction, machine, "distance", self.t_weight, self.reading)
        efficiency = by_job(part_eff(best, self.t_weight, self.reading), prediction, len(jobs))
        good = allowed(jobs, prediction, machine)
        favoured = np.argmin(np.where(good, efficiency, np.inf), 1)
        only = favoured[:, np.newaxis] == np.arange(len(machine.partitions))
        return entries_of(np.zeros(good.shape), only & good)
