"""Another order, with some users' jobs behind everybody else's: a consequence of repeated misfits."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Order, Prediction
from wattqueue.parts.order.fcfs import Fcfs


class Penalised:
    """Entries of ``inner``; those of the named users rank below the lowest of all others, in their own order.

    Reference: paper 1, section 3.4 (additional actions).
    """

    def __init__(self, *, inner: Order | None = None, users: Collection[str] = ()) -> None:
        self.inner: Order = Fcfs() if inner is None else inner
        self.users = frozenset(users)

    def entries(self, jobs: Jobs, prediction: Prediction, machine: Machine) -> Entries:
        found = self.inner.entries(jobs, prediction, machine)
        listed = np.array([*(name in self.users for name in jobs.user.names), False])
        behind = listed[jobs.user.codes][found.job]
        if not behind.any():
            return found
        span = float(np.ptp(found.priority)) + 1.0
        return Entries(found.job, found.partition, found.priority - span * behind)
