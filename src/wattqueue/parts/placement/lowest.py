"""Take the free units with the lowest numbers, as Slurm's default does for equal nodes."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction


class Lowest:
    """Rank nothing: the kernels then take the lowest numbers, from a bitmap, without a table of ranks."""

    by_number: ClassVar[bool] = True

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return None: by number alone."""
        return None
