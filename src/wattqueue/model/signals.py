"""Signals from outside, piecewise constant on the trace's clock: the power cap, prices, carbon intensity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Cap:
    """A power cap, piecewise constant.

    ``cap_w[i]`` holds from ``time_s[i]`` to the next row; before the first row its first value
    holds. ``inf`` means no cap. Shapes (k,), k >= 1; seconds, watts.

    Raises: InputError for times that do not rise, or watts that are negative or NaN.
    """

    time_s: Floats
    cap_w: Floats

    def __post_init__(self) -> None:
        if len(self.time_s) == 0 or len(self.time_s) != len(self.cap_w):
            raise InputError("a cap needs at least one row and equal columns")
        if not np.isfinite(self.time_s[1:]).all() or (np.diff(self.time_s) <= 0).any():
            raise InputError("cap times must be finite and rise from row to row")
        if np.isnan(self.cap_w).any() or (self.cap_w < 0).any():
            raise InputError("cap watts must be 0 or more")

    @classmethod
    def constant(cls, cap_w: float) -> Cap:
        """One value for all time."""
        return cls(np.array([-np.inf]), np.array([cap_w], np.float64))

    @classmethod
    def none(cls) -> Cap:
        """No cap."""
        return cls.constant(np.inf)

    @property
    def limited(self) -> bool:
        """Whether any value is finite."""
        return bool(np.isfinite(self.cap_w).any())

    def at(self, time_s: Floats) -> Floats:
        """Watts in force at each time. Shape as ``time_s``."""
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        return self.cap_w[np.maximum(row, 0)]

    def highest_from(self, time_s: Floats) -> Floats:
        """Highest watts in force at or after each time. Shape as ``time_s``."""
        rest: NDArray[np.float64] = np.maximum.accumulate(self.cap_w[::-1])[::-1]
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        return rest[np.maximum(row, 0)]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A signal, piecewise constant: ``value[i]`` holds from ``time_s[i]`` to the next row.

    Before the first row its first value holds. Shapes (k,), k >= 1; seconds, and the signal's own unit.

    Raises: InputError for times that do not rise, or figures that are not finite.
    """

    time_s: Floats
    value: Floats

    def __post_init__(self) -> None:
        if len(self.time_s) == 0 or len(self.time_s) != len(self.value):
            raise InputError("a series needs at least one row and equal columns")
        if not np.isfinite(self.time_s).all() or (np.diff(self.time_s) <= 0).any():
            raise InputError("times of a series must be finite and rise from row to row")
        if not np.isfinite(self.value).all():
            raise InputError("values of a series must be finite")

    def at(self, time_s: Floats) -> Floats:
        """The value in force at each time. Shape as ``time_s``."""
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        return self.value[np.maximum(row, 0)]
