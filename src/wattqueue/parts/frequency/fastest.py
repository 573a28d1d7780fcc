"""Run each entry at the frequency at which its job ends soonest.

That is not always the highest: memory-bound applications can peak below it (STREAM on p1 in paper 1, Table 1).
"""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency._fixed import fixed_window


class Fastest:
    """One option: that of the least predicted run time on the entry's partition, ties to the highest frequency.

    Reference: paper 1, section 5 (Min_runtime).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks",)

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry, equal numbers. Shapes (m,)."""
        return fixed_window(entries, prediction, machine, "time")
