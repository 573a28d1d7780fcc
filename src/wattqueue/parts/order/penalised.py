"""Wrap another order and put some users' jobs behind all others: a consequence of repeated false claims."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Order, Prediction
from wattqueue.parts.oracles import is_oracle
from wattqueue.parts.order.fcfs import Fcfs


class Penalised:
    """Entries of ``inner`` (default: ``fcfs``); those of ``users`` rank below all others, in their own order.

    Reference: paper 1, section 3.4 (additional actions).
    """

    def __init__(self, *, inner: Order | None = None, users: Collection[str] = ()) -> None:
        self.inner: Order = Fcfs() if inner is None else inner
        self.users = frozenset(users)

    @property
    def knows_future(self) -> bool:
        """Return whether the wrapped order is an oracle."""
        return is_oracle(self.inner)

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, those of ``inner`` with changed priorities. Shapes (m,)."""
        found = self.inner.entries(jobs, prediction, machine)
        listed = np.array([*(name in self.users for name in jobs.user.names), False])
        behind = listed[jobs.user.codes][found.job]
        if not behind.any():
            return found
        # One more than the whole range: even their highest priority ends below everybody else's lowest.
        span = float(np.ptp(found.priority)) + 1.0
        return Entries(found.job, found.partition, found.priority - span * behind)
