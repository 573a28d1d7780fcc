"""Take free units such that the racks keep about as many watts for each unit that stays free."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction
from wattqueue.parts.placement.lowest import checked_racks


class WattBalanced:
    """Level watts a free unit over racks: hot jobs take from racks with many, the others from those with few.

    Where limits of racks are tight, this leaves fewer watts stranded than the lowest units do: watts that the limits
    above allow, and that no free unit may draw. It takes more racks a job. ``racks`` bounds these, where so many hold
    the job; 0 for no bound. Without power domains that can hold jobs back it is ``lowest``.

    Raises: PolicyError for a number of racks below 0.
    """

    by_number: ClassVar[bool] = True
    levels_watts: ClassVar[bool] = True

    def __init__(self, *, racks: int = 0) -> None:
        self.racks = checked_racks(racks)

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return None: kernels level watts (``kernels/supply_placement.py``)."""
        return None
