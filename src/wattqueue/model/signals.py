"""Signals from outside, piecewise constant on the trace's clock: the power cap, prices, carbon intensity.

A row holds from its time to the next row's; before the first row its value holds too (rule 1 of docs/semantics.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """A power cap, piecewise constant. Shapes (k,), k >= 1.

    Raises: InputError for times that do not rise, or watts that are negative or NaN.
    """

    time_s: Floats
    """Start of each row in seconds, rising. A constant cap starts at -inf."""
    cap_w: Floats
    """Watts from there on, in the machine's cap scope; ``inf`` means no cap."""

    def __post_init__(self) -> None:
        if len(self.time_s) == 0 or len(self.time_s) != len(self.cap_w):
            raise InputError("needs at least one row and equal columns", where="cap")
        # The first row may begin at minus infinity: a constant cap has no start.
        first = 1 if self.time_s[0] == -np.inf else 0
        bounds.TIME_S.require_column(self.time_s[first:], "time_s", where="cap")
        if (np.diff(self.time_s) <= 0).any():
            raise InputError("times must rise from row to row", where="cap", hint="sort the rows, each time once")
        bounds.CAP_W.require_column(self.cap_w[self.cap_w != np.inf], "cap_w", where="cap")

    @classmethod
    def constant(cls, cap_w: float) -> Cap:
        """Return a cap of one value for all time."""
        return cls(np.array([-np.inf]), np.array([cap_w], np.float64))

    @classmethod
    def none(cls) -> Cap:
        """Return the cap that limits nothing."""
        return cls.constant(np.inf)

    @property
    def limited(self) -> bool:
        """Return whether any value is finite."""
        return bool(np.isfinite(self.cap_w).any())

    def at(self, time_s: Floats) -> Floats:
        """Return the watts in force at each time. Shape as ``time_s``."""
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        return self.cap_w[np.maximum(row, 0)]

    def highest_from(self, time_s: Floats) -> Floats:
        """Return the highest watts in force at or after each time. Shape as ``time_s``.

        A job that exceeds them can never run under this cap (rule 4).
        """
        rest: NDArray[np.float64] = np.maximum.accumulate(self.cap_w[::-1])[::-1]
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        return rest[np.maximum(row, 0)]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Any other signal, piecewise constant. Shapes (k,), k >= 1.

    Raises: InputError for times that do not rise, or figures that are not finite.
    """

    time_s: Floats
    """Start of each row in seconds, rising."""
    value: Floats
    """Value from there on, in the signal's own unit (EUR/MWh, gCO2/kWh)."""

    def __post_init__(self) -> None:
        if len(self.time_s) == 0 or len(self.time_s) != len(self.value):
            raise InputError("needs at least one row and equal columns", where="series")
        bounds.TIME_S.require_column(self.time_s, "time_s", where="series")
        if (np.diff(self.time_s) <= 0).any():
            raise InputError("times must rise from row to row", where="series", hint="sort the rows, each time once")
        bounds.SIGNAL.require_column(self.value, "value", where="series")

    def at(self, time_s: Floats) -> Floats:
        """Return the value in force at each time. Shape as ``time_s``."""
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        return self.value[np.maximum(row, 0)]
