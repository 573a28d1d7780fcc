"""Power domains: the tree of limits through which a machine is supplied (rule 22 of docs/semantics.md).

A contract, a feed, a row, a rack, a node: each *domain* has units of its own, or domains below it, and a limit on its
*input*::

    input(d) = base(d) + (inputs of the domains below it + watts of its own units) / efficiency(d)

The machine's cap is no domain: it limits IT watts, as it does without a tree. Domains without a parent stand side by
side below it. Limits are tested when jobs are admitted; *device limits*, which slow jobs, are another thing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError, one_of
from wattqueue.model import bounds
from wattqueue.model.plain_numbers import is_whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

ONE_TREE = "a unit has one way to the root: model two feeds of one rack as one domain with the limit of the one that \
survives; cooling loops over the same nodes are no part of it"
"""Why a domain, or a node, has one parent."""
NODES = re.compile(r"\s*([^\[\],]+?)\s*(?:\[([0-9, -]+)\])?\s*(?:,|$)")
"""One partition in a list of nodes: its name, and numbers from 1 on."""
MICRO = 1e6
Terms = tuple[float, float, float]
"""Of a margin: share of predicted watts, relative variance of a job's own, and that of all jobs together."""
NO_MARGIN: Terms = (1.0, 0.0, 0.0)
ANY_MARGIN: Terms = (1e6, 0.0, 0.0)
"""Of a ledger whose margin is not bounded: every domain with a limit can hold jobs back."""


@dataclass(frozen=True, kw_only=True)
class SupplyDomain:
    """A power domain: a table ``[[supply]]`` of a machine file. Watts are in the machine's cap scope.

    Raises: MachineError for figures out of range, and a limit by both ways.
    """

    name: str
    parent: str = ""
    """The domain that feeds it; empty for one that stands at the top."""
    nodes: str = ""
    """Nodes of its own, by number from 1 on: ``batch[1-32,40],gpu``; empty where all are those of domains below."""
    limit_w: float | None = None
    """Greatest input in watts; None for no limit."""
    limit_s: tuple[float, ...] = ()
    """Times from which each of ``limits_w`` holds, on the clock of the jobs, instead of ``limit_w``."""
    limits_w: tuple[float, ...] = ()
    known_s: tuple[float, ...] = ()
    """Times from which each of ``limits_w`` is known to passes that look ahead; empty: all from the beginning."""
    base_w: float = 0.0
    """Watts beside units and domains below: switches, coolant pumps, storage. Counted in the scope ``machine``."""
    efficiency: float = 1.0
    """Output over input of what it passes on: supplies, transformers. Counted in the scope ``machine``."""
    meter: str = ""
    """The name of its meter; empty for none."""

    def __post_init__(self) -> None:
        where = f"supply {self.name}"
        bounds.CAP_W.require(self.base_w, "base_w", where=where, kind=MachineError)
        if not 0.0 < self.efficiency <= 1.0:
            raise MachineError(f"efficiency = {self.efficiency}", where=where, hint="above 0 and at most 1")
        if self.limit_w is not None:
            bounds.CAP_W.require(self.limit_w, "limit_w", where=where, kind=MachineError)
        if len(self.limit_s) != len(self.limits_w) or (self.limit_s and self.limit_w is not None):
            hint = "one watt figure for each time, and no limit_w beside them"
            raise MachineError("limit_s, limits_w and limit_w do not agree", where=where, hint=hint)
        for time_s, watts in zip(self.limit_s, self.limits_w, strict=True):
            bounds.TIME_S.require(time_s, "limit_s", where=where, kind=MachineError)
            bounds.CAP_W.require(watts, "limits_w", where=where, kind=MachineError)
        if list(self.limit_s) != sorted(set(self.limit_s)):
            raise MachineError("times of limit_s do not rise", where=where, hint="sort them, each time once")
        if self.known_s and (
            len(self.known_s) != len(self.limit_s)
            or any(not known <= time_s for known, time_s in zip(self.known_s, self.limit_s, strict=True))
        ):
            hint = "one time for each of limit_s, and none after it"
            raise MachineError("known_s and limit_s do not agree", where=where, hint=hint)

    @property
    def least_limit_w(self) -> float:
        """Return the lowest limit of all times; inf for none."""
        return min(self.limits_w, default=math.inf if self.limit_w is None else self.limit_w)

    @cached_property
    def _series(self) -> tuple[Floats, Floats, Floats]:
        """Return times, limits and times of notice as arrays: they are asked for at each of many times."""
        known_s = np.array(self.known_s or (-math.inf,) * len(self.limit_s), np.float64)
        return np.array(self.limit_s, np.float64), np.array(self.limits_w, np.float64), known_s

    def known_at(self, time_s: float) -> tuple[Floats, Floats]:
        """Return the rows of its series that are known at a time: when each limit holds, and its watts. Shapes (k,)."""
        limit_s, limits_w, known_s = self._series
        rows = known_s <= time_s
        rows[:1] = True
        return limit_s[rows], limits_w[rows]

    def limit_at(self, time_s: float) -> float:
        """Return the limit at a time, in watts; inf for none. The first one holds before its time, too (rule 1)."""
        return float(self.limits_at(np.array([time_s]))[0])

    def highest_from(self, time_s: float) -> float:
        """Return the highest limit from a time on, in watts; inf for none."""
        later_w = (watts for at_s, watts in zip(self.limit_s, self.limits_w, strict=True) if at_s > time_s)
        return max([self.limit_at(time_s), *later_w])

    def limits_at(self, times_s: Floats) -> Floats:
        """Return the limit at each of some times, as ``limit_at``. Shapes (k,)."""
        if not self.limit_s:
            return np.full(len(times_s), self.least_limit_w)
        limit_s, limits_w, _ = self._series
        return limits_w[np.maximum(np.searchsorted(limit_s, times_s, side="right") - 1, 0)]


class Part(Protocol):
    """What the tree needs to know of a partition (``model.machine.Partition``)."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def nodes(self) -> int:
        """Return its nodes."""

    @property
    def units(self) -> int:
        """Return its units."""

    @property
    def units_per_node(self) -> int:
        """Return the units of a node."""

    @property
    def idle_w(self) -> float:
        """Return the watts of an idle unit."""


class Below(NamedTuple):
    """Units of one partition that a domain has itself, or through domains below it."""

    own: int
    """The domain whose own they are."""
    partition: int
    units: int
    gain: float
    """Watts that the domain counts for a watt of such a unit."""


@dataclass(frozen=True)
class SupplyTree:
    """The domains of a machine as a tree; D domains, those below others first.

    Raises: MachineError for names that are twice there or nowhere, cycles, nodes with two parents or with none, domains
    without units, and limits below what the idle machine draws.
    """

    domains: tuple[SupplyDomain, ...]
    parent: Ints
    """The domain that feeds each, -1 for none. Shape (D,)."""
    of_unit: Ints
    """The lowest domain of each unit, -1 where the machine has no tree. Shape (U,)."""
    below: tuple[tuple[Below, ...], ...]
    """What stands below each domain."""
    base_w: Floats
    """Watts of each domain without its units, those of domains below it included. Shape (D,)."""

    @classmethod
    def of(cls, supply: Sequence[SupplyDomain], partitions: Sequence[Part], *, in_watts: bool) -> SupplyTree:
        """Return the tree of some domains; none are a tree, too.

        ``in_watts``: the cap covers the machine, so that base, losses and idle watts count.
        """
        stated = {domain.name: domain for domain in supply}
        if len(stated) < len(supply):
            names = [domain.name for domain in supply]
            twice = next(name for name in names if names.count(name) > 1)
            raise MachineError(f"two domains of the name {twice}", where="supply", hint=ONE_TREE)
        paths = {name: _path(name, stated) for name in stated}
        order = sorted(stated, key=lambda name: -len(paths[name]))  # stable: as stated within a level
        number = {name: k for k, name in enumerate(order)}
        domains = tuple(stated[name] for name in order)
        parent = np.array([number.get(domain.parent, -1) for domain in domains], np.int32)
        scales = [domain.efficiency if in_watts else 1.0 for domain in domains]
        base = [domain.base_w if in_watts else 0.0 for domain in domains]
        for k, up in enumerate(parent):
            if up >= 0:
                base[up] += base[k] / scales[up]
        of_unit = _units_of(partitions, domains)
        below: list[list[Below]] = [[] for _ in domains]
        for own, partition, units in _own(partitions, of_unit):
            k, gain = own, 1.0
            while k >= 0:
                gain /= scales[k]
                below[k].append(Below(own, partition, units, gain))
                k = int(parent[k])
        tree = cls(domains, parent, of_unit, tuple(map(tuple, below)), np.array(base, np.float64))
        tree._require_room([part.idle_w if in_watts else 0.0 for part in partitions])
        return tree

    def _require_room(self, idle_w: Sequence[float]) -> None:
        """Raise MachineError for a domain without units, and a limit below base and idle watts, (P,) of a unit."""
        least_uw = self.input_uw(idle_w)
        for k, domain in enumerate(self.domains):
            if not self.below[k]:
                hint = "name its nodes, or domains that it feeds (parent), or leave it out"
                raise MachineError("a domain without units", where=f"supply {domain.name}", hint=hint)
            if float(np.rint(domain.least_limit_w * MICRO)) < least_uw[k]:
                raise MachineError(
                    f"a limit of {domain.least_limit_w:,.15g} W is below its base and the idle watts of its units, "
                    f"{least_uw[k] / MICRO:,.15g} W",
                    where=f"supply {domain.name}",
                    hint="raise the limit, or set cap_scope to dynamic (watts above idle) or jobs",
                )

    def input_uw(self, unit_w: Sequence[float]) -> NDArray[np.int64]:
        """Return the input of each domain in microwatts if all units of a partition draw its figure. Shape (D,)."""
        return np.array(
            [
                math.ceil(base * MICRO)
                + sum(part.units * counted_uw(round(unit_w[part.partition] * MICRO), part.gain) for part in parts)
                for base, parts in zip(self.base_w, self.below, strict=True)
            ],
            np.int64,
        )

    @cached_property
    def gain(self) -> Floats:
        """Return the watts that each domain counts for a watt of a unit below it, the greatest of them. Shape (D,)."""
        return np.array([max(part.gain for part in parts) for parts in self.below], np.float64)

    def among(self, keep: NDArray[np.bool_]) -> Ints:
        """Return the lowest kept domain at or above each, by its number among the kept ones; -1 where there is none.

        ``keep`` (D,). Shape (D + 1,): the last row stands for no domain, -1.
        """
        number = np.full(len(keep) + 1, -1, np.int32)
        number[:-1][keep] = np.arange(np.count_nonzero(keep))
        for k in reversed(range(len(keep))):  # those that feed others come last
            if number[k] < 0:
                number[k] = number[self.parent[k]]
        return number

    @cached_property
    def times_s(self) -> tuple[float, ...]:
        """Return the times at which a limit changes, rising; the first row of a series changes nothing (rule 1)."""
        return tuple(sorted({time_s for domain in self.domains for time_s in domain.limit_s[1:]}))

    def path(self, domain: int) -> Iterator[int]:
        """Yield a domain and those that feed it, up to the top."""
        while domain >= 0:
            yield domain
            domain = int(self.parent[domain])


def counted_uw(unit_uw: int, gain: float) -> int:
    """Return what a domain counts for a unit of so many microwatts: what it draws, and what is lost on the way."""
    return math.ceil(unit_uw * gain)


def _path(name: str, stated: dict[str, SupplyDomain]) -> list[str]:
    """Return a domain and those that feed it. Raises: MachineError for a parent that is not there, and a cycle."""
    path = [name]
    while parent := stated[path[-1]].parent:
        if parent not in stated:
            where = f"supply {path[-1]}"
            raise MachineError(f"parent {parent!r} is no domain", where=where, hint=one_of(parent, stated))
        if parent in path:
            what = f"feeds itself: {' <- '.join([*path, parent])}"
            raise MachineError(what, where=f"supply {parent}", hint="one domain of the cycle has no parent")
        path.append(parent)
    return path


def _units_of(partitions: Sequence[Part], domains: Sequence[SupplyDomain]) -> Ints:
    """Return the domain whose own each unit is. Raises: MachineError for a node in two of them, or in none."""
    number, begins = {part.name: p for p, part in enumerate(partitions)}, _begins(partitions)
    of_unit = np.full(begins[-1], -1, np.int32)
    for k, domain in enumerate(domains):
        where = f"supply {domain.name}"
        for name, first, stated in node_ranges(domain.nodes, where):
            if name not in number:
                raise MachineError(f"no partition {name!r}", where=where, hint=one_of(name, number))
            part, begin = partitions[number[name]], begins[number[name]]
            last = part.nodes if stated is None else stated
            if not 1 <= first <= last <= part.nodes:
                raise MachineError(
                    f"nodes {first} to {last} of {name}, which has {part.nodes}", where=where, hint="count from 1 on"
                )
            rows = slice(begin + (first - 1) * part.units_per_node, begin + last * part.units_per_node)
            taken = np.flatnonzero(of_unit[rows] >= 0)
            if len(taken):
                other = domains[int(of_unit[rows][taken[0]])].name
                node = first + int(taken[0]) // part.units_per_node
                raise MachineError(f"node {node} of {name} is in {other}, too", where=where, hint=ONE_TREE)
            of_unit[rows] = k
    for part, begin in zip(partitions, begins, strict=False):
        left = np.flatnonzero(of_unit[begin : begin + part.units] < 0)
        if domains and len(left):
            missing, first = len(left) // part.units_per_node, int(left[0]) // part.units_per_node + 1
            raise MachineError(
                f"{missing} of {part.nodes} nodes of {part.name} are in no domain, the first is {first}",
                where="supply",
                hint="put them into one; it may have no limit",
            )
    return of_unit


def _begins(partitions: Sequence[Part]) -> list[int]:
    """Return the first unit of each partition, and the number of units."""
    begins = [0]
    for part in partitions:
        begins.append(begins[-1] + part.units)
    return begins


def _own(partitions: Sequence[Part], of_unit: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield (domain, partition, units of its own there)."""
    for p, begin in enumerate(_begins(partitions)[:-1]):
        found = of_unit[begin : begin + partitions[p].units]
        for own, units in zip(*np.unique(found[found >= 0], return_counts=True), strict=True):
            yield int(own), p, int(units)


def node_ranges(text: str, where: str) -> Iterator[tuple[str, int, int | None]]:
    """Yield (partition, first node, last node) of a list of nodes; None: up to its last.

    Raises: MachineError for text that is no such list.
    """
    at = 0
    while at < len(text.rstrip()):
        found = NODES.match(text, at)
        parts = (found[2] or "1-").split(",") if found else [""]
        for part in parts:
            first, dash, last = part.strip().partition("-")
            if found is None or not is_whole(first) or not is_whole(last or "0"):
                raise MachineError(f"nodes = {text!r}", where=where, hint="for example batch[1-32,40],gpu")
            number = int(first)
            yield found[1], number, (int(last) if last else None if dash else number)
        at = found.end() if found else len(text)
