"""Step series and their measures: caps, powers, prices, counts of waiting jobs.

A value holds from its time to the next row's; the first holds before its time too, the last for ever (rule 1 of
docs/semantics.md). So integrals, means and extremes over any stretch of time are exact: nothing is sampled.

``sum_of_products`` is equal to the last bit on every machine: energies are compared by digests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats

TOLERANCE_W = 1e-6
"""Tolerance of admission (rule 13 of docs/semantics.md); a smaller excess over a cap is rounding and not counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A step series. Shapes (k,), k >= 1. Times never fall; a row at the time of the next one holds for no time."""

    time_s: Floats
    """Start of each row in seconds."""
    value: NDArray[Any]
    """Value from there on."""

    @classmethod
    def of_changes(cls, time_s: Floats, change: NDArray[Any]) -> Steps:
        """Return a count that changes by ``change`` at ``time_s``, in any order. Shapes (n,).

        Changes of one instant are summed, so that a job that starts when it is submitted leaves no trace.
        """
        order = np.argsort(time_s, kind="stable")
        time = time_s[order]
        last = np.append(time[1:] != time[:-1], True)
        return cls(time[last], np.cumsum(change[order])[last])

    def at(self, time_s: Floats) -> NDArray[Any]:
        """Return the value in force at each time. Shape as ``time_s``."""
        return self.value[rows_at(self.time_s, time_s)]

    def within(self, begin_s: float, end_s: float) -> tuple[NDArray[Any], Floats]:
        """Return the values in force between two instants, and for how long each. Shapes (m,), no row of no length."""
        rows, length = held(self.time_s, begin_s, end_s)
        there = length > 0
        return self.value[rows][there], length[there]

    def maximum(self, begin_s: float, end_s: float) -> float:
        """Return the highest value in force between two instants, the second later than the first."""
        return float(self.within(begin_s, end_s)[0].max())

    def integral(self, begin_s: float, end_s: float) -> float:
        """Return the integral between two instants; 0 where the second is not later."""
        rows, length = held(self.time_s, begin_s, end_s)
        return sum_of_products(self.value[rows], length)

    def integrals(self, edge_s: Floats) -> Floats:
        """Return the integral between each edge and the next. Shapes (b + 1,), (b,).

        Cost O(k + b log k): one running sum, and one search per edge. ``integral`` is more exact for one bin.
        """
        total = np.zeros(len(self.time_s))
        np.cumsum(self.value[:-1] * np.diff(self.time_s), out=total[1:])
        row = rows_at(self.time_s, edge_s)
        return np.diff(total[row] + self.value[row] * (edge_s - self.time_s[row]))

    def means(self, edge_s: Floats) -> Floats:
        """Return the mean over time between each edge and the next. Shapes (b + 1,), (b,)."""
        return np.asarray(self.integrals(edge_s) / np.diff(edge_s), np.float64)

    def minima(self, edge_s: Floats) -> Floats:
        """Return the lowest value in force between each edge and the next, however short. Shapes (b + 1,), (b,)."""
        return self._reduce(np.minimum, edge_s)

    def maxima(self, edge_s: Floats) -> Floats:
        """Return the highest value in force between each edge and the next, however short. Shapes (b + 1,), (b,)."""
        return self._reduce(np.maximum, edge_s)

    def quantiles(self, share: Floats, begin_s: float, end_s: float) -> Floats:
        """Return the lowest values at or below which the series stays for at least each share of the time.

        Shape as ``share``. 1e-12 absorbs the rounding of the cumulative sum.
        """
        value, length = self.within(begin_s, end_s)
        order = np.argsort(value, kind="stable")
        reached = np.cumsum(length[order]) / length.sum()
        rank = np.minimum(np.searchsorted(reached, share - 1e-12), len(value) - 1)
        return np.asarray(value[order][rank], np.float64)

    def _reduce(self, pick: np.ufunc, edge_s: Floats) -> Floats:
        """Reduce the rows in force between each edge and the next by ``pick``."""
        first = rows_at(self.time_s, edge_s[:-1])
        # A row that begins at the right edge belongs to the next bin.
        after = np.maximum(np.searchsorted(self.time_s, edge_s[1:], side="left"), first + 1)
        padded = np.append(self.value, self.value[-1:])  # reduceat wants every index inside
        return np.asarray(pick.reduceat(padded, np.column_stack((first, after)).ravel())[::2], np.float64)


def rows_at(time_s: Floats, at_s: Floats | float) -> NDArray[np.int64]:
    """Return the row in force at each instant: of several rows at one time the last. Shape as ``at_s``."""
    return np.maximum(np.searchsorted(time_s, at_s, side="right") - 1, 0)


def held(time_s: Floats, begin_s: float, end_s: float) -> tuple[slice, Floats]:
    """Return the rows in force between two instants, and how long each holds there (0 for some). Shape (m,)."""
    if end_s <= begin_s:
        return slice(0, 0), np.empty(0)
    first = int(rows_at(time_s, begin_s))
    last = max(int(np.searchsorted(time_s, end_s, side="left")), first + 1)
    edges = np.append(time_s[first:last], end_s)
    edges[0] = begin_s  # earlier where the series begins later: its first value holds before it
    return slice(first, last), np.diff(edges)


def with_times(time_s: Floats, more_s: Floats) -> tuple[Floats, NDArray[np.int64] | slice]:
    """Return times of a series with others among them, and the rows in force at each (an index of any column).

    Of the others those strictly inside the series are added that are not there already. ``more_s`` rises.
    """
    inside = more_s[(more_s > time_s[0]) & (more_s < time_s[-1])] if len(time_s) else more_s[:0]
    inside = inside[time_s[np.searchsorted(time_s, inside)] != inside]
    if not len(inside):
        return time_s, slice(None)  # no copy: a series may have 50 million rows
    # The row in force at an added time is the one before the place where it is inserted.
    place = np.searchsorted(time_s, inside, side="right")
    return np.insert(time_s, place, inside), np.insert(np.arange(len(time_s)), place, place - 1)


def excess_w(power_w: Floats, cap_w: Floats | float) -> Floats:
    """Return how far power is above a cap: 0 where it is not, and where there is none (``inf``). Shapes (k,)."""
    above: Floats = power_w - cap_w
    above[above <= TOLERANCE_W] = 0.0
    return above


_BLOCK = 1 << 20
"""Rows of one block; numpy sums a block pairwise, so the result depends on this number. Changing it changes digests."""


def sum_of_products(a: NDArray[Any], b: NDArray[np.float64]) -> float:
    """Return the sum of a times b, such as watts times seconds. Shapes (n,).

    Block by block, so that 50 million rows need no second table; not by BLAS, whose last digit depends on the number
    of threads.
    """
    blocks = (slice(i, i + _BLOCK) for i in range(0, len(b), _BLOCK))
    return float(sum((a[rows] * b[rows]).sum() for rows in blocks))
