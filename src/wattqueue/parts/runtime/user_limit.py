"""The user's limit: nothing is predicted, plans use the requested times."""

from __future__ import annotations

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Correction


class UserLimit:
    """Plan every job at its walltime, which no job outlives: it is killed there.

    Reference: rule 3 of docs/semantics.md.
    """

    asked: Asked = "once"
    correction: Correction | None = None

    def seconds(self, jobs: KnownJobs, machine: Machine) -> None:
        """Return None: the planned times are the walltimes."""
