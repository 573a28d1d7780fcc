"""Reduce step series to bins: minimum, time-weighted mean and maximum of each bin, exactly.

A step series holds ``value[i]`` from ``time_s[i]`` to ``time_s[i + 1]``; the last row is its end. Half a million
events become a few thousand bins, and no peak is lost: the maximum of a bin is the greatest value in force at any
time within it, however short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats

BINS = 6_000
"""Several times the columns of a screen, to zoom in; fewer steps than this are kept as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins in time; bin i reaches from ``edge_s[i]`` to ``edge_s[i + 1]``.

    Attributes:
        edge_s: Edges in rising order. Shape (b + 1,).
        exact: Whether the bins are the steps themselves, so that minimum, mean and maximum agree.
    """

    edge_s: Floats
    exact: bool

    @classmethod
    def of(cls, time_s: Floats, first_s: float, last_s: float, most: int = BINS) -> Bins:
        """Return the steps themselves as bins where they are few, else ``most`` bins of equal length."""
        if last_s <= first_s:
            return cls(np.array([first_s, first_s + 1.0]), exact=True)
        inside = time_s[(time_s > first_s) & (time_s < last_s)]
        steps = np.unique(inside) if len(inside) < most else inside
        # Few steps are their own bins: nothing is lost, and the figure says so.
        if len(steps) < most:
            return cls(np.concatenate(([first_s], steps, [last_s])), exact=True)
        return cls(np.linspace(first_s, last_s, most + 1), exact=False)

    def __len__(self) -> int:
        return len(self.edge_s) - 1

    def mean(self, time_s: Floats, value: NDArray[Any]) -> Floats:
        """Return the time-weighted mean of each bin; the first value also holds before the first time. Shape (b,)."""
        held = value[:-1].astype(np.float64) * np.diff(time_s)
        total = np.concatenate(([0.0], np.cumsum(held)))
        row = self._row(time_s)
        upto = total[row] + value[row] * (self.edge_s - time_s[row])
        return np.asarray(np.diff(upto) / np.diff(self.edge_s), np.float64)

    def least(self, time_s: Floats, value: NDArray[Any]) -> Floats:
        """Return the minimum in force within each bin. Shape (b,)."""
        return self._reduce(np.minimum, time_s, value)

    def greatest(self, time_s: Floats, value: NDArray[Any]) -> Floats:
        """Return the maximum in force within each bin. Shape (b,)."""
        return self._reduce(np.maximum, time_s, value)

    def _row(self, time_s: Floats) -> NDArray[np.int64]:
        """Return the row in force at each edge. Shape (b + 1,)."""
        return np.maximum(np.searchsorted(time_s, self.edge_s, side="right") - 1, 0)

    def _reduce(self, pick: np.ufunc, time_s: Floats, value: NDArray[Any]) -> Floats:
        """Reduce the rows in force within each bin by ``pick``. Shape (b,)."""
        first = self._row(time_s)[:-1]
        # A row that begins at the right edge belongs to the next bin.
        after = np.maximum(np.searchsorted(time_s, self.edge_s[1:], side="left"), first + 1)
        padded = np.append(value, value[-1:])  # reduceat wants every index inside
        ends = np.column_stack((first, after)).ravel()
        return np.asarray(pick.reduceat(padded, ends)[::2], np.float64)


def pulses(time_s: Floats, change: Floats) -> tuple[Floats, Floats]:
    """Return a count that changes by ``change`` at ``time_s`` as a step series.

    Returns rising times and the value from each on. Changes of one instant are summed, so that a job that starts when
    it is submitted leaves no trace.
    """
    order = np.argsort(time_s, kind="stable")
    time = time_s[order]
    last = np.append(time[1:] != time[:-1], True)
    return time[last], np.cumsum(change[order])[last]
