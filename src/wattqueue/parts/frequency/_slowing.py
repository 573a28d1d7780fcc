"""The two options of the fall-back DVFS: full speed, and the speed of slowed jobs during a load target."""

from __future__ import annotations

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.bounds import FREQUENCY_HZ
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Ints


class Slowing:
    """What parts share that slow jobs for a load target. Which jobs consent is rule 20 of docs/semantics.md.

    Args:
        frequency_hz: The frequency of a slowed job: the highest of its partition that is not above it. None: the lowest
            of the partition.

    Raises: PolicyError for a frequency outside its range.
    """

    def __init__(self, *, frequency_hz: float | None = None) -> None:
        if frequency_hz is not None:
            FREQUENCY_HZ.require(frequency_hz, "frequency_hz", where=type(self).__name__, kind=PolicyError)
        self.frequency_hz = frequency_hz

    def slow(self, entries: Entries, machine: Machine) -> Ints:
        """Return the option of a slowed job of each entry. Shape (m,)."""
        option = machine.option_start[1:].astype(np.int32) - 1
        for p, part in enumerate(machine.partitions):
            if self.frequency_hz is not None and len(part.frequencies_hz):
                below = np.flatnonzero(np.asarray(part.frequencies_hz) <= self.frequency_hz)
                option[p] = machine.option_start[p] + (int(below[0]) if len(below) else len(part.frequencies_hz) - 1)
        return option[entries.partition]
