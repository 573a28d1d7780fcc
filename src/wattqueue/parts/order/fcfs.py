"""First come, first served: every partition that a job may use, all priorities equal."""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.order._eligible import eligible


class Fcfs:
    """One entry for each partition that is wide enough, in the order of submission."""

    def entries(self, jobs: Jobs, prediction: Prediction, machine: Machine) -> Entries:
        """Shapes (m,). Jobs without an entry could never run."""
        job, partition = eligible(jobs, machine)
        return Entries(job, partition, np.zeros(len(job)))
