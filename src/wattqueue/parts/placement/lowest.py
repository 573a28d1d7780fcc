"""Take the free units with the lowest numbers, as Slurm's default does for equal nodes."""

from __future__ import annotations

from typing import ClassVar

from wattqueue.errors import PolicyError
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction


class Lowest:
    """Rank nothing: the kernels then take the lowest numbers, from a bitmap, without a table of ranks.

    ``racks``: where power domains can hold jobs back, from no more racks than these, if so many hold the job; 0 for no
    bound.

    Raises: PolicyError for a number of racks below 0.
    """

    by_number: ClassVar[bool] = True

    def __init__(self, *, racks: int = 0) -> None:
        self.racks = checked_racks(racks)

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return None: by number alone."""
        return None


def checked_racks(racks: object) -> int:
    """Return a bound on the racks of a job, 0 for none. Raises: PolicyError for one that is no such number."""
    if not isinstance(racks, int) or not 0 <= racks < 1 << 31:
        raise PolicyError(f"racks is {racks!r}", where="placement", hint="a whole number from 1 on, or 0 for no bound")
    return racks
