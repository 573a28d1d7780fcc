"""Compute the fewest writes that take a cluster from what it is to what it should be.

Pure: a snapshot and a goal in, a list of writes (``live.cluster``) out. ``live.apply`` carries them out. Comparing
with the snapshot is what makes the controller idempotent: a second call with the state that the first one produced
returns an empty list, so a controller that was killed at any point continues from whatever the cluster shows.

Order of the writes
-------------------
Each write takes effect alone, and the controller may die between any two. The order therefore keeps the sum of
the jobs' watts below the budget after *every* prefix of the list:

1. a smaller pool, first of all: no start of the resource manager's own can then use the watts that are to be given up;
2. what lowers a job's watts or takes a release back;
3. requeues and stops of nodes, then stops of jobs, and after all of these the lowering of their watts;
4. what raises a running job's watts, into room that the lowering has made; stopped jobs continue after that;
5. a larger pool;
6. starts, in the order in which the policy decided them.

A start is one change of the job (partition, watts, number of nodes, nodes, time limit) and then one release. All
fields change in the same write: there is no moment at which a job has the new watts and the old range of nodes. The
number of nodes is pinned to one number, so that the job is given neither more nodes than its watts count nor fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wattqueue.live.cluster import (
    LIMIT_STEP_S,
    POOL,
    ChangeJob,
    ContinueJob,
    HoldJob,
    Job,
    JobFields,
    JobKey,
    PowerNode,
    ReleaseJob,
    RequeueJob,
    SetDomains,
    SetDrain,
    SetJobFrequency,
    SetPool,
    SetPriority,
    Snapshot,
    StopJob,
    Write,
    only_reduces_power,
)


class JobGoal(NamedTuple):
    """The wanted state of one job; None leaves a field as it is."""

    key: JobKey
    held: bool | None = None
    """False releases a held job, True holds a pending one. A running job is never held."""
    partition: str | None = None
    watts: int | None = None
    """Net watts to count for the whole job."""
    nodes: tuple[str, ...] | None = None
    """Names of nodes that the job must get; empty lifts the requirement."""
    limit_s: float | None = None
    priority: int | None = None
    frequency_khz: int | None = None
    """Frequency that the job's steps are told to use; 0 removes it."""
    comment: str | None = None
    why: str = ""
    """Reason for the audit log."""
    node_count: int | None = None
    """Number of nodes to pin, so that the job gets neither more than ``watts`` counts nor fewer."""
    rewrite_watts: bool = False
    """Write ``watts`` even if they are shown already, so that they are counted again."""
    stopped: bool | None = None
    """True stops a job before its watts are lowered, False continues one after they were raised.

    Both are written again where the job is shown so already: a kill may have left it half done.
    """
    resend_stop: bool = False
    """Stop a job that is shown as stopped, once more."""
    component_only: bool = False
    """Write to one component by its own number: the job that it belongs to is gone."""
    domains: tuple[tuple[str, int], ...] | None = None
    """Watts to count in power domains, by their licences: all of them."""


class NodeGoal(NamedTuple):
    """Whether a node should be powered, and whether it should take jobs; None leaves it as it is."""

    name: str
    powered: bool | None
    why: str = ""
    drained: bool | None = None


class Goal(NamedTuple):
    """The wanted state of the cluster. Jobs that start stand in the order in which they start.

    ``pool_w`` are the watts that running jobs may hold together; None leaves the pool. ``requeue`` lists jobs that
    go back to the queue, each with the reason.
    """

    pool_w: int | None = None
    jobs: tuple[JobGoal, ...] = ()
    nodes: tuple[NodeGoal, ...] = ()
    requeue: tuple[tuple[JobKey, str], ...] = ()
    why_pool: str = ""
    domains: tuple[tuple[str, int], ...] = ()
    """Watts that running jobs may hold in power domains together, by their licences; those not named are left."""


def counted_text(counts: Sequence[tuple[str, int]]) -> str:
    """Return counts of licences as ``NAME:COUNT,...``."""
    return ",".join(f"{name}:{count}" for name, count in counts)


def plan_writes(snapshot: Snapshot, goal: Goal) -> list[Write]:
    """Return the fewest writes from a snapshot to a goal, in the order of the module's description.

    Goals for jobs that are gone are skipped: a job may end between the decision and the write.
    """
    lowering: list[Write] = []
    parking: list[Write] = []
    raising: list[Write] = []
    starting: list[Write] = []
    for wanted in goal.jobs:
        row = snapshot.by_key.get(wanted.key)
        if row is None:
            continue
        writes = job_writes(row, wanted, snapshot.frequencies)
        if row.held and wanted.held is False:
            starting += writes
        elif wanted.held and not row.held and row.pending:
            lowering += writes
        elif wanted.stopped is False or (wanted.watts is not None and wanted.watts > max(row.watts, 0)):
            raising += writes
        elif wanted.stopped:
            parking += writes
        else:
            lowering += writes
    requeue = [w for key, why in goal.requeue for w in _requeue(snapshot, key, why)]
    # together by kind, so that each kind is carried out at once
    parking.sort(key=lambda write: not isinstance(write, StopJob))
    raising.sort(key=lambda write: isinstance(write, ContinueJob))
    fewer, more = _domains(snapshot, goal)
    pool = list(_pool(snapshot, goal))
    grows = bool(pool) and int(pool[0].after) > int(pool[0].before)
    power = [w for node in goal.nodes for w in _power(snapshot, node)]
    safe = [*([] if grows else pool), *fewer, *lowering, *requeue, *power]
    rows = snapshot.by_key
    marked = [replace(w, reduces_power=only_reduces_power(w, rows.get(w.key) if w.key else None)) for w in safe]
    # not marked as lowering: nobody would continue a job whose stop was not stored
    return [*marked, *parking, *raising, *(pool if grows else []), *more, *starting]


def _pool(snapshot: Snapshot, goal: Goal) -> Iterator[SetPool]:
    """Yield the write of the pool, clipped to its total: watts can only be withheld."""
    if goal.pool_w is None or snapshot.pool is None:
        return
    wanted, now = max(0, min(goal.pool_w, snapshot.pool.total)), snapshot.pool.open_w
    if wanted != now:
        why, uncounted = goal.why_pool or "the cap moved", snapshot.pool.uncounted
        if uncounted:
            why += f"; {uncounted} W that jobs hold are not counted by the cluster"
        yield SetPool(POOL, str(now), str(wanted), wanted, why=why)


def _domains(snapshot: Snapshot, goal: Goal) -> tuple[list[SetDomains], list[SetDomains]]:
    """Return the writes of power domains: first what falls, and where some rise all of them."""
    now = tuple((name, pool.open_w) for name, pool in snapshot.domains.items())
    wanted = dict(goal.domains)
    after = tuple((name, max(0, min(wanted.get(name, w), snapshot.domains[name].total))) for name, w in now)
    least = tuple((name, min(w, then)) for (name, w), (_, then) in zip(now, after, strict=True))
    first, last = counted_text(now), counted_text(after)
    why = "what their limits leave, less what jobs hold there beside their licences"
    fewer = [SetDomains("domains", first, counted_text(least), least, why=why)] if least != now else []
    return fewer, [SetDomains("domains", first, last, after, why=why)] if after != least else []


def job_writes(row: Job, goal: JobGoal, frequencies: Mapping[str, int]) -> Iterator[Write]:
    """Yield the writes of one job: hold, stop, change, frequency, continue, release, priority.

    A hold comes before the change: between the two a released job with lowered watts could start. The priority
    comes after the release, since a held job has none.
    """
    name, key, why = str(row.number) if goal.component_only else row.target, row.key, goal.why
    if goal.held and row.pending and row.held_by in ("", "manager"):
        # what the resource manager held itself, it may release at the change
        yield HoldJob(name, "held by it" if row.held else "released", "held", why=why, key=key)
    reduces_power = goal.watts is not None and goal.watts < row.watts
    if goal.stopped and (row.state == "running" or (row.state == "stopped" and (reduces_power or goal.resend_stop))):
        yield StopJob(name, row.state, "stopped", why=why, key=key)
    old, new = _changes(row, goal)
    if new != JobFields():
        recount = goal.rewrite_watts and new.watts is not None and new.watts > 0 and (row.held or row.active)
        yield ChangeJob(key.name, str(old), str(new), new, recount, why=why, key=key)
    khz, now_khz = goal.frequency_khz, frequencies.get(name, 0)
    if khz is not None and now_khz != khz:
        yield SetJobFrequency(name, str(now_khz), str(khz), khz, why=why, key=key)
    if goal.stopped is False and row.state in ("stopped", "running"):
        yield ContinueJob(name, row.state, "running", why=why, key=key)
    starts = row.held and goal.held is False
    if starts:
        yield ReleaseJob(name, "held", "released", why=why, key=key)
    if goal.priority is not None and row.pending and (starts or not row.held) and row.priority != goal.priority:
        yield SetPriority(name, str(row.priority), str(goal.priority), goal.priority, why=why, key=key)


def _changes(row: Job, goal: JobGoal) -> tuple[JobFields, JobFields]:
    """Return the fields that differ, before and after. Partition and nodes change only while a job waits."""
    old: dict[str, object] = {}
    new: dict[str, object] = {}

    def change(name: str, before: object, after: object) -> None:
        old[name], new[name] = before, after

    listed = row.listed_partition or row.partition
    if goal.partition is not None and goal.partition != listed and row.pending:
        change("partition", listed, goal.partition)
    if goal.node_count is not None and row.pending and row.range_nodes != (goal.node_count, goal.node_count):
        change("node_count", row.range_nodes, (goal.node_count, goal.node_count))
    if goal.watts is not None and (goal.watts != row.watts or goal.rewrite_watts):
        change("watts", row.watts, goal.watts)
    if goal.nodes is not None and row.pending and set(goal.nodes) != set(row.requested):
        change("nodes", row.requested, goal.nodes)
    if goal.limit_s is not None and math.isfinite(row.walltime_s):
        limit_s = LIMIT_STEP_S * math.ceil(goal.limit_s / LIMIT_STEP_S - 1e-9)
        if limit_s != row.walltime_s:
            change("limit_s", row.walltime_s, limit_s)
    if goal.comment is not None:
        change("comment", "", goal.comment)
    if goal.domains is not None and sorted(goal.domains) != sorted(row.domains):
        change("domains", row.domains, goal.domains)
    return JobFields(**old), JobFields(**new)  # type: ignore[arg-type]


def _requeue(snapshot: Snapshot, key: JobKey, why: str) -> Iterator[Write]:
    """Yield the requeue of an active job."""
    row = snapshot.by_key.get(key)
    if row is not None and row.active:
        yield RequeueJob(key.name, row.state, "pending", why=why, key=key)


def _power(snapshot: Snapshot, goal: NodeGoal) -> Iterator[Write]:
    """Yield the stop of an idle node, or the waking of one that is off. One that boots or stops is left alone.

    A drain comes before, and is taken back before: a node that is awake takes jobs at once.
    """
    node = snapshot.by_node.get(goal.name)
    if node is None:
        return
    # a node that is off does not show whether it is drained
    differs = goal.drained is not None and (node.power != "on" or goal.drained != node.state.startswith("drain"))
    if goal.drained is not None and differs and goal.powered is not False:
        before, after = ("in service", "drained") if goal.drained else ("drained", "in service")
        yield SetDrain(goal.name, before, after, goal.drained, why=goal.why)
    wake = goal.powered is True and node.power == "off"
    free = node.state == "drained" if goal.drained else node.usable and not node.busy
    stop = goal.powered is False and node.power == "on" and free
    if wake or stop:
        yield PowerNode(goal.name, node.power, "on" if wake else "off", wake, why=goal.why)
