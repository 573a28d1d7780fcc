"""EAMC-Reorder: jobs stay in order of arrival, each job's partitions are tried by part_eff."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.efficiency import choose, part_eff, positions
from wattqueue.parts.order._entries import allowed, by_job, entries_of


class Reorder:
    """Priority is minus the position in the list sorted by (submission, trace position, part_eff).

    ``t_weight`` and ``reading`` as in ``efficiency.part_eff``. All entries of an earlier job rank above those of a
    later one, so a job gives up its best partition as soon as a second choice is free.

    Reference: paper 1, section 4.2.1 (EAMC-Reorder).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("partitions",)

    def __init__(self, *, t_weight: float = 1.0, reading: str = "text") -> None:
        self.t_weight, self.reading = t_weight, reading

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, one per allowed partition. Shapes (m,)."""
        n, parts = len(jobs), len(machine.partitions)
        best = choose(prediction, machine, "distance", self.t_weight, self.reading)
        place = by_job(positions(part_eff(best, self.t_weight, self.reading)), prediction, n)
        # Priorities up to n x P: exact in float64 (2**53), and distinct, so later tie-breaks never apply.
        arrival = np.empty(n, np.int64)
        arrival[np.argsort(jobs.submit_s, kind="stable")] = np.arange(n)
        priority = -(arrival[:, np.newaxis] * parts + place).astype(np.float64)
        return entries_of(priority, allowed(jobs, prediction, machine))
