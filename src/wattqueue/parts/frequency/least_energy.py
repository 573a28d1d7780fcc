"""Run each entry at the frequency at which its job uses the least energy."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency._fixed import fixed_window


class LeastEnergy:
    """One option: that of the least predicted energy on the entry's partition, ties to the highest frequency.

    Reference: paper 1, section 5 (Min_energy).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks",)

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry, equal numbers. Shapes (m,)."""
        return fixed_window(entries, prediction, machine, "energy")
