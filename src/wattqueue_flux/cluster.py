"""The driver of Flux: the scheduler's own view of an instance as a cluster (``live.cluster.Cluster``).

It runs inside the broker module, so nothing is read from outside: the module tells it each message of the protocol
(RFC 27), and ``observe`` returns what is known. A job that waits is held by nobody but this scheduler, so each appears
as held by the operator; a release is its start. Here stands the one check behind which nothing starts: free nodes that
may serve the job, and watts that the pool has.

Two threads use it: the module's, which tells what Flux says, and that of the rounds. ``lock`` is held by whoever is at
work in it, for a few milliseconds at most; rows are never changed, only replaced.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

from wattqueue.live.apply import Journal
from wattqueue.live.cluster import (
    LIMIT_STEP_S,
    UNANSWERED,
    ChangeJob,
    ClusterError,
    ContinueJob,
    Details,
    HoldJob,
    Job,
    JobFields,
    JobKey,
    Node,
    Pool,
    ReleaseJob,
    SetDrain,
    SetPool,
    SetPriority,
    SiteConstraints,
    Snapshot,
    StopJob,
    Write,
    apply_each,
)
from wattqueue.live.driver import Finding
from wattqueue_flux.jobspec import NodeNeed
from wattqueue_flux.nodes import Cache, FluxInstance, FluxNode

TOTAL_W = 2**31 - 1
"""The pool has no total of its own; this is more than any cap."""
OF_ROW = {"watts": "watts", "nodes": "requested", "partition": "partition", "limit_s": "walltime_s"}
"""Fields of a row that a change states."""
STOP, CONTINUE = 19, 18
"""Numbers of SIGSTOP and SIGCONT."""


class Grant(NamedTuple):
    """A start that the module answers: R, and the annotations of the ``alloc`` response."""

    job_id: int
    resources: dict[str, Any]
    annotations: dict[str, Any]


class Instructions(Protocol):
    """What the driver has the module do."""

    def start(self, start: Grant) -> None:
        """Answer the request, soon. Raises: ClusterError where it was answered already."""

    def signal(self, job_id: int, number: int) -> None:
        """Send a signal to the processes of a job."""

    def drain(self, rank: int, *, on: bool) -> None:
        """Drain a node, or take that back."""


class StartsBeside:
    """A journal of the writes that start no job: Flux records each start in its job's event log, with its watts.

    ``waits`` tells whether a job waits: what is changed of it then is part of its start.
    """

    def __init__(self, journal: Journal, waits: Callable[[JobKey | None], bool]) -> None:
        self.journal, self.waits = journal, waits

    def _starts(self, write: Write) -> bool:
        return isinstance(write, ReleaseJob) or (isinstance(write, ChangeJob) and self.waits(write.key))

    def intend(self, writes: Sequence[Write]) -> list[int]:
        """Record the writes that are no starts; 0 stands for what is not recorded. Raises: OutputError."""
        starts = [self._starts(write) for write in writes]
        kept = [write for write, starting in zip(writes, starts, strict=True) if not starting]
        numbers = iter(self.journal.intend(kept) if kept else ())
        return [0 if starting else next(numbers) for starting in starts]

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        """Record the outcomes of these. Raises: OutputError."""
        kept = [one for one in outcomes if one[0]]
        if kept:
            self.journal.record_outcomes(kept)


@dataclass
class _Entry:
    """What is known of one job."""

    row: Job
    details: Details
    need: NodeNeed | None
    """None for a job that ran before the module was loaded, or that is cancelled while its start is stored."""
    unlimited: bool
    """Whether it ends with the instance alone."""
    priority: int = 0
    changed: JobFields = field(default_factory=JobFields)
    """What a start uses instead of what the job requested."""


class NodeBook:
    """The nodes of an instance and who holds them, as rows that stay the same objects while nothing changes."""

    def __init__(self, instance: FluxInstance) -> None:
        self.instance = instance
        self.holder: dict[str, int] = {}
        """Job by name of the node that it holds."""
        self._list: tuple[Node, ...] | None = None
        self._rows: dict[str, Node] = {}
        self._parts: dict[frozenset[str] | None, tuple[list[str], bool, int]] = Cache()

    def update(self, instance: FluxInstance) -> None:
        """Take over other nodes, or other states of them."""
        self.instance, self._list, self._parts = instance, None, Cache()

    def partitions(self, able: frozenset[str] | None) -> tuple[list[str], bool, int]:
        """Return the partitions of nodes that may serve a job (None: all), whether others are in them, and how many."""
        if able not in self._parts:
            of, lost = self.instance.partition, self.instance.lost
            there = {one.name: of[one.name] for one in self.instance.nodes if one.name in of and one.rank not in lost}
            left = there.keys() if able is None else there.keys() & able
            found = {there[name] for name in left}
            apart = sum(part in found for part in there.values()) > len(left)
            self._parts[able] = sorted(found), apart, len(left)
        return self._parts[able]

    def hold(self, names: Iterable[str], job_id: int) -> None:
        """Give nodes to a job."""
        self.holder |= dict.fromkeys(names, job_id)
        self._list = None

    def release(self, names: Iterable[str]) -> None:
        """Take nodes back."""
        for name in names:
            self.holder.pop(name, None)
        self._list = None

    def rows(self) -> tuple[Node, ...]:
        """Return the rows of all nodes."""
        if self._list is None:
            self._list = tuple(self._row(node) for node in self.instance.nodes)
            self._rows = {node.name: node for node in self._list}
        return self._list

    def _row(self, node: FluxNode) -> Node:
        up, busy = node.rank in self.instance.up, node.name in self.holder
        state = ("allocated" if busy else "idle") if up else "down"
        part = self.instance.partition.get(node.name)
        new = Node(node.name, state, "on", up, busy, () if part is None else (part,))
        old = self._rows.get(node.name)
        return old if old == new and old is not None else new

    def free(self, row: Job, need: NodeNeed, chosen: Sequence[str], count: int) -> list[str]:
        """Return the nodes that the policy chose; where constraints forbid one, others of the partition that are free.

        A policy knows partitions, and no other constraints of a job.
        """

        def serves(name: str) -> bool:
            node = self.instance.by_name.get(name)
            able = need.able is None or name in need.able
            return node is not None and able and node.rank in self.instance.up and name not in self.holder

        if all(serves(name) for name in chosen) and len(chosen) >= count:
            return list(chosen)
        parts = {self.instance.partition.get(name) for name in chosen} or set(row.partition.split(","))
        names = (node.name for node in self.instance.nodes if self.instance.partition.get(node.name) in parts)
        return list(islice(filter(serves, names), max(count, len(chosen))))


class FluxCluster:
    """One Flux instance. ``clock`` gives seconds since the epoch."""

    name = "Flux"

    def __init__(
        self, instance: FluxInstance, do: Instructions, clock: Callable[[], float], no_limit_s: float = math.inf,
        most_w: Callable[[str], int] = lambda _partition: 0,
    ) -> None:  # fmt: skip
        """``no_limit_s``: when jobs without a limit are expected to end. ``most_w``: net maximum of a node."""
        self.nodes, self.do, self.clock = NodeBook(instance), do, clock
        self.no_limit_s, self.most_w = no_limit_s, most_w
        self.jobs: dict[int, _Entry] = {}
        self.open_w = 0
        self.used_w = 0
        self.expiration_s = 0.0
        """When the instance itself ends; 0 for never."""
        self.lock = threading.RLock()
        self._id: dict[JobKey, int] = {}
        self._priority: dict[JobKey, Mapping[str, float]] | None = None

    @property
    def instance(self) -> FluxInstance:
        """The nodes of the instance."""
        return self.nodes.instance

    # -- what the module tells -------------------------------------------------------------------
    def queued(self, job_id: int, key: JobKey, uid: int, priority: int, need: NodeNeed, details: Details) -> None:
        """A job asks for resources."""
        parts, _, _ = self.nodes.partitions(need.able)
        walltime_s = need.duration_s or self._unlimited_s(self.clock())
        most_w = max((self.most_w(name) for name in parts), default=0) * need.nodes
        row = Job(
            key, job_id, "pending", "", ",".join(parts), need.nodes, 0, walltime_s, most_w, priority, uid, math.nan,
            (), (), True, "operator", need.most, "", (need.nodes, need.most),
        )  # fmt: skip
        self._put(job_id, _Entry(row, details, need, not need.duration_s, priority))

    def runs(
        self, job_id: int, key: JobKey, uid: int, ranks: Iterable[int], start_s: float, end_s: float, watts: int | None
    ) -> None:
        """A job runs since before the module was loaded. ``watts``: None where nothing states them."""
        names = self.instance.names(ranks)
        parts = [self.instance.partition[name] for name in names if name in self.instance.partition]
        counted = watts if watts is not None else sum(map(self.most_w, parts))
        unlimited = end_s in (0.0, self.expiration_s)
        walltime_s = self._unlimited_s(start_s) if unlimited else end_s - start_s
        row = Job(
            key, job_id, "running", "", parts[0] if parts else "", len(names), 0, walltime_s, counted, 0, uid, start_s,
            names, (), True, "", len(names),
        )  # fmt: skip
        self._put(job_id, _Entry(row, Details("", f"u{uid}", "", "", "", 0, 1, 0), None, unlimited))

    def prioritized(self, job_id: int, priority: int) -> None:
        """The priority of a waiting job changed."""
        entry = self.jobs.get(job_id)
        if entry is not None and entry.priority != priority:
            entry.priority, self._priority = priority, None
            entry.row = entry.row._replace(priority=priority)

    def expires(self, job_id: int, end_s: float) -> None:
        """A running job has another expiration; 0 for none."""
        entry = self.jobs.get(job_id)
        if entry is not None and entry.row.active:
            entry.unlimited, start_s = end_s <= 0, entry.row.start_s
            walltime_s = self._unlimited_s(start_s) if entry.unlimited else end_s - start_s
            entry.row = entry.row._replace(walltime_s=walltime_s)

    def ends_at(self, end_s: float) -> None:
        """The instance itself ends then, 0 for never, and with it its jobs without a limit."""
        self.expiration_s = end_s
        for entry in (one for one in self.jobs.values() if one.unlimited):
            start_s = entry.row.start_s if entry.row.active else self.clock()
            entry.row = entry.row._replace(walltime_s=self._unlimited_s(start_s))

    def _unlimited_s(self, start_s: float) -> float:
        """Return after how long a job without a limit is expected to end."""
        return min(self.no_limit_s, max(self.expiration_s - start_s, 1.0) if self.expiration_s > 0 else math.inf)

    def unservable(self) -> list[int]:
        """Return the jobs that wait for more nodes than are left of those that may serve them."""
        waiting = [(k, one.need) for k, one in self.jobs.items() if one.row.pending and one.need is not None]
        return [job_id for job_id, need in waiting if self.nodes.partitions(need.able)[2] < need.nodes]

    def freed(self, job_id: int, ranks: Iterable[int], *, final: bool) -> None:
        """A job gave some or all of its nodes back. Its watts count until the last of them."""
        if final:
            self.gone(job_id)
        elif (entry := self.jobs.get(job_id)) is not None:
            names = set(self.instance.names(ranks))
            self.nodes.release(names)
            left = tuple(name for name in entry.row.node_names if name not in names)
            entry.row = entry.row._replace(state="completing", node_names=left, nodes=len(left))

    def gone(self, job_id: int) -> None:
        """A job was cancelled, refused, or has given everything back."""
        entry = self.jobs.pop(job_id, None)
        if entry is None:
            return
        self._id.pop(entry.row.key, None)
        self._priority = None
        if entry.row.active:
            self.used_w -= entry.row.watts
            self.nodes.release(entry.row.node_names)

    def not_started(self, job_id: int) -> bool:
        """A start could not be carried out. Return whether the job waits again: one that was cancelled does not."""
        entry = self.jobs[job_id]
        self.gone(job_id)
        if entry.need is None:
            return False
        self.queued(job_id, entry.row.key, entry.row.uid, entry.priority, entry.need, entry.details)
        waiting, why = self.jobs[job_id], f"{UNANSWERED}: Flux did not store the allocation"  # it is tried again soon
        waiting.row = waiting.row._replace(reason=why)
        return True

    def waits(self, key: JobKey | None) -> bool:
        """Whether a job waits for its start."""
        entry = None if key is None else self.jobs.get(self._id.get(key, -1))
        return entry is not None and entry.row.pending

    # -- the driver ------------------------------------------------------------------------------
    def observe(self) -> Snapshot:
        """Return what is known now."""
        with self.lock:
            rows = tuple(entry.row for entry in self.jobs.values())
            details = {entry.row.key: entry.details for entry in self.jobs.values()}
            site = SiteConstraints(priority=self._priorities(), nodes=self._able())
            pool = Pool(TOTAL_W, self.used_w, TOTAL_W - self.open_w)
            return Snapshot(self.clock(), rows, self.nodes.rows(), pool, details, site=site)

    def apply(self, write: Write) -> None:
        """Carry one write out. Raises: ClusterError."""
        with self.lock:
            if isinstance(write, SetPool):
                self.open_w = write.open_w
                return
            if isinstance(write, SetDrain):
                node = self.instance.by_name.get(write.target)
                if node is None:
                    raise ClusterError(f"drain {write.target}: no such node")
                self.do.drain(node.rank, on=write.on)
                return
            job_id = self._id.get(write.key) if write.key is not None else None
            entry = None if job_id is None else self.jobs[job_id]
            if job_id is None or entry is None:
                raise ClusterError(f"{write.kind} {write.target}: no such job")
            match write:
                case ReleaseJob():
                    self._start(job_id, entry)
                case ChangeJob():
                    self._change(entry, write.fields)
                case StopJob() | ContinueJob():
                    stops = isinstance(write, StopJob)
                    self.do.signal(job_id, STOP if stops else CONTINUE)
                    entry.row = entry.row._replace(state="stopped" if stops else "running")
                case HoldJob() | SetPriority():
                    pass  # each waiting job is held by the scheduler, and Flux alone sets priorities
                case _:
                    raise ClusterError(f"{write.kind} {write.target}: Flux cannot do this")

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry writes out one after the other; return the error of each."""
        return apply_each(self, writes)

    def check(self) -> Sequence[Finding]:
        """Nothing is installed beside the module."""
        return ()

    def _put(self, job_id: int, entry: _Entry) -> None:
        self.gone(job_id)
        self.jobs[job_id], self._id[entry.row.key], self._priority = entry, job_id, None
        if entry.row.active:
            self.used_w += entry.row.watts
            self.nodes.hold(entry.row.node_names, job_id)

    def _start(self, job_id: int, entry: _Entry) -> None:
        """Grant a waiting job on whole nodes. Raises: ClusterError where nodes or watts are not there."""
        row, need, changed = entry.row, entry.need, entry.changed
        if not row.pending or need is None:
            raise ClusterError(f"release {row.key.name}: it does not wait")
        watts = row.watts
        if watts < 0 or self.used_w + watts > self.open_w:
            text = f"{watts} W beside {self.used_w} W are more than {self.open_w} W"
            raise ClusterError(f"release {row.key.name}: {text}")
        least, most = changed.node_count or (need.nodes, need.most)
        names = self.nodes.free(row, need, changed.nodes or (), least)
        if not least <= len(names) <= most:
            raise ClusterError(f"release {row.key.name}: {len(names)} of {least} nodes are free")
        now_s = self.clock()
        duration_s = need.duration_s
        if changed.limit_s is not None and changed.limit_s > LIMIT_STEP_S * math.ceil(duration_s / LIMIT_STEP_S) > 0:
            duration_s = changed.limit_s  # a slower frequency; else the limit itself, which is written in whole minutes
        end_s = now_s + duration_s if duration_s > 0 else self.expiration_s
        resources = self.instance.resources(names, now_s, end_s, need.slots_of(len(names)))
        annotations = {"wattqueue": {"watts": watts}, "sched": {"reason_pending": None, "t_estimate": None}}
        self.do.start(Grant(job_id, resources, annotations))
        entry.row = row._replace(
            state="running", nodes=len(names), node_names=tuple(names), start_s=now_s, held_by="", requested=(),
            walltime_s=duration_s or self._unlimited_s(now_s),
        )  # fmt: skip
        self.used_w += watts
        self.nodes.hold(names, job_id)

    def _change(self, entry: _Entry, fields: JobFields) -> None:
        """Keep what a start is to use; of a running job watts alone can change."""
        row = entry.row
        if row.active and fields._replace(watts=None, comment=None) != JobFields():
            raise ClusterError(f"update {row.key.name}: of a running job watts alone can change")
        if fields.watts is not None and row.active:
            self.used_w += fields.watts - row.watts
        stated = {name: value for name, value in fields._asdict().items() if value is not None}
        entry.changed = entry.changed._replace(**stated)
        if fields.node_count is not None:
            row = row._replace(nodes=fields.node_count[0], range_nodes=fields.node_count)
        entry.row = row._replace(**{OF_ROW[name]: value for name, value in stated.items() if name in OF_ROW})

    # -- rows that stay the same objects -----------------------------------------------------------
    def _priorities(self) -> Mapping[JobKey, Mapping[str, float]]:
        """Return the priorities of waiting jobs, the same object while none changed."""
        if self._priority is None:
            self._priority = {
                e.row.key: dict.fromkeys(e.row.partition.split(","), float(e.priority))
                for e in self.jobs.values() if e.row.pending
            }  # fmt: skip
        return self._priority

    def _able(self) -> dict[JobKey, frozenset[str]]:
        """Return the nodes that may serve a job whose constraints tell nodes of its partitions apart."""
        waiting = ((e.row.key, e.need.able) for e in self.jobs.values() if e.row.pending and e.need is not None)
        return {key: able for key, able in waiting if able is not None and self.nodes.partitions(able)[1]}
