"""From what Slurm shows to what a policy sees, and back from unit numbers to names.

The licence of a job counts whole watts in the cap's scope (above idle, unless the cap covers jobs
alone), so predictions are rounded up to whole watts first: what the policy admits, Slurm admits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError
from wattqueue.formats.hostlist import expand
from wattqueue.live.slurm.snapshot import JobKey, JobRow, NodeRow, Snapshot
from wattqueue.model.jobs import Floats, Ints
from wattqueue.model.machine import Machine
from wattqueue.policy.decide import RunningJobs

NO_LIMIT_S = 365.0 * 86400.0
OVERDUE_S = 60.0
"""A job beyond its limit, or one that is completing, is expected to be gone within this."""
_NATURAL = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Layout:
    """Which Slurm node is which unit. ``partition_of`` maps Slurm's partitions to the machine's rows."""

    machine: Machine
    names: tuple[str, ...]
    partition_of: Mapping[str, int]

    @classmethod
    def of(cls, machine: Machine, nodes: Sequence[NodeRow], renamed: Mapping[str, str]) -> Layout:
        """Match a machine's partitions with Slurm's, nodes in natural order of their names.

        Raises: MachineError where a partition is missing, has another number of nodes, or shares one.
        """
        rows = {p.name: i for i, p in enumerate(machine.partitions)}
        found: dict[int, set[str]] = {i: set() for i in rows.values()}
        partition_of: dict[str, int] = {}
        for node in nodes:
            for name in node.partitions:
                row = rows.get(renamed.get(name, name))
                if row is not None:
                    partition_of[name] = row
                    found[row].add(node.name)
        names: list[str] = []
        for partition in machine.partitions:
            mine = found[rows[partition.name]]
            if partition.unit != "node":
                raise MachineError(f"partition {partition.name} counts {partition.unit}s; live places nodes")
            if len(mine) != partition.nodes:
                text = f"partition {partition.name} has {partition.nodes} nodes here and {len(mine)} in Slurm"
                raise MachineError(
                    text, where=machine.name, mend="correct the machine, or map names in slurm.partitions"
                )
            names += sorted(mine, key=_natural)
        if len(set(names)) != len(names):
            raise MachineError("a node stands in two partitions of the machine", where=machine.name)
        return cls(machine, tuple(names), partition_of)

    @cached_property
    def unit(self) -> dict[str, int]:
        """Unit number of each node."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First unit of each partition, and the number of units at the end. Shape (P + 1,)."""
        return np.concatenate(([0], np.cumsum([p.nodes for p in self.machine.partitions]))).astype(np.int64)

    @cached_property
    def idle_uw(self) -> NDArray[np.int64]:
        """Idle microwatts of each unit. Shape (units,)."""
        return np.repeat([round(p.idle_w * 1e6) for p in self.machine.partitions], np.diff(self.first)).astype(np.int64)

    @cached_property
    def slurm_partition(self) -> dict[int, str]:
        """A Slurm partition for each row of the machine: the one of its own name where there is one."""
        chosen: dict[int, str] = {}
        for name, row in sorted(self.partition_of.items()):
            if row not in chosen or name == self.machine.partitions[row].name:
                chosen[row] = name
        return chosen

    @cached_property
    def _allowed(self) -> dict[str, frozenset[int]]:
        return {}

    def allowed(self, partition: str) -> frozenset[int]:
        """Machine partitions that a job's ``p1,p2`` lets it use."""
        known = self._allowed.get(partition)
        if known is None:
            known = frozenset(self.partition_of[n] for n in partition.split(",") if n in self.partition_of)
            self._allowed[partition] = known
        return known

    def name_for(self, row: int, asked: str) -> str:
        """Slurm's name for a machine partition, the user's own where he named several for it."""
        named = [n for n in asked.split(",") if self.partition_of.get(n) == row]
        return named[0] if named else self.slurm_partition[row]

    def net_w(self, power_w: Floats) -> Floats:
        """Whole watts that one unit counts in the cap's scope, by option. Shape as ``power_w`` (C, O)."""
        if self.machine.cap_scope == "jobs":
            return np.asarray(np.ceil(power_w - 1e-6), np.float64)
        idle = np.array([p.idle_w for p in self.machine.partitions])[self.machine.option_partition]
        return np.asarray(np.maximum(np.ceil(power_w - idle - 1e-6), 0.0), np.float64)

    def whole_w(self, power_w: Floats) -> Floats:
        """The watts behind ``net_w``: what a policy is told. Shape as ``power_w`` (C, O)."""
        if self.machine.cap_scope == "jobs":
            return self.net_w(power_w)
        idle = np.array([p.idle_w for p in self.machine.partitions])[self.machine.option_partition]
        return idle + self.net_w(power_w)

    def most_net_w(self, row: int) -> int:
        """Whole watts that one unit of a partition counts at most. Raises MachineError where none is stated."""
        partition = self.machine.partitions[row]
        if partition.max_w is None:
            raise MachineError("max_w is not stated", where=f"partition {partition.name}", mend="live needs it")
        return max(
            0, math.ceil(partition.max_w - (0.0 if self.machine.cap_scope == "jobs" else partition.idle_w) - 1e-6)
        )


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in _NATURAL.split(name)]


class Busy(NamedTuple):
    """A job that holds nodes and watts, or is about to: where, until when, and what it counts for."""

    row: JobRow
    partition: int
    option: int
    end_s: float
    net_w: int
    units: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]


class Seen(NamedTuple):
    """Where a running job's row says it runs: partition and sorted units, as long as nobody else holds one."""

    row: JobRow
    partition: int
    units: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]


@dataclass
class Occupation:
    """Who holds which unit: running jobs first, then those under way on what is left."""

    layout: Layout
    busy: list[Busy] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    seen: dict[int, Seen] = field(default_factory=dict)
    """What was found out about rows in the rounds before, by the row's identity."""
    withheld: set[int] = field(default_factory=set)

    def running(self, row: JobRow, option: int, net_w: int, now_s: float) -> None:
        """A job that Slurm runs on nodes of its own."""
        seen = self.seen.get(id(row))
        if seen is None or seen.row is not row:
            units = [self.layout.unit[n] for n in expand(row.node_list) if n in self.layout.unit]
            if not units:
                return
            partition = int(np.searchsorted(self.layout.first, units[0], side="right")) - 1
            low, high = self.layout.first[partition], self.layout.first[partition + 1]
            mine = tuple(sorted(u for u in units if low <= u < high))
            self.withheld |= set(units) - set(mine)
            seen = self.seen[id(row)] = Seen(row, partition, mine, tuple(intervals(mine)))
        mine, runs = seen.units, seen.runs
        if not self.taken.isdisjoint(mine):
            mine = tuple(u for u in mine if u not in self.taken)
            runs = tuple(intervals(mine))
        if mine:
            end_s = row.start_s + min(row.walltime_s, NO_LIMIT_S)
            end_s = end_s if end_s > now_s and row.state != "COMPLETING" else now_s + OVERDUE_S
            self.busy.append(Busy(row, seen.partition, option, end_s, net_w, mine, runs))
            self.taken.update(mine)

    def under_way(
        self, row: JobRow, partition: int, option: int, net_w: int, wanted: Sequence[str], now_s: float
    ) -> None:
        """A job that was released and does not run yet: the nodes meant for it, or others of its partition."""
        low, high = int(self.layout.first[partition]), int(self.layout.first[partition + 1])
        first = [self.layout.unit[n] for n in wanted if n in self.layout.unit]
        free = [u for u in first if u not in self.taken and low <= u < high]
        if len(free) < row.nodes:
            free += [u for u in range(low, high) if u not in self.taken and u not in free and u not in self.withheld]
        mine = tuple(sorted(free[: row.nodes]))
        if mine:
            end_s = now_s + min(row.walltime_s, NO_LIMIT_S)
            self.busy.append(Busy(row, partition, option, end_s, net_w, mine, tuple(intervals(mine))))
            self.taken.update(mine)

    def as_running(self, first_row: int) -> RunningJobs:
        """The policy's own table; job k of it is row ``first_row + k`` of the job table."""
        first: list[int] = []
        count: list[int] = []
        low: list[int] = []
        high: list[int] = []
        for job in self.busy:
            first.append(len(low))
            count.append(len(job.runs))
            for a, b in job.runs:
                low.append(a)
                high.append(b)
        rows = np.arange(first_row, first_row + len(self.busy), dtype=np.int32)
        return RunningJobs(
            rows,
            np.array([b.option for b in self.busy], np.int16),
            np.array([b.end_s for b in self.busy], np.float64),
            np.array([b.net_w * 1_000_000 for b in self.busy], np.int64),
            np.array(first, np.int64),
            np.array(count, np.int32),
            np.array(low, np.int32),
            np.array(high, np.int32),
        )

    def unusable(self, usable: NDArray[np.bool_], hidden: NDArray[np.bool_]) -> Ints:
        """Units that no job of ours holds and none can have, ``hidden`` ones among them. Shape (u,)."""
        out = ~usable | hidden
        if self.withheld:
            out[list(self.withheld)] = True
        if self.taken:
            out[np.fromiter(self.taken, np.int64, len(self.taken))] = False
        return np.flatnonzero(out).astype(np.int32)


@dataclass
class Nodes:
    """What the nodes' states come to, worked out again only where they changed."""

    layout: Layout
    _rows: tuple[NodeRow, ...] = ()
    usable: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    busy: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    base_uw: int = 0
    _alone: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def look(self, snapshot: Snapshot) -> None:
        """Take in the nodes of a snapshot."""
        if snapshot.nodes == self._rows:
            return
        self._rows = snapshot.nodes
        self.usable = self._units(node.name for node in snapshot.nodes if node.usable)
        self.busy = self._units(node.name for node in snapshot.nodes if node.busy)
        self.base_uw = base_uw(self.layout, snapshot)

    def hidden(self, taken: set[int]) -> NDArray[np.bool_]:
        """Units that were busy without a job's row in this round and in the one before. Shape (units,).

        Once is a job that ended between two commands: the unit is as good as free. Twice is a job
        that we may not see.
        """
        alone = self.busy.copy()
        alone[np.fromiter(taken, np.int64, len(taken))] = False
        before, self._alone = self._alone, alone
        return alone & before if len(before) == len(alone) else np.zeros_like(alone)

    def _units(self, names: Iterable[str]) -> NDArray[np.bool_]:
        found = set(names)
        return np.fromiter((name in found for name in self.layout.names), np.bool_, len(self.layout.names))


def intervals(units: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers of a sorted sequence, both ends included."""
    runs: list[tuple[int, int]] = []
    for unit in units:
        if runs and runs[-1][1] == unit - 1:
            runs[-1] = (runs[-1][0], unit)
        else:
            runs.append((unit, unit))
    return runs


def base_uw(layout: Layout, snapshot: Snapshot) -> int:
    """Idle watts that the cap's scope counts, by how each node is powered; a node off counts what it draws off."""
    if layout.machine.cap_scope != "machine":
        return 0
    total = int(layout.idle_uw.sum())
    for node in snapshot.nodes:
        unit = layout.unit.get(node.name)
        if node.power != "on" and unit is not None:
            partition = layout.machine.partitions[int(np.searchsorted(layout.first, unit, side="right")) - 1]
            figure = {"off": partition.off_w, "booting": partition.boot_w, "stopping": partition.shutdown_w}[node.power]
            total += round(max(figure, partition.idle_w if node.power != "off" else 0.0) * 1e6) - int(
                layout.idle_uw[unit]
            )
    return total


def key_order(key: JobKey, job_id: int) -> tuple[float, int, int]:
    """Queue position of equals: submission, then id, then the task's number."""
    _, _, task = key.name.partition("_")
    return key.submit_s, job_id, int(task or 0)
