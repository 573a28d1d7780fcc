"""One table of all jobs of a cluster: a row for each job, found by its key, and a column for each fact about it.

A job keeps its *slot* in all columns from the snapshot that shows it first until the one that shows it no more. Stages
of a round (``live.stages``) read some columns and write others; nothing about a live job is known anywhere else but in
what the resource manager shows (``row``) and in the controller's stored state (``state.memory``).

Each job has an *owner*, who decides when it starts, and a *stage* of its life; ``TRANSITIONS`` holds which stage may
follow which (docs/live-job.md draws them). Every stage is found by comparing what a snapshot shows with the stored
state; nothing depends on having seen the job before. So the picture is the same after a restart of the controller.
Between two snapshots a job may have gone through several stages.

*Pending for the resource manager alone* is (CLUSTER or HANDED_OVER, FREE), *running for it alone* (CLUSTER or
HANDED_OVER, RUNNING): both are counted, and the policy decides about neither.

Cost. A driver hands out the same object for a row that did not change, so rows are compared by identity, and a round
costs what is new or gone. The rows of the snapshot before are kept until the new ones are stored, so that no ``id``
can stand for two rows.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.requests import JobRequest
from wattqueue.live.watts.tracking import CountedPower
from wattqueue.live.world import NO_LIMIT_S, key_order
from wattqueue.model.jobs import Labels
from wattqueue.model.known_jobs import KnownJobs

Slots = NDArray[np.int64]
"""Slots of jobs, (n,)."""
Objects = NDArray[Any]
Place = tuple[float, int, int]
"""Position of a job among those of equal priority: first submission, job id, array task (semantics, rule 5)."""


class Owner(IntEnum):
    """Who decides when a job starts."""

    OURS = 0
    """The controller, by its policy."""
    USER = 1
    """A person, who holds it: its user, or an administrator."""
    CLUSTER = 2
    """The resource manager alone: it carries no watts, or stands in a partition that is not managed."""
    HANDED_OVER = 3
    """The resource manager alone, once every component of the job carries watts (``live.components``)."""


class Stage(IntEnum):
    """Where a job is in its life."""

    ENDED = 0
    """Holds nothing, and waits for nothing."""
    UNREAD = 1
    """Held; its details have not been read yet."""
    HELD = 2
    """Held; it may start now, if its owner lets it."""
    BARRED = 3
    """Held; something keeps it from starting in this round (``LiveJobs.reason``), so its owner is not asked."""
    BACK_OFF = 4
    """Held; its last start failed, and it is tried again later."""
    FAILED = 5
    """Held since its launch failed on a node, until a person releases it."""
    DEPENDENT = 6
    """Waits for another job, or for a time that its user stated."""
    OUTSIDE = 7
    """Waits on a partition that is not managed, or for nothing that the controller gives."""
    STRAY = 8
    """Released by somebody else: it may start at any moment, and is held again."""
    FREE = 9
    """Not held, and not the controller's: it may start at any moment, so its nodes and watts are kept."""
    STALLED = 10
    """Free for longer than a start takes: something that the controller cannot see stops it, and nothing is kept. A job
    of several components is held again."""
    UNDER_WAY = 11
    """Released by the controller: it may start at any moment, so its nodes and watts are kept."""
    LATE = 12
    """Released by the controller and not started in time: it is held again."""
    ORPHANED = 13
    """A component whose first one is gone: nobody can start or cancel it."""
    RUNNING = 14
    """Holds nodes and watts."""
    PARKED = 15
    """Stopped by the controller: it keeps its nodes, at idle watts."""
    RESUMING = 16
    """Runs on although it is stored as parked: it gets its watts back."""
    SUSPENDED = 17
    """Stopped or suspended by somebody else."""
    COMPLETING = 18
    """About to end: its nodes are not free yet."""


OPEN_STAGES = frozenset({Stage.STRAY, Stage.FREE, Stage.STALLED, Stage.UNDER_WAY, Stage.LATE})
"""Stages of jobs that nobody holds: the resource manager may start them at any moment."""
ACTIVE_STAGES = frozenset({Stage.RUNNING, Stage.PARKED, Stage.RESUMING, Stage.SUSPENDED, Stage.COMPLETING})
"""Stages of jobs that hold nodes and watts."""
QUEUED_STAGES = (Stage.HELD, Stage.BARRED, Stage.BACK_OFF)
"""Stages of jobs that stand in the controller's queue."""
PENDING = frozenset(Stage) - ACTIVE_STAGES - {Stage.ENDED}

TRANSITIONS: Mapping[Stage, frozenset[Stage]] = {
    Stage.UNREAD: frozenset({Stage.HELD, Stage.DEPENDENT, Stage.FAILED, Stage.OUTSIDE, Stage.STRAY, Stage.ENDED}),
    Stage.HELD: frozenset({
        Stage.BARRED, Stage.BACK_OFF, Stage.UNDER_WAY, Stage.STRAY, Stage.FREE, Stage.DEPENDENT, Stage.OUTSIDE,
        Stage.ORPHANED, Stage.ENDED,
    }),
    Stage.BARRED: frozenset({Stage.HELD, Stage.BACK_OFF, Stage.UNDER_WAY}),
    Stage.BACK_OFF: frozenset({Stage.HELD, Stage.BARRED, Stage.STRAY, Stage.UNDER_WAY}),
    Stage.FAILED: frozenset({Stage.HELD, Stage.STRAY}),
    Stage.DEPENDENT: frozenset({Stage.HELD, Stage.STRAY, Stage.FREE}),
    Stage.OUTSIDE: frozenset({Stage.UNREAD, Stage.FREE, Stage.STRAY, Stage.RUNNING, Stage.ENDED}),
    Stage.STRAY: frozenset({Stage.HELD, Stage.RUNNING, Stage.FREE, Stage.ORPHANED}),
    Stage.FREE: frozenset({Stage.STALLED, Stage.RUNNING, Stage.STRAY, Stage.UNREAD, Stage.ORPHANED}),
    Stage.STALLED: frozenset({Stage.FREE, Stage.HELD, Stage.UNREAD, Stage.RUNNING}),
    Stage.UNDER_WAY: frozenset({Stage.LATE, Stage.RUNNING, Stage.BACK_OFF, Stage.STRAY, Stage.HELD}),
    Stage.LATE: frozenset({Stage.BACK_OFF, Stage.RUNNING, Stage.UNDER_WAY}),
    Stage.ORPHANED: frozenset({Stage.HELD, Stage.FREE, Stage.ENDED}),
    Stage.RUNNING: frozenset({
        Stage.PARKED, Stage.RESUMING, Stage.SUSPENDED, Stage.COMPLETING, Stage.UNREAD, Stage.STRAY, Stage.FREE,
        Stage.FAILED, Stage.ENDED,
    }),
    Stage.PARKED: frozenset({Stage.RESUMING, Stage.COMPLETING, Stage.UNREAD}),
    Stage.RESUMING: frozenset({Stage.RUNNING, Stage.PARKED}),
    Stage.SUSPENDED: frozenset({Stage.RUNNING, Stage.COMPLETING, Stage.UNREAD}),
    Stage.COMPLETING: frozenset({Stage.ENDED, Stage.UNREAD}),
    Stage.ENDED: frozenset(),
}  # fmt: skip
"""The stages that may follow each stage at once."""


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


MOST_KEPT = 16
"""Sets of jobs of which the order is kept: a round asks for some ten."""
LABELS = ("user", "app", "partition")
OBJECTS = ("row", "name", "request", "reason", "label", "placed_row", "own_units", "others", "units", "intervals")
TIMES = ("first_s", "walltime_s", "since_s", "due_s", "end_s", "variance_left")
WATTS = ("shown_w", "given_w", "start_w", "counted_w", "licence_w", "net_w", "wanted_w", "least_w")
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(OBJECTS, np.object_),
    **dict.fromkeys(("owner", "stage", "counted_stage"), np.int8),
    **dict.fromkeys(("nodes", *(f"{name}_code" for name in LABELS), "part"), np.int32),
    **dict.fromkeys(TIMES, np.float64),
    **dict.fromkeys(("allowed", *WATTS), np.int64),
    "option": np.int16,
    "restarted": np.bool_,
    "consent": np.dtype((np.float64, 5)),
}
"""Type of each column."""


class LiveJobs:
    """All jobs of the last snapshot. The module's docstring describes owner and stage.

    Invariants: ``slot`` holds the key of each row of the last snapshot, and no two keys have one slot; a slot is either
    in ``slot.values()`` or free; ``places`` is sorted and holds each job once that stands in the queue.
    """

    row: Objects
    """The job as the resource manager shows it (``cluster.Job``)."""
    name: Objects
    """Its name (``JobKey.name``)."""
    owner: NDArray[np.int8]
    stage: NDArray[np.int8]
    since_s: NDArray[np.float64]
    """Time of the round in which a job was first seen free, for those that only the resource manager schedules."""
    reason: Objects
    """Why a barred job is kept from starting in this round; empty where its array's own limit does."""
    request: Objects
    """What its user requested (``requests.JobRequest``); None for a job that the controller has nothing to do with."""
    first_s: NDArray[np.float64]
    """First submission of a queued job: a requeue may reset the submit time, its place stays (semantics, rule 3)."""
    nodes: NDArray[np.int32]
    """Nodes that a queued job requests; the least number where it accepts several."""
    walltime_s: NDArray[np.float64]
    user_code: NDArray[np.int32]
    app_code: NDArray[np.int32]
    partition_code: NDArray[np.int32]
    allowed: NDArray[np.int64]
    """Partitions of the machine that a queued job may use, as bits."""
    shown_w: NDArray[np.int64]
    """Licence that the resource manager shows; -1 for none."""
    counted_stage: NDArray[np.int8]
    """Stage at which a running job's figures were found; ENDED where its row is new since then."""
    option: NDArray[np.int16]
    """Option at which a job runs or is about to: that of its release, else the highest frequency of its partition."""
    given_w: NDArray[np.int64]
    """Licence that a running job must hold for the nodes that it was given; -1 where it carries none."""
    start_w: NDArray[np.int64]
    """Watts with which it started, for the nodes that it has: what it may draw where nothing else bounds it."""
    restarted: NDArray[np.bool_]
    """Whether it was requeued before, or that is not known yet."""
    counted_w: NDArray[np.int64]
    """Net watts that a running job counts for: its licence, its maximum, or what was measured."""
    licence_w: NDArray[np.int64]
    """Licence that goes with these."""
    label: Objects
    """Where these watts come from (``tracking.CountedPower``)."""
    variance_left: NDArray[np.float64]
    """Relative variance of the job's watts, as a share of that at its start (an in-flight ledger)."""
    net_w: NDArray[np.int64]
    """Net watts in the ledger, as far as the bound lets ``counted_w`` fall (``live.watts.bound``)."""
    wanted_w: NDArray[np.int64]
    """Licence that the resource manager should show for it."""
    least_w: NDArray[np.int64]
    """Licence below which the bound does not let it be."""
    part: NDArray[np.int32]
    """Partition of the machine on which it holds units."""
    placed_row: Objects
    """The row of a running job of which the next two columns were read."""
    own_units: Objects
    """Units that its row names, in the partition of its first node (tuple, sorted)."""
    others: Objects
    """Units that its row names elsewhere (frozenset)."""
    consent: NDArray[np.float64]
    """What its user allows during a load target: the columns of ``model.consent.Consent``, (slots, 5)."""
    units: Objects
    """Its units, sorted (tuple); those of a job that does not run yet are where it would start."""
    intervals: Objects
    """The same units as intervals (tuple of pairs), both ends included."""
    due_s: NDArray[np.float64]
    """End that the time limit gives; -inf for a job that is completing."""
    end_s: NDArray[np.float64]
    """Expected end."""

    def __init__(self) -> None:
        self.slot: dict[JobKey, int] = {}
        self.new: list[int] = []
        """Jobs whose row is new in this round, in the order of the snapshot."""
        self.before: list[Job | None] = []
        """The row of each of these before; None for a job that is new itself."""
        self.gone: list[JobKey] = []
        """Jobs of the snapshot before that this one lacks, in its order."""
        self.places: list[tuple[Place, JobKey, int]] = []
        """The queue: jobs that are held for the controller, in the order of equal priorities."""
        self.version = 0
        """Counts changes of the queue."""
        self.codes = {name: Codes() for name in LABELS}
        self._place: dict[int, tuple[Place, JobKey, int]] = {}
        self.components = set[int]()
        """Jobs that are components of others, but the first ones."""
        self._free: list[int] = []
        self._waiting: tuple[int, Slots] = (-1, np.zeros(0, np.int64))
        self._rows: tuple[Job, ...] = ()
        self._order: tuple[int, Slots] = (-1, np.zeros(0, np.int64))
        self._ages: dict[bytes, list[int]] = {}
        """Sets of jobs in the order of their submission: the order of a set stays as long as no job comes or goes."""
        for name, kind in COLUMNS.items():
            setattr(self, name, _column(64, kind))

    # -- rows ------------------------------------------------------------------------------
    def update(self, rows: tuple[Job, ...]) -> None:
        """Take over the rows of a snapshot: drop jobs that are gone, and list those that are new or changed."""
        old, now = _apart(self._rows, rows)
        new = [row for number, row in now.items() if number not in old]
        there = {row.key for row in new}
        self.gone = []
        for row in [row for number, row in old.items() if number not in now]:
            slot = self.slot.get(row.key)
            if slot is not None and self.row[slot] is row and row.key not in there:
                self._remove(slot, row.key)
                self.gone.append(row.key)
        self.before = [None if (slot := self.slot.get(row.key)) is None else self.row[slot] for row in new]
        self._rows = rows  # the old rows stayed alive until here, so no id stood for two
        self.new = [self._put(row) for row in new]

    def _put(self, row: Job) -> int:
        """Store a row; return its slot."""
        slot = self.slot.get(row.key)
        if slot is None:
            slot = self._free.pop() if self._free else len(self.slot)
            if slot >= len(self.row):
                self._grow()
            self.slot[row.key], self.name[slot], self.stage[slot] = slot, row.key.name, Stage.UNREAD
            self._ages = {}
        self.row[slot], self.shown_w[slot], self.counted_stage[slot] = row, row.watts, Stage.ENDED
        if row.component > 0:
            self.components.add(slot)
        return slot

    def _remove(self, slot: int, key: JobKey) -> None:
        """Drop a job."""
        self.leave_queue(slot)
        del self.slot[key]
        self._free.append(slot)
        self.components.discard(slot)
        self._ages = {}
        self.row[slot], self.request[slot], self.stage[slot] = None, None, Stage.ENDED

    def _grow(self) -> None:
        """Double the columns."""
        for name, kind in COLUMNS.items():
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, _column(len(column), kind))))

    def put(self, slot: int, owner: Owner, stage: Stage) -> None:
        """Set owner and stage of a job."""
        self.owner[slot], self.stage[slot] = owner, stage

    def put_counted(self, slot: int, figure: CountedPower) -> None:
        """Set what a running job counts for."""
        self.counted_w[slot], self.licence_w[slot], self.label[slot] = figure.net_w, figure.licence, figure.label
        self.variance_left[slot] = figure.variance_left

    # -- who is where ------------------------------------------------------------------------
    def at(self, stages: Iterable[Stage], owner: Owner | None = None) -> list[int]:
        """Return the jobs in these stages, of one owner where it is stated, by submission, ties by job id and task."""
        among = np.zeros(len(Stage), np.bool_)
        among[list(stages)] = True
        mask = among[self.stage]
        return self._by_age(mask if owner is None else mask & (self.owner == owner))

    def undecided(self) -> list[int]:
        """Return the jobs that wait and of which the policy does not decide in this round, by submission."""
        decided = (self.stage == Stage.HELD) & (self.owner == Owner.OURS)
        return self._by_age(_PENDING[self.stage] & ~decided)

    def _by_age(self, mask: NDArray[np.bool_]) -> list[int]:
        """Return the jobs of a mask by submission; the same list as before for the same jobs."""
        found = np.flatnonzero(mask)
        key = found.tobytes()
        if key not in self._ages:
            row: Any = self.row
            self._ages = dict([*self._ages.items()][-MOST_KEPT:])
            self._ages[key] = sorted(found.tolist(), key=lambda slot: key_order(row[slot]))
        return self._ages[key]

    def rows(self, slots: Iterable[int] | Slots) -> list[Job]:
        """Return the rows of jobs."""
        row = self.row
        return [row[slot] for slot in slots]

    # -- the queue ---------------------------------------------------------------------------
    def join_queue(self, slot: int, allowed: frozenset[int], first_s: float | None) -> None:
        """Insert a job that waits from now on, in place of what it was.

        ``first_s`` is the first submission of a job that was requeued.
        """
        self.leave_queue(slot)
        row: Job = self.row[slot]
        request: JobRequest = self.request[slot]
        place = key_order(row, first_s)
        entry = self._place[slot] = (place, row.key, slot)
        # O(n), but a memmove: a few microseconds for 10,000 waiting jobs
        self.places.insert(bisect_left(self.places, entry), entry)
        self.first_s[slot], self.nodes[slot] = place[0], request.nodes
        self.walltime_s[slot] = min(request.walltime_s, NO_LIMIT_S)
        self.allowed[slot] = sum(1 << p for p in allowed)
        for name in LABELS:
            getattr(self, f"{name}_code")[slot] = self.codes[name].of(getattr(request, name))
        self.version += 1

    def leave_queue(self, slot: int) -> None:
        """Take out a job that no longer waits; nothing happens for one that is not in the queue."""
        entry = self._place.pop(slot, None)
        if entry is not None:
            del self.places[bisect_left(self.places, entry)]
            self.version += 1

    @property
    def queue(self) -> Slots:
        """The queued jobs in the order of equal priorities; the same array as before while nothing changed."""
        if self._order[0] != self.version:
            order = np.fromiter(map(itemgetter(2), self.places), np.int64, len(self.places))
            self._order = self.version, order
        return self._order[1]

    def is_queued(self, slot: int) -> bool:
        """Whether a job stands in the queue."""
        return slot in self._place

    def bar(self, slot: int, reason: str) -> None:
        """Keep a queued job from starting in this round; ``reason`` is empty where its array's limit does."""
        self.stage[slot], self.reason[slot] = Stage.BARRED, reason

    def waiting(self) -> Slots:
        """Return the queued jobs that may start now, in the queue's order; the same array while nothing changed."""
        queue = self.queue
        ready = self.stage[queue] == Stage.HELD
        found = queue if ready.all() else queue[ready]
        if self._waiting[0] != self.version or not np.array_equal(found, self._waiting[1]):
            self._waiting = self.version, found
        return self._waiting[1]

    def known_jobs(self, slots: Slots) -> KnownJobs:
        """Return queued jobs as a policy's job table, in this order."""
        labels: dict[str, Any] = {n: Labels(getattr(self, f"{n}_code")[slots], self.codes[n].names) for n in LABELS}
        columns = self.first_s[slots], self.nodes[slots], self.walltime_s[slots]
        return KnownJobs.build(*columns, job_id=self.name[slots], **labels)


_PENDING = np.isin(np.arange(len(Stage)), list(PENDING))


def _column(length: int, kind: Any) -> NDArray[Any]:
    """Return an empty column."""
    return np.full(length, None, object) if kind is np.object_ else np.zeros(length, kind)


def _apart(old: Sequence[Job], new: Sequence[Job]) -> tuple[dict[int, Job], dict[int, Job]]:
    """Return the rows of two lists between their common beginning and their common end, by identity.

    Most rounds change few rows of many thousands, and often at one place of the list.
    """
    head = _alike(old, new)
    tail = min(_alike(reversed(old), reversed(new)), min(len(old), len(new)) - head)
    parts = (rows[head : len(rows) - tail] for rows in (old, new))
    before, after = ({id(row): row for row in part} for part in parts)
    return before, after


def _alike(one: Iterable[Job], other: Iterable[Job]) -> int:
    """Return at how many places from the first on two lists hold the same objects."""
    same = list(map(operator.is_, one, other))
    return same.index(False) if False in same else len(same)
