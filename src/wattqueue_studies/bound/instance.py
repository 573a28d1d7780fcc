"""A problem in whole numbers that allow at least as much as the problem does, so that a bound holds for it.

Run times and releases are whole ticks, rounded down; watts are whole shares of the cap, those of jobs rounded down,
what is free rounded up. ``digest`` identifies an instance.
"""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
MILLI = 1_000
"""Prices of energy are counted in thousandths of their unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Billing:
    """What energy above idle costs (or emits) over time, and until when each job must start, in whole numbers.

    A unit of bill is one step of watts for one tick at one thousandth of the tariff's unit.

    Attributes:
        step_uw: Microwatts of a step of watts.
        per_j: Joules that a unit of the tariff is for.
        watts: Steps of watts of each option above idle, rounded down. Shape (m,).
        latest: Latest start of each job, in ticks, rounded up. Shape (n,).
        time: When each price begins, in ticks; the first is 0, the last holds for ever. Shape (t,).
        price: Thousandths of the tariff's unit above ``least``, rounded down. Shape (t,).
        least: The least price of all times, if it is negative, else 0.
    """

    step_uw: int
    per_j: int
    watts: Whole
    latest: Whole
    time: Whole
    price: Whole
    least: int

    def lowest(self, edge: Whole) -> Whole:
        """Return the lowest price of each interval. Shape (K,)."""
        return _reduced(np.minimum, self.time, self.price, edge)


class JobBlocks:
    """Jobs with options: rows of figures, those of a job in one block, which begins at ``first`` (n + 1,)."""

    __slots__ = ()
    first: Whole

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def job(self) -> Whole:
        """Return the job of each option. Shape (m,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def least(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the least figure of each job over its options. Shapes (m,) and (n,)."""
        found: NDArray[Any] = np.minimum.reduceat(column, self.first[:-1])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Instance(JobBlocks):
    """Jobs with options, and what is free over time, in whole numbers.

    Attributes:
        tick_hz: Ticks a second.
        parts: Partitions: the first resources are their units, one more are watts where they are limited.
        release: Earliest start of each job, in ticks: its release, or later where what runs already leaves too little
            free. Shape (n,).
        release_up: Release, rounded up: what turnarounds count from. Shape (n,).
        first: First option of each job, and the number of options. Shape (n + 1,).
        run: Ticks of each option. Shape (m,).
        amount: What an option takes of each resource: units of each partition, watts. Shape (m, R).
        energy_mj: Energy of each option in millijoules, rounded down. Shape (m,).
        time: When each amount of free resources begins, in ticks; the first is 0, the last holds for ever. Shape (s,).
        free: What is free of each resource. Shape (R, s).
        billing: What energy costs; None where no bill is looked at.
    """

    tick_hz: int
    parts: int
    release: Whole
    release_up: Whole
    first: Whole
    run: Whole
    amount: Whole
    energy_mj: Whole
    time: Whole
    free: Whole
    billing: Billing | None = None

    def soonest(self) -> Whole:
        """Return the earliest start of each job at which all that it needs is free for its whole run. Shape (n,).

        Beside nothing but what runs already: the program, which cuts jobs into shares, does not see that by itself.
        """
        until = np.append(self.time[1:], np.iinfo(np.int64).max)
        start = self.release[self.job]
        for row, needs in enumerate(self.amount):
            last = max(int(self.run[row]), 1)  # a run that was rounded down to 0 takes some time, too
            for k in np.flatnonzero((self.free < needs[:, None]).any(axis=0)).tolist():
                if self.time[k] < start[row] + last and until[k] > start[row]:
                    start[row] = until[k]
        return self.least(start)

    @property
    def longest_run(self) -> Whole:
        """Return ticks that each option does not exceed: whole seconds are exact, others were rounded down. (m,)."""
        return self.run + (self.tick_hz != 1)

    def capacity(self, edge: Whole) -> list[list[int]]:
        """Return what is free in each interval, in amount times ticks, for each resource. ``edge`` (K + 1,) rises."""
        # Python's integers: the sums have no greatest value.
        areas = []
        for free in self.free:
            reached = [0]
            for row in range(1, len(self.time)):
                reached.append(reached[-1] + int(free[row - 1]) * int(self.time[row] - self.time[row - 1]))
            rows = np.searchsorted(self.time, edge, side="right") - 1
            at = [reached[r] + int(free[r]) * int(e - self.time[r]) for r, e in zip(rows, edge.tolist(), strict=True)]
            areas.append([later - sooner for sooner, later in pairwise(at)])
        return areas

    def greatest(self, resource: int, edge: Whole) -> Whole:
        """Return the most that is free of a resource at any time of each interval. Shape (K,)."""
        return _reduced(np.maximum, self.time, self.free[resource], edge)

    def values(self) -> dict[str, Any]:
        """Return plain values, from which ``of_values`` makes it again."""
        values: dict[str, Any] = plain_values(asdict(self))
        return values

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Instance:
        """Return the instance of plain values."""
        bill = values.get("billing")
        arrays = _arrays({name: value for name, value in values.items() if name != "billing"})
        return cls(**arrays, billing=None if bill is None else Billing(**_arrays(bill)))

    def digest(self) -> str:
        """Return the SHA-256 of all its numbers."""
        text = json.dumps(self.values(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _reduced(ufunc: np.ufunc, time: Whole, value: Whole, edge: Whole) -> Whole:
    """Reduce the values that hold at any time of each interval between edges; the last holds for ever. Shape (K,)."""
    first = np.searchsorted(time, edge[:-1], side="right") - 1
    last = np.maximum(np.searchsorted(time, edge[1:], side="left"), first + 1)
    found: Whole = ufunc.reduceat(np.append(value, value[-1]), np.column_stack((first, last)).ravel())[::2]
    return found


def plain_values(value: Any) -> Any:
    """Return plain values of nested ones with arrays."""
    if isinstance(value, dict):
        return {key: plain_values(each) for key, each in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _arrays(values: dict[str, Any]) -> dict[str, Any]:
    """Return lists as arrays, and whole numbers as they are. Raises: TypeError for anything else."""
    return {
        name: np.array(value, np.int64) if isinstance(value, list) else operator.index(value)
        for name, value in values.items()
    }
