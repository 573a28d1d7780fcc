"""Queue each job on every partition where it may run, all with one priority: first specified, first tried."""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.order._entries import allowed, entries_of


class AllPartitions:
    """One entry per job and partition, all of priority 0, so that arrival decides, then the order of partitions.

    Reference: paper 1, section 5 (Min_runtime, Min_energy).
    """

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, all priorities 0. Shapes (m,)."""
        good = allowed(jobs, prediction, machine)
        return entries_of(np.zeros(good.shape), good)
