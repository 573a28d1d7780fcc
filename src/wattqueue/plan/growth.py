"""A machine with another number of nodes behind the same breakers.

One partition grows. Its nodes are shared out to its lowest domains by the watts that reach these: each further node
goes where it leaves most to a node (D'Hondt's method along the tree). All other partitions stay as they are.

The workload grows with the machine (``load="grow"``): the time between submissions shrinks as nodes are added, so that
each node has as much work as before. Added nodes that stand idle would say nothing about a breaker.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattqueue.errors import MachineError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain, SupplyTree, counted_uw, node_ranges

BREAKER = "breaker"
"""Name of the domain that ``--breaker`` states."""


@dataclass(frozen=True)
class MachineGrowth:
    """A machine of which one partition may have more or fewer nodes.

    Raises: MachineError where no limit stands above the partition.
    """

    machine: Machine
    """With limits that do not change (``constant_limits``)."""
    partition: int

    def __post_init__(self) -> None:
        if not math.isfinite(self.fits(max(self.part.max_w or 0.0, 1.0))):
            raise MachineError(
                f"no limit stands above partition {self.part.name}",
                where=self.machine.name,
                hint="give --breaker 400kW, or limits in [[supply]]",
            )

    @property
    def part(self) -> Partition:
        """Return the partition that grows."""
        return self.machine.partitions[self.partition]

    @property
    def tree(self) -> SupplyTree:
        """Return the domains of the machine as it is."""
        return self.machine.supply_tree

    @property
    def own(self) -> list[int]:
        """Return the domains that have nodes of the partition themselves, by their first node."""
        return list(dict.fromkeys(self.tree.of_unit[self._units].tolist()))

    @property
    def limits_w(self) -> Floats:
        """Return the limit of each domain, inf for none. Shape (D,)."""
        return np.array([domain.least_limit_w for domain in self.tree.domains])

    def scope_w(self, unit_w: float, p: int) -> float:
        """Return what a unit of partition p counts in the cap's scope where it draws ``unit_w``."""
        return unit_w - (self.machine.partitions[p].idle_w if self.machine.cap_scope == "dynamic" else 0.0)

    @property
    def _units(self) -> slice:
        return slice(*map(int, self.machine.unit_start[self.partition : self.partition + 2]))

    @property
    def _others_w(self) -> list[float]:
        """Return what a unit of each partition counts if all others draw their stated maxima, and this one nothing."""
        watts = [self.scope_w(q.max_w or q.idle_w, p) for p, q in enumerate(self.machine.partitions)]
        watts[self.partition] = 0.0
        return watts

    def fits(self, unit_w: float, others_w: Sequence[float] | None = None) -> float:
        """Return how many nodes fit if each of their units draws ``unit_w``; inf where nothing limits them.

        From the bottom up (rule 22): a domain carries what its limit leaves beside its base and the other partitions
        at their stated maxima, and no more than what fits below it.
        """
        tree = self.tree
        taken = tree.input_uw(self._others_w if others_w is None else others_w)
        most = np.array([math.inf if k in self.own else 0.0 for k in range(len(tree.domains))])
        top = 0.0 if len(tree.domains) else math.inf
        each_uw = round(self.scope_w(unit_w, self.partition) * 1e6) * self.part.units_per_node
        for k, limit in enumerate(self.limits_w):
            gains = [part.gain for part in tree.below[k] if part.partition == self.partition]
            if math.isfinite(limit) and gains and each_uw > 0:
                room = round(limit * 1e6) - int(taken[k])
                most[k] = min(most[k], max(room // counted_uw(each_uw, max(gains)), 0))
            up = int(tree.parent[k])
            if up >= 0:
                most[up] += most[k]
            else:
                top += most[k]
        return float(top)

    @cached_property
    def room_w(self) -> Floats:
        """Return what each domain's limit leaves to nodes of the partition, losses on the way taken off. Shape (D,)."""
        taken = self.tree.input_uw(self._others_w) / 1e6
        gain = [
            max((part.gain for part in parts if part.partition == self.partition), default=1.0)
            for parts in self.tree.below
        ]
        return np.asarray((self.limits_w - taken) / np.array(gain), np.float64)

    @cached_property
    def paths(self) -> list[list[int]]:
        """Return the domains from each own domain up."""
        return [list(self.tree.path(k)) for k in self.own]

    @property
    def least(self) -> int:
        """Return the fewest nodes that are planned: one for each own domain."""
        return len(self.own)

    def carries_each(self, unit_w: float) -> bool:
        """Return whether each own domain carries one node whose units draw so much, all of them together."""
        each_w = self.scope_w(unit_w, self.partition) * self.part.units_per_node
        nodes = np.zeros(len(self.tree.domains))
        for path in self.paths:
            nodes[path] += 1
        there = nodes > 0  # what other partitions do to domains of their own is no matter of this one
        return bool((nodes[there] * each_w <= self.room_w[there] * (1.0 + 1e-12)).all())

    def always_fit(self, unit_w: Sequence[float]) -> int:
        """Return how many nodes fit whatever runs, if units of each partition draw no more than ``unit_w`` (P,).

        0 where other partitions alone may then be above a limit, or a lowest domain does not carry one node.
        """
        others = [self.scope_w(w, p) for p, w in enumerate(unit_w)]
        others[self.partition] = 0.0
        above = self.tree.input_uw(others) > np.rint(np.minimum(self.limits_w, 1e12) * 1e6)
        mine = float(unit_w[self.partition])
        if above.any() or not self.carries_each(mine):
            return 0
        return int(self.fits(mine, others))

    @cached_property
    def _counts(self) -> dict[int, list[int]]:
        """What was found: runs of one number of nodes differ in their limits alone."""
        return {}

    def counts(self, nodes: int) -> list[int]:
        """Return how many of so many nodes each own domain gets.

        One each; then each further node goes where it leaves most watts to a node: the greatest, over own domains, of
        the least of room / nodes along the path; among equals to the domain that grew least. So no domain is above its
        limit with nodes that draw so much that ``fits`` gives their number, and one more node moves no other.

        Raises: MachineError for fewer nodes than domains.
        """
        own, units = self.own, np.bincount(self.tree.of_unit[self._units], minlength=len(self.tree.domains))
        if nodes < len(own):
            raise MachineError(
                f"{nodes} nodes for {len(own)} domains", where=self.machine.name, hint="plan one for each at least"
            )
        if nodes in self._counts:
            return self._counts[nodes]
        below, found = np.zeros(len(self.tree.domains)), np.ones(len(own), np.int64)
        for path in self.paths:
            below[path] += 1
        for _ in range(nodes - len(own)):
            price = self.room_w / (below + 1)
            left = [min(price[path]) for path in self.paths]
            k = max(range(len(own)), key=lambda k: (left[k], -(found[k] + 1) / units[own[k]]))
            found[k] += 1
            below[self.paths[k]] += 1
        self._counts[nodes] = found.tolist()
        return self._counts[nodes]

    def grown(self, nodes: int, scale: float) -> Machine:
        """Return the machine with so many nodes, each limit times ``scale``; inf: domains without limits."""
        parts = list(self.machine.partitions)
        parts[self.partition] = replace(self.part, nodes=nodes)
        first, ranges = 1, dict[int, str]()
        for k, count in zip(self.own, self.counts(nodes), strict=True):
            ranges[k] = f"{self.part.name}[{first}-{first + count - 1}]"
            first += count
        supply = tuple(
            replace(domain, nodes=",".join([*self._others(domain), *([ranges[k]] if k in ranges else [])]),
                    limit_w=None if domain.limit_w is None or scale == math.inf else round(domain.limit_w * scale, 3))
            for k, domain in enumerate(self.tree.domains)
        )  # fmt: skip
        return replace(self.machine, partitions=tuple(parts), supply=supply)

    def _others(self, domain: SupplyDomain) -> list[str]:
        """Return the nodes of a domain that belong to other partitions, as a machine file writes them."""
        found = node_ranges(domain.nodes, domain.name) if domain.nodes else ()
        return [
            f"{name}[{first}-{'' if last is None else last}]" for name, first, last in found if name != self.part.name
        ]


def constant_limits(machine: Machine, breaker_w: float | None) -> Machine:
    """Return a machine whose domains have constant limits, the lowest of each, below a breaker where one is stated.

    Raises: MachineError for a breaker below what the idle machine draws, or a domain that has its name.
    """
    supply = tuple(
        replace(one, limit_w=one.least_limit_w, limit_s=(), limits_w=()) if one.limit_s else one
        for one in machine.supply
    )
    if breaker_w is None:
        return replace(machine, supply=supply)
    if supply:
        supply = tuple(one if one.parent else replace(one, parent=BREAKER) for one in supply)
        return replace(machine, supply=(*supply, SupplyDomain(name=BREAKER, limit_w=breaker_w)))
    nodes = ",".join(part.name for part in machine.partitions)
    return replace(machine, supply=(SupplyDomain(name=BREAKER, nodes=nodes, limit_w=breaker_w),))


def jobs_for(jobs: Jobs, growth: MachineGrowth, nodes: int, *, same_load: bool) -> Jobs:
    """Return the workload of so many nodes: submissions closer together, unless the load stays the same."""
    if same_load or nodes == growth.part.nodes:
        return jobs
    first = float(jobs.submit_s.min(initial=np.inf))
    return replace(jobs, submit_s=first + (jobs.submit_s - first) * pace(growth, nodes), start_s=None)


def pace(growth: MachineGrowth, nodes: int) -> float:
    """Return the time between two submissions on so many nodes, over that of the workload as it is."""
    others = growth.machine.nodes - growth.part.nodes
    return growth.machine.nodes / (others + nodes)


def levels_of(nodes: int) -> Sequence[int]:
    """Return the steps in which numbers of nodes are tried, the widest first: about 2 % of the machine, and four."""
    fine = max(1, round(nodes / 50))
    return (4 * fine, fine)
