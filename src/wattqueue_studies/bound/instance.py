"""A problem in whole numbers that allow at least as much as the problem does, so that a bound holds for it.

Run times and releases are whole ticks, rounded down; watts are whole shares of the cap, those of jobs rounded down,
what is free rounded up. ``digest`` identifies an instance.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """Jobs with options, and what is free over time, in whole numbers.

    Attributes:
        tick_hz: Ticks a second.
        parts: Partitions: the first resources are their units, one more are watts where they are limited.
        release: Earliest start of each job, in ticks. Shape (n,).
        release_up: The same, rounded up: what turnarounds count from. Shape (n,).
        first: First option of each job, and the number of options. Shape (n + 1,).
        run: Ticks of each option. Shape (m,).
        amount: What an option takes of each resource: units of each partition, watts. Shape (m, R).
        energy_mj: Energy of each option in millijoules, rounded down. Shape (m,).
        time: When each amount of free resources begins, in ticks; the first is 0, the last holds for ever. Shape (s,).
        free: What is free of each resource. Shape (R, s).
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

    def __len__(self) -> int:
        return len(self.release)

    @property
    def job(self) -> Whole:
        """Return the job of each option. Shape (m,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def least(self, column: Whole) -> Whole:
        """Return the least figure of each job over its options. Shapes (m,) and (n,)."""
        found: Whole = np.minimum.reduceat(column, self.first[:-1])
        return found

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
        first = np.searchsorted(self.time, edge[:-1], side="right") - 1
        last = np.maximum(np.searchsorted(self.time, edge[1:], side="left"), first + 1)
        padded = np.append(self.free[resource], 0)
        found: Whole = np.maximum.reduceat(padded, np.column_stack((first, last)).ravel())[::2]
        return found

    def values(self) -> dict[str, Any]:
        """Return plain values, from which ``of_values`` makes it again."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(self).items()
        }

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Instance:
        """Return the instance of plain values."""
        arrays: dict[str, Any] = {
            name: int(value) if name in ("tick_hz", "parts") else np.array(value, np.int64)
            for name, value in values.items()
        }
        return cls(**arrays)

    def digest(self) -> str:
        """Return the SHA-256 of all its numbers."""
        text = json.dumps(self.values(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
