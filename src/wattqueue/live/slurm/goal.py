"""What should be, and the fewest writes that take a Slurm there. Pure: a snapshot and a goal in, writes out.

Writes stand in the order that keeps the budget at every moment: what lowers comes before what
raises, and what raises before what starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from wattqueue.formats.hostlist import compress, expand
from wattqueue.live.slurm.snapshot import LICENCE, JobKey, JobRow, Snapshot

Kind = Literal["pool", "update", "hold", "release", "priority", "requeue", "frequency", "power"]
RESERVATION = "wattqueue"


class JobGoal(NamedTuple):
    """What one job should look like; None leaves a field as it is.

    ``watts`` is the count of our licence, ``nodes`` a list of names (empty: any), ``limit_s`` the
    time limit, ``frequency_khz`` what TaskProlog hands to the job's steps (0: nothing).
    """

    key: JobKey
    held: bool | None = None
    partition: str | None = None
    watts: int | None = None
    nodes: tuple[str, ...] | None = None
    limit_s: float | None = None
    priority: int | None = None
    frequency_khz: int | None = None
    comment: str | None = None
    why: str = ""


class NodeGoal(NamedTuple):
    """A node that should be powered, or not."""

    name: str
    powered: bool
    why: str = ""


class Goal(NamedTuple):
    """What should be. Jobs that start stand in the order in which they start; ``pool_w`` None leaves the pool."""

    pool_w: int | None = None
    jobs: tuple[JobGoal, ...] = ()
    nodes: tuple[NodeGoal, ...] = ()
    requeue: tuple[tuple[JobKey, str], ...] = ()
    why_pool: str = ""


class Write(NamedTuple):
    """One change: the command's arguments (or what the pool, or a frequency file, is to hold), and its reason."""

    kind: Kind
    target: str
    argv: tuple[str, ...]
    before: str
    after: str
    why: str
    key: JobKey | None = None


def plan(snapshot: Snapshot, goal: Goal, frequencies: Mapping[str, int] | None = None) -> list[Write]:
    """The fewest writes from a snapshot to a goal, lowering before raising, starts last and in order.

    ``frequencies`` are the kHz that stand in the per-job files now, by job name.
    """
    files = frequencies or {}
    lowering: list[Write] = []
    raising: list[Write] = []
    starting: list[Write] = []
    for wanted in goal.jobs:
        row = snapshot.by_key.get(wanted.key)
        if row is None:
            continue
        writes = list(_job_writes(row, wanted, files))
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
    return [*([] if grows else pool), *lowering, *requeue, *down, *raising, *(pool if grows else []), *starting]


def _pool(snapshot: Snapshot, goal: Goal) -> Iterator[Write]:
    if goal.pool_w is None or snapshot.pool is None:
        return
    wanted = max(0, min(goal.pool_w, snapshot.pool.total))
    if wanted != snapshot.pool.open_w:
        yield Write("pool", LICENCE, (), str(snapshot.pool.open_w), str(wanted), goal.why_pool or "the cap moved")


def _job_writes(row: JobRow, goal: JobGoal, files: Mapping[str, int]) -> Iterator[Write]:
    name = row.key.name
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


def _changes(row: JobRow, goal: JobGoal) -> Iterator[tuple[str, str, str]]:
    """Fields of one update as (field, before, after)."""
    if goal.partition is not None and goal.partition != row.partition and row.pending:
        yield "Partition", row.partition, goal.partition
    if goal.watts is not None and goal.watts != row.watts:
        yield "Licenses", _licences(row, row.watts), _licences(row, goal.watts)
    if goal.nodes is not None and row.pending and set(goal.nodes) != set(expand(row.requested)):
        yield "ReqNodeList", row.requested, compress(goal.nodes)
    if goal.limit_s is not None and math.isfinite(row.walltime_s):
        minutes = math.ceil(goal.limit_s / 60.0 - 1e-9)
        if minutes != round(row.walltime_s / 60.0):
            yield "TimeLimit", str(round(row.walltime_s / 60.0)), str(minutes)
    if goal.comment is not None:
        yield "Comment", "", goal.comment


def _licences(row: JobRow, watts: int) -> str:
    return ",".join([*row.licences, *([f"{LICENCE}:{watts}"] if watts >= 0 else [])])


def _requeue(snapshot: Snapshot, key: JobKey, why: str) -> Iterator[Write]:
    row = snapshot.by_key.get(key)
    if row is not None and row.active:
        argv = ("scontrol", "requeuehold", key.name)
        yield Write("requeue", key.name, argv, row.state, "PENDING", why, key)


def _power(snapshot: Snapshot, goal: NodeGoal) -> Iterator[Write]:
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
