"""Every job runs at its partition's highest frequency."""

from __future__ import annotations

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Ints, Prediction


class Highest:
    """The first option of the entry's partition."""

    def window(self, entries: Entries, prediction: Prediction, machine: Machine) -> tuple[Ints, Ints]:
        """First and last option. Shapes (m,)."""
        first = machine.option_start[entries.partition]
        return first, first
