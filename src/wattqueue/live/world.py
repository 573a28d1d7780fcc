"""Translate Slurm's nodes into the units of a policy's snapshot, and back.

``Layout`` says which Slurm node is which unit, and which partition of the machine file stands for which Slurm
partition. Slurm decides which nodes a partition has, the machine file what one of them draws: where a site adds or
removes nodes, the controller is built again with another layout (``Controller.renewed``). ``Nodes`` follows the states
of nodes from round to round.

Watts. The licence of a job counts whole watts in the cap's scope (above idle, unless the cap covers
jobs alone; semantics, rule 14). Predictions are rounded up to whole net watts before a policy sees
them, so that whatever the policy admits, Slurm's integer licences admit too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError
from wattqueue.kernels.codes import microwatts
from wattqueue.live.cluster import Job, Node, Power
from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.plain_numbers import is_whole

NO_LIMIT_S = 365.0 * 86400.0
"""Planned time of a job without a limit: long enough to be behind every reservation, finite for the kernels."""
OVERDUE_S = 60.0
"""A job beyond its limit, or one that is completing, is expected to end within this time."""
_NATURAL = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class Layout:
    """Which Slurm node is which unit of the machine.

    Invariant: ``names`` stands in the order of units, partition by partition, so the units of
    machine partition p are ``first[p] .. first[p + 1] - 1``.
    """

    machine: Machine
    names: tuple[str, ...]
    """Slurm's name of each unit. Shape (units,)."""
    partition_of: Mapping[str, int]
    """Row of the machine's partition table for each Slurm partition that the machine covers."""
    listed: tuple[int, ...] = ()
    """Nodes of each partition in the machine file, where Slurm has others; empty where it has the same."""

    @classmethod
    def of(cls, machine: Machine, nodes: Sequence[Node], renamed: Mapping[str, str]) -> Layout:
        """Match a machine's partitions with Slurm's, nodes in natural order of their names (n2 before n10).

        ``renamed`` maps Slurm partitions to machine partitions where their names differ. The layout's machine has as
        many nodes in each partition as Slurm.

        Raises: MachineError where a partition has no node in Slurm, or shares one.
        """
        rows = {p.name: i for i, p in enumerate(machine.partitions)}
        # nodes of each machine partition; overlapping Slurm partitions may name a node twice
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
            if not mine:
                text = f"partition {partition.name} has {partition.nodes} nodes here and none in Slurm"
                raise MachineError(
                    text, where=machine.name, hint="correct the machine, or map names in slurm.partitions"
                )
            names += sorted(mine, key=_natural)
        if len(set(names)) != len(names):
            raise MachineError("a node stands in two partitions of the machine", where=machine.name)
        stated = tuple(partition.nodes for partition in machine.partitions)
        counts = tuple(len(found[rows[partition.name]]) for partition in machine.partitions)
        if counts == stated:
            return cls(machine, tuple(names), partition_of)
        parts = tuple(replace(p, nodes=count) for p, count in zip(machine.partitions, counts, strict=True))
        return cls(replace(machine, partitions=parts), tuple(names), partition_of, stated)

    @property
    def stated(self) -> Machine:
        """The machine with as many nodes in each partition as its file says."""
        counts = self.listed or [partition.nodes for partition in self.machine.partitions]
        parts = tuple(replace(p, nodes=count) for p, count in zip(self.machine.partitions, counts, strict=True))
        return replace(self.machine, partitions=parts)

    @cached_property
    def absent_uw(self) -> int:
        """Idle microwatts of the nodes of the machine file that Slurm does not have, in the cap's scope.

        A node that left its partition, or Slurm, may stand there and draw as before: only the file says that it is
        gone. One that was moved to another managed partition counts there as well.
        """
        if self.machine.cap_scope != "machine" or not self.listed:
            return 0
        pairs = zip(self.listed, self.machine.partitions, strict=True)
        return sum(max(stated - p.nodes, 0) * microwatts(p.idle_w) for stated, p in pairs)

    @cached_property
    def unit(self) -> dict[str, int]:
        """Unit number by node name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First unit of each partition, and the number of units at the end. Shape (P + 1,)."""
        return np.concatenate(([0], np.cumsum([p.nodes for p in self.machine.partitions]))).astype(np.int64)

    @cached_property
    def idle_uw(self) -> NDArray[np.int64]:
        """Idle microwatts of each unit. Shape (units,)."""
        return np.repeat([microwatts(p.idle_w) for p in self.machine.partitions], np.diff(self.first)).astype(np.int64)

    @cached_property
    def slurm_partition(self) -> dict[int, str]:
        """Slurm partition for each row of the machine: the one of the same name where there is one."""
        chosen: dict[int, str] = {}
        for name, row in sorted(self.partition_of.items()):
            if row not in chosen or name == self.machine.partitions[row].name:
                chosen[row] = name
        return chosen

    @cached_property
    def _allowed(self) -> dict[str, frozenset[int]]:
        """Results of ``allowed`` by partition list: a site has few distinct lists and many jobs."""
        return {}

    def row_of(self, unit: int) -> int:
        """Return the machine partition of a unit."""
        return int(np.searchsorted(self.first, unit, side="right")) - 1

    def allowed(self, partition: str) -> frozenset[int]:
        """Return the machine partitions that a job's partition list (``p1,p2``) lets it use."""
        known = self._allowed.get(partition)
        if known is None:
            known = frozenset(self.partition_of[n] for n in partition.split(",") if n in self.partition_of)
            self._allowed[partition] = known
        return known

    def name_for(self, row: int, requested: str) -> str:
        """Return Slurm's name of a machine partition, one of the requested names where they include it.

        Several Slurm partitions may stand for one machine partition; the user's own choice keeps
        its limits and priority.
        """
        named = [n for n in requested.split(",") if self.partition_of.get(n) == row]
        return named[0] if named else self.slurm_partition[row]

    def net_w(self, power_w: Floats) -> Floats:
        """Return the whole net watts of one unit in the cap's scope, by option. Shape as ``power_w`` (C, O).

        The 1e-6 W absorb rounding of floats: 200.0000001 W are 200 licences, not 201.
        """
        if self.machine.cap_scope == "jobs":
            return np.asarray(np.ceil(power_w - 1e-6), np.float64)
        idle = np.array([p.idle_w for p in self.machine.partitions])[self.machine.option_partition]
        return np.asarray(np.maximum(np.ceil(power_w - idle - 1e-6), 0.0), np.float64)

    def net_uw(self, unit_w: float, units: Sequence[int], factor: Floats | None = None) -> int:
        """Return the net microwatts of a job on these units, rounded unit by unit (rule 12 of docs/semantics.md).

        The one formula for the watts of a start: what the ledger counts, what is written, and what may be drawn.
        ``unit_w`` is predicted of a unit whose ``factor`` is 1; (U,), None where units are all alike.
        """
        chosen = list(units)
        factors = np.ones(len(chosen)) if factor is None else factor[chosen]
        total = int(np.rint(microwatts(unit_w) * factors).astype(np.int64).sum())
        idle = 0 if self.machine.cap_scope == "jobs" else int(self.idle_uw[chosen].sum())
        return max(0, total - idle)

    def whole_w(self, power_w: Floats) -> Floats:
        """Return the watts whose net watts are ``net_w``: predictions as policies get them. Shape (C, O)."""
        if self.machine.cap_scope == "jobs":
            return self.net_w(power_w)
        idle = np.array([p.idle_w for p in self.machine.partitions])[self.machine.option_partition]
        return idle + self.net_w(power_w)

    def most_w(self) -> Floats:
        """Return the maximum watts of one unit by option, with whole net watts: what stands in for a prediction.

        Infinite where the machine states no maximum. Shape (1, O).
        """
        parts = [self.machine.partitions[p] for p in self.machine.option_partition]
        top = np.array([p.max_w if p.max_w is not None else np.inf for p in parts])
        idle = np.array([p.idle_w for p in parts])
        scaled = np.where(np.isfinite(top), idle + (top - idle) * self.machine.option_dynamic_factor, top)
        return self.whole_w(scaled[np.newaxis])

    def of_job(self, row: Job) -> int:
        """Return the machine partition of a job: of its first node, else the first that it may use."""
        names = row.node_names
        unit = self.unit.get(names[0]) if names else None
        if unit is not None:
            return self.row_of(unit)
        return min(self.allowed(row.partition), default=0)

    def most_of(self, partition: int, row: Job) -> int:
        """Return the greatest net watts of a job's nodes in a machine partition."""
        return self.most_net_w(partition) * row.nodes

    def most_net_w(self, row: int) -> int:
        """Return the greatest net watts of one unit of a partition, in whole watts.

        Raises: MachineError where the machine file states no maximum.
        """
        partition = self.machine.partitions[row]
        if partition.max_w is None:
            raise MachineError("max_w is not stated", where=f"partition {partition.name}", hint="live needs it")
        return max(
            0, math.ceil(partition.max_w - (0.0 if self.machine.cap_scope == "jobs" else partition.idle_w) - 1e-6)
        )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which digits compare as numbers."""
    return [(int(piece), "") if is_whole(piece) else (-1, piece) for piece in _NATURAL.split(name)]


@dataclass
class Nodes:
    """Node states as masks over units, and the base watts; recomputed only when a state changed."""

    layout: Layout
    _rows: tuple[Node, ...] = ()
    usable: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    busy: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    on: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    base_uw: int = 0
    _alone: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Units that were busy without a job's row in the last round."""

    def update(self, nodes: tuple[Node, ...]) -> None:
        """Take over the nodes of a round."""
        if nodes == self._rows:  # tuples of equal rows compare fast; most rounds change no state
            return
        self._rows = nodes
        self.usable = self._units(node.name for node in nodes if node.usable)
        self.busy = self._units(node.name for node in nodes if node.busy)
        self.on = self._units(node.name for node in nodes if node.power == "on")
        self.base_uw = base_uw(self.layout, nodes)

    def hidden(self, taken: set[int]) -> NDArray[np.bool_]:
        """Return the units that were busy without a job's row in this round and the one before. Shape (units,).

        Once means that a job ended between two commands: the unit is as good as free. Twice means a
        job that this account may not see, or one in a partition that is hidden from it.
        """
        # a copy: the mask is kept until the next round
        alone = self.busy.copy()
        alone[np.fromiter(taken, np.int64, len(taken))] = False
        before, self._alone = self._alone, alone
        return alone & before if len(before) == len(alone) else np.zeros_like(alone)

    def _units(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return the mask of the units of these nodes."""
        found = set(names)
        return np.fromiter((name in found for name in self.layout.names), np.bool_, len(self.layout.names))


def intervals(units: Sequence[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers of a sorted sequence, both ends included."""
    runs: list[tuple[int, int]] = []
    for unit in units:
        if runs and runs[-1][1] == unit - 1:
            runs[-1] = (runs[-1][0], unit)
        else:
            runs.append((unit, unit))
    return runs


def base_uw(layout: Layout, nodes: Sequence[Node]) -> int:
    """Return the idle microwatts that the cap's scope counts, by the power state of each node.

    A node that is off counts its ``off_w``; one that boots or stops counts the greater of that
    transition's watts and idle, so that waking a node never adds watts that were not counted. The
    nodes of running jobs are in the sum too: job watts are net of idle (semantics, rule 14). So are nodes that the
    machine file has and Slurm has not (``Layout.absent_uw``).
    """
    if layout.machine.cap_scope != "machine":
        return 0
    total = int(layout.idle_uw.sum()) + layout.absent_uw
    for node in nodes:
        unit = layout.unit.get(node.name)
        if node.power != "on" and unit is not None:
            partition = layout.machine.partitions[layout.row_of(unit)]
            total += microwatts(resting_w(partition, node.power)) - int(layout.idle_uw[unit])
    return total


def resting_w(partition: Partition, power: Power) -> float:
    """Return the watts that a node counts while no job can run on it, by its power state."""
    figure = {"on": 0.0, "off": partition.off_w, "booting": partition.boot_w, "stopping": partition.shutdown_w}[power]
    return max(figure, partition.idle_w if power != "off" else 0.0)


def key_order(row: Job, first_s: float | None = None) -> tuple[float, int, int]:
    """Return the queue position among equal priorities: first submission (``first_s``), then number, then task."""
    return (row.key.submit_s if first_s is None else first_s), row.number, row.task
