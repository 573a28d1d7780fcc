"""First come, first served: every partition that a job may use, all priorities equal (rule 5)."""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.order._eligible import eligible


class Fcfs:
    """One entry for each partition that is wide enough; submission order decides, then the order of partitions."""

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, all of priority 0. Shapes (m,). A job too wide for every partition has none."""
        job, partition = eligible(jobs, machine)
        return Entries(job, partition, np.zeros(len(job)))
