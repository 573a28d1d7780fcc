"""The run times of the trace: an oracle, for what perfect prediction would give."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Correction
from wattqueue.parts.correction import checked_correction


class TrueRuntime:
    """Plan every job at the run time that it will have.

    Raises: PolicyError for an unknown correction.
    """

    asked: Asked = "once"
    knows_future: ClassVar[bool] = True

    def __init__(self, *, correction: Correction = "limit") -> None:
        self.correction = checked_correction(correction)

    def seconds(self, jobs: KnownJobs, machine: Machine) -> Floats:
        """Return the run times of the trace in seconds. Shape (n,)."""
        return jobs.truth.runtime_s
