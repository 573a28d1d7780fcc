"""The free units with the lowest numbers."""

from __future__ import annotations

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction


class Lowest:
    """No ranking: kernels take the lowest numbers."""

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """None: lowest number."""
        return None
