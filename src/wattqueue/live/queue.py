"""Keep the jobs that wait for the controller in queue order, as columns.

A round costs what changed, not what waits. Jobs enter and leave one by one (``add``, ``remove``);
``table`` gathers the columns in queue order with one numpy index per column.

Layout: each job has a *slot* in every column, which it keeps until it leaves; ``places`` is a sorted
list of (place, key, slot). The order of the queue is that of equal priorities (semantics, rule 5); priorities are the
policy's business and come later, as entries. ``_order`` holds the slots in that order, rebuilt only when
``changed``. Inserting into a sorted Python list is O(n) but a memmove: a few microseconds for 10,000 waiting jobs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.requests import JobRequest
from wattqueue.live.world import NO_LIMIT_S, key_order
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownJobs

Place = tuple[float, int, int]
"""Position of a job among those of equal priority: first submission, job id, array task (semantics, rule 5)."""
MOST_PATCHES = 8
"""Changes of a round that are applied to the order one by one."""
COLUMNS = ("submit", "nodes", "wall", "user", "app", "partition", "allowed")


class Codes:
    """Numbers for names, given out in order of appearance; -1 stands for the empty name.

    ``names[number]`` is the name again, as ``Labels`` of the job table expects.
    """

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.names: tuple[str, ...] = ()

    def of(self, name: str) -> int:
        """Return the number of a name, a new one if it has none yet."""
        if not name:
            return -1
        known = self.number.get(name)
        if known is None:
            known = self.number[name] = len(self.number)
            self.names = (*self.names, name)
        return known


@dataclass
class Queue:
    """Waiting jobs in order of (first submission, id, task), each in a slot of the columns.

    Invariants: ``places`` is sorted and holds each key once; ``slot``, ``row`` and ``places`` hold
    the same keys; a slot is either in ``slot.values()`` or in ``free``. The column ``allowed`` holds
    the set of machine partitions that a job may use as bits.
    """

    places: list[tuple[Place, JobKey, int]] = field(default_factory=list)
    slot: dict[JobKey, int] = field(default_factory=dict)
    row: dict[JobKey, Job] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    """Slots of jobs that left, to be used again."""
    changed: bool = True
    """Whether ``_keys`` and ``_order`` are out of date."""

    def __post_init__(self) -> None:
        self._place: dict[JobKey, Place] = {}
        self._codes = {name: Codes() for name in ("user", "app", "partition")}
        self._ids = np.empty(64, object)
        self._column: dict[str, NDArray[Any]] = {name: np.zeros(64) for name in COLUMNS}
        self._order = np.zeros(0, np.int64)
        self._keys: tuple[JobKey, ...] = ()
        self._patches = 0
        """Changes since the order was asked for."""

    def __len__(self) -> int:
        """Return the number of waiting jobs, those in back-off included."""
        return len(self.places)

    def add(self, row: Job, request: JobRequest, allowed: frozenset[int], first_s: float | None) -> None:
        """Insert a job that waits from now on, or replace one that changed.

        ``first_s`` is the first submission of a job that was requeued: Slurm resets its submit time,
        its place in the queue stays (semantics, rule 3).
        """
        key = row.key
        # a row that changed comes under the same key: its old place may differ (another first submission)
        if key in self.slot:
            self.remove(key)
        slot = self.free.pop() if self.free else len(self.slot)
        if slot >= len(self._ids):
            self._grow()
        place = key_order(row, first_s)
        at = bisect_left(self.places, (place, key))
        self.places.insert(at, (place, key, slot))
        self.slot[key], self.row[key], self._place[key] = slot, row, place
        codes = self._codes
        values = (
            place[0], request.nodes, min(request.walltime_s, NO_LIMIT_S), codes["user"].of(request.user),
            codes["app"].of(request.app), codes["partition"].of(request.partition), sum(1 << p for p in allowed),
        )  # fmt: skip
        for name, value in zip(COLUMNS, values, strict=True):
            self._column[name][slot] = value
        self._ids[slot] = key.name
        self._patch(lambda: ((*self._keys[:at], key, *self._keys[at:]), np.insert(self._order, at, slot)))

    def remove(self, key: JobKey) -> None:
        """Take out a job that no longer waits; nothing happens for one that is not here."""
        slot = self.slot.pop(key, None)
        if slot is None:
            return
        place = self._place.pop(key)
        # places are unique by key, so the bisection finds exactly this entry
        at = bisect_left(self.places, (place, key))
        del self.places[at]
        del self.row[key]
        self.free.append(slot)
        self._patch(lambda: (self._keys[:at] + self._keys[at + 1 :], np.delete(self._order, at)))

    def keys(self) -> tuple[JobKey, ...]:
        """Return the keys in queue order. The same tuple object as before while nothing changed."""
        self._refresh()
        return self._keys

    def table(self, without: NDArray[np.bool_] | None = None) -> tuple[KnownJobs, NDArray[np.int64]]:
        """Return the job table in queue order, and the sets of allowed partitions as bits (int64).

        ``without`` (shape (n,), in queue order) marks jobs to leave out.
        """
        self._refresh()
        order = self._order if without is None else self._order[~without]
        column, codes = self._column, self._codes
        labels = {n: Labels(column[n][order].astype(np.int32), codes[n].names) for n in ("user", "app", "partition")}
        jobs = KnownJobs.build(
            column["submit"][order], column["nodes"][order].astype(np.int32), column["wall"][order],
            job_id=self._ids[order], **labels,
        )  # fmt: skip
        return jobs, column["allowed"][order].astype(np.int64)

    def _patch(self, change: Callable[[], tuple[tuple[JobKey, ...], NDArray[np.int64]]]) -> None:
        """Apply one change to keys and order; the rest of many waits for ``_refresh``, which costs as much as some."""
        self._patches += 1
        self.changed = self.changed or self._patches > MOST_PATCHES
        if not self.changed:
            self._keys, self._order = change()

    def _refresh(self) -> None:
        """Rebuild the order after many changes."""
        self._patches = 0
        if self.changed:
            self._keys = tuple(map(itemgetter(1), self.places))
            self._order = np.fromiter(map(itemgetter(2), self.places), np.int64, len(self.places))
            self.changed = False

    def _grow(self) -> None:
        """Double the columns."""
        more = len(self._ids)
        self._ids = np.concatenate((self._ids, np.empty(more, object)))
        self._column = {name: np.concatenate((c, np.zeros(more))) for name, c in self._column.items()}
