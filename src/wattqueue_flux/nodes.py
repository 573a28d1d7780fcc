"""The resources of a Flux instance as the nodes of a cluster, and a job's share of them as R.

R is a document of Flux (RFC 20): which cores and GPUs of which ranks, the names of the hosts, properties of ranks,
start and expiration. Ranks and cores are texts like ``0-3,7``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wattqueue.errors import InputError
from wattqueue.formats.slurm.hostlist import expand, expand_hosts
from wattqueue.live.world import intervals
from wattqueue.model.machine import Machine

KEPT = 1000
"""Answers that a cache keeps: users choose what it is asked about."""


class Cache(dict[Any, Any]):
    """The last ``KEPT`` answers."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep an answer; the oldest goes."""
        if len(self) >= KEPT and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)


class FluxNode(NamedTuple):
    """One rank of an instance. ``name`` is unique: the host, with the rank where several ranks share it."""

    rank: int
    name: str
    host: str
    cores: str
    gpus: str
    properties: frozenset[str]


def ids_of(text: str) -> list[int]:
    """Return the numbers of an idset, ``0-3,7``. Raises: InputError."""
    return [int(name[1:]) for name in expand(f"x[{text}]")] if text else []


def idset(numbers: Iterable[int]) -> str:
    """Return numbers as an idset."""
    return ",".join(f"{low}-{high}" if low < high else str(low) for low, high in intervals(sorted(numbers)))


def nodes_of(resources: Mapping[str, Any]) -> tuple[FluxNode, ...]:
    """Return the nodes of an R that has all resources of an instance, by rank.

    Raises: InputError where it is no R of version 1 with the names of its hosts.
    """
    try:
        execution = resources["execution"]
        parts = {rank: one["children"] for one in execution["R_lite"] for rank in ids_of(one["rank"])}
        hosts = [name for text in execution["nodelist"] for name in expand(text)]
        having: dict[int, set[str]] = {}
        for name, ranks in execution.get("properties", {}).items():
            for rank in ids_of(ranks):
                having.setdefault(rank, set()).add(name)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"no R of version 1 with a nodelist: {error!r}", where="resource.R") from error
    if len(hosts) != len(parts):
        raise InputError(f"{len(parts)} ranks and {len(hosts)} hosts", where="resource.R")
    times = Counter(hosts)
    return tuple(
        FluxNode(
            rank, host if times[host] == 1 else f"{host}-{rank}", host,
            parts[rank].get("core", ""), parts[rank].get("gpu", ""), frozenset(having.get(rank, ())),
        )
        for rank, host in zip(sorted(parts), hosts, strict=True)
    )  # fmt: skip


def partitions_of(
    nodes: Sequence[FluxNode], machine: Machine, named: Mapping[str, str], queues: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """Return the machine partition of each node by name; nodes of none are left out.

    ``named`` maps queues, properties or host lists to partitions; ``queues`` has the properties that each requires.

    Raises: InputError for a partition that the machine lacks, or a node of two.
    """
    known = [partition.name for partition in machine.partitions]
    for key, name in named.items():
        if name not in known:
            raise InputError(
                f"the machine file has no partition {name!r}", where=f"flux.partitions.{key}",
                hint=f"it has {', '.join(known)}",
            )  # fmt: skip
    if len(known) == 1 and not named:
        return {node.name: known[0] for node in nodes}
    rules = {**{name: name for name in known}, **named}
    found: dict[str, str] = {}
    for key, name in rules.items():
        hosts, required = frozenset(expand_hosts(key)), frozenset(queues.get(key, ()))
        for node in nodes:
            in_queue = key in queues and required <= node.properties
            if not (in_queue or key in node.properties or node.host in hosts):
                continue
            if found.setdefault(node.name, name) != name:
                hint = "state properties or hosts that tell partitions apart"
                raise InputError(
                    f"node {node.name} is in partitions {found[node.name]} and {name}", where="flux.partitions",
                    hint=hint,
                )  # fmt: skip
    return found


@dataclass
class Serving:
    """Nodes that may serve a job, by the numbers of their cores and GPUs; kept for all jobs of the same constraints."""

    by_shape: Mapping[tuple[int, int], frozenset[str]]
    whole: bool
    """Whether these are all nodes of the instance."""
    _sets: dict[frozenset[tuple[int, int]], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[FluxNode], *, whole: bool) -> Serving:
        """Return some nodes by shape."""
        found: dict[tuple[int, int], set[str]] = {}
        for node in nodes:
            found.setdefault((len(ids_of(node.cores)), len(ids_of(node.gpus))), set()).add(node.name)
        return cls({shape: frozenset(names) for shape, names in found.items()}, whole)

    def having(self, shapes: frozenset[tuple[int, int]]) -> tuple[frozenset[str] | None, int]:
        """Return the names of the nodes of these shapes, None for all of the instance, and their number."""
        if shapes not in self._sets:
            self._sets[shapes] = frozenset().union(*(self.by_shape[shape] for shape in shapes))
        names = self._sets[shapes]
        return (None if self.whole and shapes == self.by_shape.keys() else names), len(names)


@dataclass
class FluxInstance:
    """The nodes of an instance, which of them are up, and what a job's R is made of."""

    nodes: tuple[FluxNode, ...]
    partition: Mapping[str, str]
    """Machine partition by name of a node."""
    up: frozenset[int] = frozenset()
    """Ranks on which jobs may start."""
    lost: frozenset[int] = frozenset()
    """Ranks that are no part of the instance any more (lost, excluded): nothing says that they are off, so they count
    their idle watts."""
    by_name: dict[str, FluxNode] = field(init=False)
    by_rank: dict[int, FluxNode] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {node.name: node for node in self.nodes}
        self.by_rank = {node.rank: node for node in self.nodes}

    def with_states(self, ranks: set[int], down: set[int]) -> FluxInstance:
        """Return these nodes while some ranks are there, and some of them down."""
        return FluxInstance(self.nodes, self.partition, frozenset(ranks - down), frozenset(self.by_rank.keys() - ranks))

    def names(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """Return names of ranks, without those that the instance does not have any more."""
        return tuple(self.by_rank[rank].name for rank in sorted(ranks) if rank in self.by_rank)

    def resources(self, names: Sequence[str], start_s: float, end_s: float, slots: int) -> dict[str, Any]:
        """Return R for whole nodes; ``end_s`` 0 for no expiration."""
        chosen = sorted(self.by_name[name] for name in names)
        alike: dict[tuple[str, str], list[int]] = {}
        properties: dict[str, list[int]] = {}
        for node in chosen:
            alike.setdefault((node.cores, node.gpus), []).append(node.rank)
            for name in node.properties:
                if not name.startswith("+"):  # of the instance alone (RFC 20)
                    properties.setdefault(name, []).append(node.rank)
        lite = [
            {"rank": idset(ranks), "children": {"core": cores, **({"gpu": gpus} if gpus else {})}}
            for (cores, gpus), ranks in alike.items()
        ]
        execution: dict[str, Any] = {
            "R_lite": lite, "starttime": start_s, "expiration": end_s, "nslots": slots,
            "nodelist": [",".join(node.host for node in chosen)],
        }  # fmt: skip
        if properties:
            execution["properties"] = {name: idset(ranks) for name, ranks in properties.items()}
        return {"version": 1, "execution": execution}
