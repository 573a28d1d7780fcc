"""The order that a site has settled in its resource manager: fair share, QOS, age and size, as Slurm computes them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import SITE_PRIORITY, Entries, Prediction
from wattqueue.parts.order._eligible import eligible


class SlurmPriority:
    """One entry for each partition that a job may use, with the priority that the site's Slurm gives it there.

    The live controller fills ``jobs.extra["site_priority"]``: higher first, ties by submission, as in Slurm. A
    workload without that column has no priorities, and the order is first come, first served, as in a Slurm whose
    weights are all 0.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("site-priorities",)
    site_priorities: ClassVar[bool] = True

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries. Shapes (m,). A job too wide for every partition has none."""
        job, partition = eligible(jobs, machine)
        stated = jobs.extra.get(SITE_PRIORITY)
        if stated is None:
            return Entries(job, partition, np.zeros(len(job)))
        table = np.asarray(stated, np.float64)
        return Entries(job, partition, table[job] if table.ndim == 1 else table[job, partition])
