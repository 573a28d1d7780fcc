"""Jobs that wait for us, kept in queue order as columns: a round pays for what changed, not for what waits."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.predictor import Asked
from wattqueue.live.slurm.snapshot import JobKey, JobRow
from wattqueue.live.world import NO_LIMIT_S, key_order
from wattqueue.model.jobs import Jobs, Labels

Place = tuple[float, int, int]
COLUMNS = ("submit", "nodes", "wall", "user", "app", "partition", "allowed")


class Codes:
    """Names that grow, each with a number; -1 for the empty one."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.names: tuple[str, ...] = ()

    def of(self, name: str) -> int:
        """The number of a name."""
        if not name:
            return -1
        known = self.number.get(name)
        if known is None:
            known = self.number[name] = len(self.number)
            self.names = (*self.names, name)
        return known


@dataclass
class Queue:
    """Rows in order of (first submission, id, task), each in a slot of the columns.

    ``allowed`` holds a set of partitions as bits. Slots of rows that left are used again.
    """

    places: list[tuple[Place, JobKey]] = field(default_factory=list)
    slot: dict[JobKey, int] = field(default_factory=dict)
    row: dict[JobKey, JobRow] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    changed: bool = True

    def __post_init__(self) -> None:
        self._place: dict[JobKey, Place] = {}
        self._codes = {name: Codes() for name in ("user", "app", "partition")}
        self._ids = np.empty(64, object)
        self._column: dict[str, NDArray[Any]] = {name: np.zeros(64) for name in COLUMNS}
        self._order = np.zeros(0, np.int64)
        self._keys: tuple[JobKey, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def add(self, row: JobRow, asked: Asked, allowed: frozenset[int], first_s: float | None) -> None:
        """A job that waits from now on, or that changed."""
        key = row.key
        if key in self.slot:
            self.remove(key)
        slot = self.free.pop() if self.free else len(self.slot)
        if slot >= len(self._ids):
            self._grow()
        place = key_order(key if first_s is None else JobKey(key.name, first_s), row.job_id)
        insort(self.places, (place, key))
        self.slot[key], self.row[key], self._place[key] = slot, row, place
        codes = self._codes
        values = (
            place[0], asked.nodes, min(asked.walltime_s, NO_LIMIT_S), codes["user"].of(asked.user),
            codes["app"].of(asked.app), codes["partition"].of(asked.partition), sum(1 << p for p in allowed),
        )  # fmt: skip
        for name, value in zip(COLUMNS, values, strict=True):
            self._column[name][slot] = value
        self._ids[slot] = key.name
        self.changed = True

    def remove(self, key: JobKey) -> None:
        """A job that waits no more."""
        slot = self.slot.pop(key, None)
        if slot is None:
            return
        place = self._place.pop(key)
        del self.places[bisect_left(self.places, (place, key))]
        del self.row[key]
        self.free.append(slot)
        self.changed = True

    def keys(self) -> tuple[JobKey, ...]:
        """Keys in queue order."""
        self._refresh()
        return self._keys

    def table(self, without: NDArray[np.bool_] | None = None) -> tuple[Jobs, NDArray[np.int64]]:
        """The job table in queue order, and the sets of partitions as bits; rows of ``without`` left out."""
        self._refresh()
        order = self._order if without is None else self._order[~without]
        column, codes = self._column, self._codes
        labels = {n: Labels(column[n][order].astype(np.int32), codes[n].names) for n in ("user", "app", "partition")}
        wall = column["wall"][order]
        jobs = Jobs.build(
            column["submit"][order], column["nodes"][order].astype(np.int32), wall, walltime_s=wall,
            job_id=self._ids[order], **labels,
        )  # fmt: skip
        return jobs, column["allowed"][order].astype(np.int64)

    def _refresh(self) -> None:
        if self.changed:
            self._keys = tuple(key for _, key in self.places)
            slot = self.slot
            self._order = np.fromiter((slot[key] for key in self._keys), np.int64, len(self._keys))
            self.changed = False

    def _grow(self) -> None:
        more = len(self._ids)
        self._ids = np.concatenate((self._ids, np.empty(more, object)))
        self._column = {name: np.concatenate((c, np.zeros(more))) for name, c in self._column.items()}
