"""Compute the fewest writes that take a Slurm from what it is to what it should be.

Pure: a snapshot and a goal in, a list of :class:`Write` out. ``apply`` carries the writes out. Comparing with the
snapshot is what makes the controller idempotent: a second call with the state that the first one produced returns
an empty list, so a controller that was killed at any point continues from whatever Slurm shows.

Order of the writes
-------------------
Each write takes effect alone, and the controller may die between any two. The order therefore keeps the sum of
licences below the budget after *every* prefix of the list:

1. a smaller pool, first of all: no start of Slurm's own can then use the watts that are to be given up;
2. what lowers a job's watts or takes a release back;
3. requeues and stops of nodes;
4. what raises a running job's watts, into room that the lowering has made;
5. a larger pool;
6. starts, in the order in which the policy decided them.

A start is one ``scontrol update`` (partition, licences, number of nodes, nodes, time limit) and then one release.
All fields change in the same update, because slurmctld applies one update under one lock: there is no moment at
which a job has the new licences and the old range of nodes. The number of nodes is pinned as a range
``NumNodes=N-N``. With ``NumNodes=N`` Slurm 22.05 changes the minimum only and keeps the maximum (seen: ``2-4``),
and a job with a range gets the maximum when nodes are free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.slurm.snapshot import LICENCE, JobKey, JobRow, SlurmSnapshot

Kind = Literal["pool", "update", "hold", "release", "priority", "requeue", "frequency", "power"]
RESERVATION = "wattqueue"
"""Name of the licence reservation that withholds watts from jobs."""


class JobGoal(NamedTuple):
    """The wanted state of one job; None leaves a field as it is."""

    key: JobKey
    held: bool | None = None
    """False releases a held job, True holds a pending one. A running job is never held."""
    partition: str | None = None
    watts: int | None = None
    """Count of our licence for the whole job."""
    nodes: tuple[str, ...] | None = None
    """Names of nodes that the job must get (``ReqNodeList``); empty lifts the requirement."""
    limit_s: float | None = None
    priority: int | None = None
    frequency_khz: int | None = None
    """Frequency that TaskProlog passes to the job's steps; 0 removes it."""
    comment: str | None = None
    why: str = ""
    """Reason for the audit log."""
    node_count: int | None = None
    """Number of nodes to pin, so that Slurm can neither give more than ``watts`` counts nor fewer."""
    reassert: bool = False
    """Write ``watts`` even if Slurm shows them already, so that it counts them again.

    slurmctld drops an update to the same text, so another count is written first: one more, so that the job never
    counts for too little, or one less where more than the whole pool would be refused.
    """


class NodeGoal(NamedTuple):
    """Whether a node should be powered."""

    name: str
    powered: bool
    why: str = ""


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


class Write(NamedTuple):
    """One change: the command's arguments (or the new content of the pool, or of a frequency file), and its reason.

    ``before`` and ``after`` are for the audit log and for ``live status``; ``target`` is a job, a node or a licence.
    """

    kind: Kind
    target: str
    argv: tuple[str, ...]
    before: str
    after: str
    why: str
    key: JobKey | None = None
    lowers: bool = False
    """Whether it can only lower what running jobs may draw: such a write needs no record and no store of state."""


def plan_writes(snapshot: SlurmSnapshot, goal: Goal, frequencies: Mapping[str, int] | None = None) -> list[Write]:
    """Return the fewest writes from a snapshot to a goal, in the order of the module's description.

    ``frequencies`` are the kHz that stand in the per-job files now, by job name. Goals for jobs that are gone are
    skipped: a job may end between the decision and the write.
    """
    files = frequencies or {}
    lowering: list[Write] = []
    raising: list[Write] = []
    starting: list[Write] = []
    for wanted in goal.jobs:
        row = snapshot.by_key.get(wanted.key)
        if row is None:
            continue
        writes = [*_reassert(snapshot, row, wanted), *job_writes(row, wanted, files)]
        if row.held and wanted.held is False:
            starting += writes
        elif wanted.held and not row.held and row.pending:
            lowering += writes
        elif wanted.watts is not None and wanted.watts > max(row.watts, 0):
            raising += writes
        else:
            lowering += writes
    requeue = [w for key, why in goal.requeue for w in _requeue(snapshot, key, why)]
    pool = list(_pool(snapshot, goal))
    grows = bool(pool) and int(pool[0].after) > int(pool[0].before)
    down = [w for node in goal.nodes for w in _power(snapshot, node)]
    safe = [w._replace(lowers=w.after != "on") for w in (*([] if grows else pool), *lowering, *requeue, *down)]
    return [*safe, *raising, *(pool if grows else []), *starting]


def _pool(snapshot: SlurmSnapshot, goal: Goal) -> Iterator[Write]:
    """The write of the pool, clipped to what slurm.conf states: a reservation can only withhold."""
    if goal.pool_w is None or snapshot.pool is None:
        return
    wanted = max(0, min(goal.pool_w, snapshot.pool.total))
    if wanted != snapshot.pool.open_w:
        yield Write("pool", LICENCE, (), str(snapshot.pool.open_w), str(wanted), goal.why_pool or "the cap moved")


def job_writes(row: JobRow, goal: JobGoal, files: Mapping[str, int]) -> Iterator[Write]:
    """Writes of one job: hold, update, frequency, release, priority.

    A hold comes before the update: between the two a released job with lowered licences could start. The priority
    comes after the release, since Slurm refuses it for a held job ("Job is in held state").
    """
    name = row.key.name.partition("+")[0]  # commands take a heterogeneous job (152+0) as a whole, by its leader
    if goal.held and row.pending and not row.held:
        yield Write("hold", name, ("scontrol", "hold", name), "released", "held", goal.why, row.key)
    changes = list(_changes(row, goal))
    if changes:
        argv = ("scontrol", "update", f"JobId={name}", *(f"{field}={new}" for field, _, new in changes))
        before = " ".join(f"{field}={old}" for field, old, _ in changes)
        after = " ".join(f"{field}={new}" for field, _, new in changes)
        yield Write("update", name, argv, before, after, goal.why, row.key)
    wanted_khz = goal.frequency_khz
    if wanted_khz is not None and files.get(name, 0) != wanted_khz:
        yield Write("frequency", name, (), str(files.get(name, 0)), str(wanted_khz), goal.why, row.key)
    starts = row.held and goal.held is False
    if starts:
        yield Write("release", name, ("scontrol", "release", name), "held", "released", goal.why, row.key)
    if goal.priority is not None and row.pending and (starts or not row.held) and row.priority != goal.priority:
        argv = ("scontrol", "update", f"JobId={name}", f"Priority={goal.priority}")
        yield Write("priority", name, argv, str(row.priority), str(goal.priority), goal.why, row.key)


def _reassert(snapshot: SlurmSnapshot, row: JobRow, goal: JobGoal) -> Iterator[Write]:
    """The first of the two updates that make Slurm count a job's watts again."""
    if not goal.reassert or goal.watts is None or goal.watts <= 0 or not (row.held or row.active):
        return
    total = snapshot.pool.total if snapshot.pool is not None else goal.watts + 1
    other = goal.watts + 1 if goal.watts < total else goal.watts - 1
    name, text = row.key.name, _licences(row, other)
    argv = ("scontrol", "update", f"JobId={name}", f"Licenses={text}")
    yield Write("update", name, argv, f"Licenses={_licences(row, row.watts)}", f"Licenses={text}", goal.why, row.key)


def _changes(row: JobRow, goal: JobGoal) -> Iterator[tuple[str, str, str]]:
    """Fields of one update as (field, before, after). Size, partition and nodes change while a job waits only."""
    listed = row.listed_partition or row.partition
    if goal.partition is not None and goal.partition != listed and row.pending:
        yield "Partition", listed, goal.partition
    if goal.node_count is not None and row.pending and _pin_differs(row, goal):
        before = "-".join(map(str, row.range_nodes))
        yield "NumNodes", before, f"{goal.node_count}-{goal.node_count}"
    if goal.watts is not None and (goal.watts != row.watts or goal.reassert):
        yield "Licenses", _licences(row, row.watts), _licences(row, goal.watts)
    if goal.nodes is not None and row.pending and set(goal.nodes) != set(expand(row.requested)):
        yield "ReqNodeList", row.requested, compress(goal.nodes)
    if goal.limit_s is not None and math.isfinite(row.walltime_s):
        minutes = math.ceil(goal.limit_s / 60.0 - 1e-9)
        if minutes != round(row.walltime_s / 60.0):
            yield "TimeLimit", str(round(row.walltime_s / 60.0)), str(minutes)
    if goal.comment is not None:
        yield "Comment", "", goal.comment


def _pin_differs(row: JobRow, goal: JobGoal) -> bool:
    """Whether the number of nodes has to be written.

    At a start always where the row is not exactly that number. A job whose user stated no maximum is printed as if
    the maximum were the minimum, but the lua script has set one on every job that carries watts.
    """
    return row.range_nodes != (goal.node_count, goal.node_count) or row.watts < 0


def _licences(row: JobRow, watts: int) -> str:
    """The whole list of licences: an update replaces all, so those of others are written again as they stand."""
    return ",".join([*row.licences, *([f"{LICENCE}:{watts}"] if watts >= 0 else [])])


def _requeue(snapshot: SlurmSnapshot, key: JobKey, why: str) -> Iterator[Write]:
    """``requeuehold`` and not ``requeue``: after a plain one Slurm could start the job before the next round."""
    row = snapshot.by_key.get(key)
    if row is not None and row.active:
        argv = ("scontrol", "requeuehold", key.name)
        yield Write("requeue", key.name, argv, row.state, "PENDING", why, key)


def _power(snapshot: SlurmSnapshot, goal: NodeGoal) -> Iterator[Write]:
    """Stop an idle node, or wake one that is off. A node that boots or stops already is left alone."""
    node = snapshot.by_node.get(goal.name)
    if node is None:
        return
    if goal.powered and node.power == "off":
        state = "POWER_UP"
    elif not goal.powered and node.power == "on" and node.usable and not node.busy:
        state = "POWER_DOWN"
    else:
        return
    argv = ("scontrol", "update", f"NodeName={goal.name}", f"State={state}")
    yield Write("power", goal.name, argv, node.power, "on" if goal.powered else "off", goal.why)
