"""Count the nodes that jobs share: each its maximum once, whatever jobs it holds (docs/adr/0018).

The resource manager alone schedules the partitions that ``[slurm] shared`` names, by CPUs or otherwise. Their jobs
carry no watts. What they draw together on a node is at most the node's maximum, so that is what the node counts,
always, and the pool for the jobs of managed nodes is smaller by it. Nothing has to be written when a job starts or ends
there, so nobody can exceed it while the controller is away either.

A node counts less only while no job can start on it: drained, and without a job. A drain stays until somebody takes it
back. A node that is down or powered off counts its maximum, because the resource manager takes it back into service by
itself (``ReturnToService``, power saving).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wattqueue.errors import MachineError
from wattqueue.kernels.codes import microwatts
from wattqueue.live.cluster import Job, Node
from wattqueue.live.goal import JobGoal
from wattqueue.live.world import Layout, resting_w
from wattqueue.model.machine import CapScope, Machine, Partition

DRAINED = "drained"
"""State of a node that takes no job and holds none."""


class SharedCount(NamedTuple):
    """What shared nodes count in the cap's scope."""

    uw: int = 0
    """Microwatts, idle ones included where the scope counts them."""
    open: int = 0
    """Nodes that count their maximum."""
    closed: int = 0
    """Nodes that are drained and empty."""
    partitions: frozenset[str] = frozenset()
    """Names of the partitions in the cluster."""

    @property
    def watts(self) -> float:
        """The same in watts."""
        return self.uw / 1e6


class Members(NamedTuple):
    """The shared nodes of a cluster."""

    partition: Mapping[str, Partition] = {}
    """By name, each with the partition in which it counts most."""
    drained: Mapping[str, Node] = {}
    """Those that take no job."""
    names: frozenset[str] = frozenset()
    """The cluster's names of their partitions."""
    open_uw: int = 0
    """What they count together if all are open."""


@dataclass
class SharedNodes:
    """Partitions whose nodes jobs share; without any the default.

    Raises: MachineError for a partition without a maximum, or one that does not count nodes.
    """

    partitions: tuple[Partition, ...] = ()
    """Their rows of the machine file."""
    scope: CapScope = "machine"
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Partitions of the machine file by the cluster's names, where these differ."""
    _last: tuple[Sequence[Node], Members] = field(default_factory=lambda: ((), Members()))
    """Nodes of the last snapshot, and the shared ones among them."""

    def __post_init__(self) -> None:
        for one in self.partitions:
            if one.max_w is None:
                raise MachineError("max_w is not stated", where=f"partition {one.name}", hint="live needs it")
            if one.unit != "node":
                raise MachineError(f"partition {one.name} counts {one.unit}s", where="slurm.shared")
        self._by_name = {one.name: one for one in self.partitions}

    def partition(self, name: str) -> Partition | None:
        """Return the shared partition that the cluster calls so; None for any other."""
        return self._by_name.get(self.renamed.get(name, name))

    def only(self, partitions: str) -> bool:
        """Whether every partition of a job's list (``p1,p2``) is shared."""
        return bool(self.partitions) and all(self.partition(name) is not None for name in partitions.split(","))

    def members(self, nodes: Sequence[Node]) -> Mapping[str, Partition]:
        """Return the shared nodes by name, each with the partition in which it counts most."""
        return self._look(nodes).partition

    def _look(self, nodes: Sequence[Node]) -> Members:
        """Return the shared ones among nodes; looked up again for other nodes only."""
        if nodes is not self._last[0]:
            found: dict[str, Partition] = {}
            drained, names = {}, set[str]()
            for node in nodes if self.partitions else ():
                for name in node.partitions:
                    one = self.partition(name)
                    if one is None:
                        continue
                    names.add(name)
                    if node.name not in found or self.most_w(one) > self.most_w(found[node.name]):
                        found[node.name] = one
                    if node.state == DRAINED:
                        drained[node.name] = node
            open_uw = sum(microwatts(self.most_w(one)) for one in found.values())
            self._last = (nodes, Members(found, drained, frozenset(names), open_uw))
        return self._last[1]

    def most_w(self, partition: Partition) -> float:
        """Return the watts that an open node counts in the cap's scope."""
        return float(partition.max_w or 0.0) - (partition.idle_w if self.scope == "dynamic" else 0.0)

    def count(self, nodes: Sequence[Node], jobs: Iterable[Job] = ()) -> SharedCount:
        """Return what the shared nodes count; ``jobs`` are those of the snapshot.

        A node is looked up in them before it counts as empty: one whose jobs are all suspended may be shown without a
        job, and they go on without being started.
        """
        members = self._look(nodes)
        closed = members.drained
        if closed:
            busy = {name for row in jobs if row.active for name in row.node_names}
            closed = {name: node for name, node in closed.items() if name not in busy}
        uw = members.open_uw
        for name, node in closed.items():
            partition = members.partition[name]
            rests_w = resting_w(partition, node.power) if self.scope == "machine" else 0.0
            uw += microwatts(rests_w) - microwatts(self.most_w(partition))
        return SharedCount(uw, len(members.partition) - len(closed), len(closed), members.names)

    def most_of_all_w(self, nodes: Sequence[Node]) -> float:
        """Return what the shared nodes count if all are open."""
        return sum(map(self.most_w, self.members(nodes).values()))

    def with_shared(self, machine: Machine, nodes: Sequence[Node]) -> Machine:
        """Return a machine with the shared partitions beside its own: what the cap covers.

        Raises: MachineError for a shared partition that has no node in the cluster.
        """
        counts = dict.fromkeys((one.name for one in self.partitions), 0)
        for one in self.members(nodes).values():
            counts[one.name] += 1
        present = {self.renamed.get(name, name) for node in nodes for name in node.partitions}
        for name in counts:
            if name not in present:
                hint = "correct [slurm] shared, or map names in slurm.partitions"
                raise MachineError(f"shared partition {name} has no node in Slurm", where=machine.name, hint=hint)
        sized = (replace(one, nodes=counts[one.name]) for one in self.partitions if counts[one.name])
        if not self.partitions:
            return machine
        return replace(machine, partitions=(*machine.partitions, *sized), supply=())  # domains hold without them

    def mixed(self, layout: Layout, nodes: Sequence[Node]) -> list[str]:
        """Return the nodes that are shared and managed: jobs without watts could start beside those that carry them."""
        return [name for name in self.members(nodes) if name in layout.unit]

    def refuse_mixed(self, layout: Layout, nodes: Sequence[Node]) -> None:
        """Raise MachineError for a node in a shared partition and in a managed one."""
        mixed = self.mixed(layout, nodes)
        if mixed:
            node = next(node for node in nodes if node.name == mixed[0])
            where = ", ".join(node.partitions)
            raise MachineError(
                f"node {mixed[0]} is in a shared and in a managed partition ({where})",
                where="slurm.shared",
                hint="jobs of the shared one carry no watts: give each node to one of the two, or share both",
            )

    def leaving(self, aside: Iterable[Job], user_holds: Callable[[Job], bool]) -> list[JobGoal]:
        """Return goals for jobs that wait with watts where nobody counts them: they lose these and are released.

        An operator has moved such a job into a shared partition. One that its user holds, or whose launch failed,
        stays held.
        """
        if not self.partitions:
            return []
        why = "moved to a partition that shares nodes: Slurm schedules it"
        moved = (row for row in aside if row.watts >= 0 and not row.whole and self.only(row.partition))
        return [
            JobGoal(row.key, watts=-1, why=why, held=None if row.held_by == "failed" or user_holds(row) else False)
            for row in moved
        ]
