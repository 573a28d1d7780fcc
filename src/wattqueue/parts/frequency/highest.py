"""Run every job at its partition's highest frequency, the reference speed."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction


class Highest:
    """One option: the first of the entry's partition."""

    highest_only: ClassVar[bool] = True

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option, equal numbers. Shapes (m,)."""
        first = machine.option_start[entries.partition]
        return first, first
