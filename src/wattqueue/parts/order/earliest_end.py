"""Order entries by another order's priorities, and those of one priority by submission plus requested time."""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Order, Prediction
from wattqueue.parts.oracles import is_oracle
from wattqueue.parts.order.fcfs import Fcfs

PER_SECOND = 1e-12
"""Priority of a second: priorities of ``inner`` that differ by more than 1e-4 keep their order over three years."""


class EarliestEnd:
    """Priorities of ``inner`` (default: ``fcfs``), less a little for each second of submission plus requested time.

    Among entries of one priority the one comes first whose user asked to be done first: short jobs overtake, and
    every job is overtaken by jobs of a bounded time only. It has no part in energy, so it serves as the base of
    orders that gain by letting short jobs overtake.
    """

    def __init__(self, *, inner: Order | None = None) -> None:
        self.inner: Order = Fcfs() if inner is None else inner

    @property
    def knows_future(self) -> bool:
        """Return whether the wrapped order is an oracle."""
        return is_oracle(self.inner)

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, those of ``inner`` with changed priorities. Shapes (m,)."""
        found = self.inner.entries(jobs, prediction, machine)
        done_s = np.nan_to_num(jobs.submit_s + jobs.walltime_s, nan=0.0, posinf=0.0, neginf=0.0)
        return Entries(found.job, found.partition, found.priority - PER_SECOND * done_s[found.job])
