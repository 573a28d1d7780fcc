"""Translate Slurm's nodes and jobs into the units and running jobs of a policy's snapshot, and back.

``Layout`` says which Slurm node is which unit, and which partition of the machine file stands for which Slurm
partition. Slurm decides which nodes a partition has, the machine file what one of them draws: where a site adds or
removes nodes, the controller is built again with another layout (``Controller.renewed``). ``Nodes`` follows the states
of nodes from round to round, ``Occupation`` is built again each round: who holds which unit, and with how many watts.

Watts. The licence of a job counts whole watts in the cap's scope (above idle, unless the cap covers
jobs alone; semantics, rule 14). Predictions are rounded up to whole net watts before a policy sees
them, so that whatever the policy admits, Slurm's integer licences admit too.

Races. Slurm's lists are read one after the other, and jobs start and end in between. The rules that
follow from it: a node that is busy without a job's row counts as taken only when it was so in two
rounds (``Nodes.hidden``); a unit that two rows claim belongs to the first (``Occupation``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError
from wattqueue.kernels.codes import microwatts
from wattqueue.live.cluster import Job, Node, Power
from wattqueue.model.bounds import is_whole
from wattqueue.model.jobs import Floats, Ints
from wattqueue.model.machine import Machine, Partition

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


class Busy(NamedTuple):
    """A job that holds units and watts, or is about to (under way)."""

    row: Job
    partition: int
    """Row of the machine's partition table."""
    option: int
    end_s: float
    """Expected end, seconds since the epoch: start + walltime, or soon where that is past."""
    net_w: int
    """What it counts for in the ledger."""
    units: tuple[int, ...]
    """Sorted unit numbers; those of an under-way job are where it would start, not where it has to."""
    runs: tuple[tuple[int, int], ...]
    """The same units as intervals, both ends included."""
    parked: bool = False
    """Whether the controller stopped it: its end is not known then (rule 16)."""
    variance_left: float = 1.0
    """Relative variance of its watts, as a share of that at its start (an in-flight ledger)."""


class KnownPlacement(NamedTuple):
    """Where a running job's row says it runs, kept from round to round: parsing node lists is the costly part."""

    row: Job
    busy: Busy
    """The job as it counted in the last round, with the end that its limit gives."""
    others: frozenset[int]
    """Its units outside the partition of its first node."""


@dataclass
class Occupation:
    """Who holds which unit in this round: running jobs first, then those under way on what is left.

    Invariant: the units of ``busy`` are disjoint, and ``taken`` is their union.
    """

    layout: Layout
    busy: list[Busy] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    seen: dict[int, KnownPlacement] = field(default_factory=dict)
    """Placements from the rounds before, by the identity of the row; a row that changed is a new object."""
    withheld: set[int] = field(default_factory=set)
    """Units that a job holds outside the partition of its first node: usable by nobody else."""
    planned_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Planned seconds of ``busy`` at reference speed, where run times are predicted."""

    def running(self, row: Job, option: int, net_w: int, *, variance_left: float = 1.0) -> None:
        """Add a job that Slurm runs, with the end that its limit gives; one on nodes outside the machine holds no unit.

        Where another row claimed a unit before, the job keeps the rest: Slurm can show a job that
        just ended and its successor on one node in the same list.
        """
        seen = self.seen.get(id(row))
        if seen is None or seen.row is not row:
            seen = self._placement(row, option, net_w)
            if seen is None:
                return
        busy = seen.busy
        if (busy.option, busy.net_w, busy.variance_left) != (option, net_w, variance_left):
            busy = busy._replace(option=option, net_w=net_w, variance_left=variance_left)
            seen = seen._replace(busy=busy)
        self.seen[id(row)] = seen
        if seen.others:
            # a job across two machine partitions counts in the first; its other nodes are nobody else's
            self.withheld |= seen.others
        if not self.taken.isdisjoint(busy.units):
            free = tuple(u for u in busy.units if u not in self.taken)
            busy = busy._replace(units=free, runs=tuple(intervals(free)))
        if busy.units:
            self.busy.append(busy)
            self.taken.update(busy.units)

    def _placement(self, row: Job, option: int, net_w: int) -> KnownPlacement | None:
        """Return where a row says that its job runs; None for a job outside the machine."""
        units = [self.layout.unit[n] for n in row.node_names if n in self.layout.unit]
        if not units:
            return None
        partition = self.layout.row_of(units[0])
        low, high = self.layout.first[partition], self.layout.first[partition + 1]
        mine = tuple(sorted(u for u in units if low <= u < high))
        end_s = row.start_s + min(row.walltime_s, NO_LIMIT_S)
        busy = Busy(row, partition, option, end_s, net_w, mine, tuple(intervals(mine)))
        return KnownPlacement(row, busy, frozenset(units) - frozenset(mine))

    def under_way(self, row: Job, partition: int, option: int, net_w: int, wanted: Sequence[str], now_s: float) -> None:
        """Add a job that was released and does not run yet.

        It takes the free ones of the nodes meant for it (``wanted``), then others of its partition,
        lowest number first: Slurm may start it anywhere, but it will hold that many nodes.
        """
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

    def expect(self, busy: list[Busy], planned_s: Floats) -> None:
        """Take the same jobs with their predicted ends, and the planned seconds behind these. Shape (b,)."""
        self.busy, self.planned_s = busy, planned_s

    def unusable(self, usable: NDArray[np.bool_], hidden: NDArray[np.bool_]) -> Ints:
        """Return the units that no job may start on and no known job holds. Shape (u,).

        ``usable`` and ``hidden`` are masks of all units. Units of known jobs are left out even where
        their node is down: the job's own row occupies them.
        """
        out = ~usable | hidden
        if self.withheld:
            out[list(self.withheld)] = True
        if self.taken:
            out[np.fromiter(self.taken, np.int64, len(self.taken))] = False
        return np.flatnonzero(out).astype(np.int32)


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
    nodes of running jobs are in the sum too: job watts are net of idle (semantics, rule 14).
    """
    if layout.machine.cap_scope != "machine":
        return 0
    total = int(layout.idle_uw.sum())
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
