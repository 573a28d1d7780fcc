"""EAMC's frequency: the best compromise between energy and run time."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.efficiency import check
from wattqueue.parts.frequency._fixed import fixed_window


class LeastDistance:
    """One option: that of the least (E/E_min)^2 + t_weight (t/t_min)^2 on the entry's partition.

    ``t_weight`` above 1 favours run time, below 1 energy (the paper uses 1 and 1.5). ``reading`` is ``text`` or
    ``published-code`` (``parts/efficiency.py``).

    Raises: PolicyError for a weight that is not positive, or an unknown reading.
    Reference: paper 1, eq. 4.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks",)

    def __init__(self, *, t_weight: float = 1.0, reading: str = "text") -> None:
        check(t_weight, reading)
        self.t_weight, self.reading = t_weight, reading

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry, equal numbers. Shapes (m,)."""
        return fixed_window(entries, prediction, machine, "distance", self.t_weight, self.reading)
