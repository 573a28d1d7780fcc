"""Signals from outside, as step series on the trace's clock: the power cap, prices, carbon intensity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.jobs import Floats
from wattqueue.model.steps import Steps, rows_at


@dataclass(frozen=True, slots=True, eq=False)
class Cap(Steps):
    """A power cap in watts of the machine's cap scope; ``inf`` means no cap. A constant cap starts at -inf.

    Raises: InputError for times that do not rise, or watts that are negative or NaN.
    """

    def __post_init__(self) -> None:
        _require_rising(self, "cap")
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
    def cap_w(self) -> Floats:
        """Return the watts of each row. Shape (k,)."""
        return self.value

    @property
    def limited(self) -> bool:
        """Return whether any value is finite."""
        return bool(np.isfinite(self.cap_w).any())

    def highest_from(self, time_s: Floats) -> Floats:
        """Return the highest watts in force at or after each time. Shape as ``time_s``.

        A job that exceeds them can never run under this cap (rule 4).
        """
        rest: NDArray[np.float64] = np.maximum.accumulate(self.cap_w[::-1])[::-1]
        return rest[rows_at(self.time_s, time_s)]


@dataclass(frozen=True, slots=True, eq=False)
class Series(Steps):
    """Any other signal, in its own unit (EUR/MWh, gCO2/kWh).

    Raises: InputError for times that do not rise, or figures that are not finite.
    """

    def __post_init__(self) -> None:
        _require_rising(self, "series")
        bounds.SIGNAL.require_column(self.value, "value", where="series")


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """What has been announced from outside, on the clock of the jobs: rows of the future among them.

    The rows of a cap are announced together: in a simulation before it begins, live when the cap's file is read.
    """

    cap: Cap
    """The cap, in watts of the machine's cap scope."""

    def caps_after(self, now_s: float) -> tuple[Floats, Floats]:
        """Return the caps that come into force after an instant: when, in seconds, and their watts. Shapes (k,)."""
        first = int(np.searchsorted(self.cap.time_s, now_s, side="right"))
        return self.cap.time_s[first:], self.cap.cap_w[first:]

    def from_time(self, now_s: float) -> Signals:
        """Return what is in force at an instant and what comes after it."""
        row = int(rows_at(self.cap.time_s, np.array([now_s]))[0])
        return self if row == 0 else Signals(Cap(self.cap.time_s[row:], self.cap.cap_w[row:]))


def _require_rising(steps: Steps, where: str) -> None:
    """Raise InputError unless there are rows, each later than the one before."""
    if len(steps.time_s) == 0 or len(steps.time_s) != len(steps.value):
        raise InputError("needs at least one row and equal columns", where=where)
    # The first row of a cap may begin at minus infinity: a constant cap has no start.
    first = 1 if isinstance(steps, Cap) and steps.time_s[0] == -np.inf else 0
    bounds.TIME_S.require_column(steps.time_s[first:], "time_s", where=where)
    if (np.diff(steps.time_s) <= 0).any():
        raise InputError("times must rise from row to row", where=where, hint="sort the rows, each time once")


NO_SIGNALS = Signals(Cap.none())
"""No cap, and none announced."""
