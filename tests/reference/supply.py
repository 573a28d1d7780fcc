"""Power domains, naively: every unit is tested by itself against every domain on its path, none is left out.

GPUs of one job are in one node or make up whole nodes: a dictionary of nodes with their free units decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wattqueue.model.machine import Machine
from wattqueue.model.supply import SupplyDomain, node_ranges

Figures = int | Sequence[int]
"""Net microwatts of each of some units: the same for all, or one for each."""
Load = Sequence[tuple[Sequence[int], Figures, float]]
"""Jobs: their units, the net microwatts of these, and the share of their variance that is left."""
Terms = tuple[float, float, float]


@dataclass
class Room:
    """What a domain has: microwatts of jobs that it may feed, those of the jobs there, and their squares (W^2)."""

    most: float
    drawn: int = 0
    squares: int = 0

    def left(self, terms: Terms | None, more: int = 0) -> float:
        """What is left beside its jobs and one of ``more`` microwatts, with their margin."""
        if terms is None or self.most == math.inf:
            return self.most - self.drawn - more
        share, own, common = terms
        squares = self.squares + round((more / 1e6) ** 2)
        margin = math.ceil(math.sqrt(own * squares + common * ((self.drawn + more) / 1e6) ** 2) * 1e6)
        return math.floor(self.most / share) - self.drawn - more - margin


@dataclass
class NaiveSupply:
    """The domains of a machine, by name."""

    machine: Machine
    balanced: bool = False
    """Whether a start levels watts over leaves."""
    racks: int = 0
    """Leaves that a start takes units of at most, where so many hold it; 0 for no bound."""
    binding: frozenset[str] | None = None
    """Names of the domains in the pass, of which leaves are made; None for all."""
    later: Sequence[Mapping[str, Room]] = ()
    """What domains have when each announced limit begins that the job at hand reaches."""
    idle_above: Mapping[int, int] = field(default_factory=dict)
    """What idle units count above idle, by their sensors."""
    by_node: bool = False
    """Whether GPUs are given node by node."""

    def __post_init__(self) -> None:
        self.domains = {domain.name: domain for domain in self.machine.supply}
        self.in_watts = self.machine.cap_scope == "machine"
        self.paths: dict[int, list[tuple[str, float]]] = {}
        """Domains of each unit from the lowest up, and what they count for a watt of it."""
        self.node_of: dict[int, tuple[int, int]] = {}
        """First unit and number of units of the node of each unit that is given by node."""
        first, self.idle_w = 0, dict[int, float]()
        for part in self.machine.partitions:
            size = part.units // part.nodes
            for unit in range(part.units):
                self.idle_w[first + unit] = part.idle_w
                self.paths[first + unit] = []
                if self.by_node and part.unit == "gpu" and size > 1:
                    self.node_of[first + unit] = (first + unit // size * size, size)
            for domain in self.machine.supply:
                for name, low, high in node_ranges(domain.nodes, ""):
                    if name == part.name:
                        for node in range(low, (part.nodes if high is None else high) + 1):
                            for unit in range(first + (node - 1) * size, first + node * size):
                                self.paths[unit] = self.path(domain.name)
            first += part.units

    def path(self, name: str) -> list[tuple[str, float]]:
        found, gain = [], 1.0
        while name:
            gain /= self.domains[name].efficiency if self.in_watts else 1.0
            found.append((name, gain))
            name = self.domains[name].parent
        return found

    def base_uw(self, name: str) -> int:
        """The base of a domain with those below it, through their losses."""
        return math.ceil(self.base_w(name) * 1e6) if self.in_watts else 0

    def base_w(self, name: str) -> float:
        below = [one.name for one in self.domains.values() if one.parent == name]
        return self.domains[name].base_w + sum(self.base_w(one) / self.domains[name].efficiency for one in below)

    def room(self, time: float, standing: Load, load: Load, *, highest: bool = False) -> dict[str, Room]:
        """What each domain has at a time, beside nodes as they stand without jobs, and jobs."""
        room = {}
        for name, domain in self.domains.items():
            later = [time, *(t for t in domain.limit_s if t > time)] if highest else [time]
            limit = max(domain.limit_at(t) for t in later)
            room[name] = Room(round(limit * 1e6) - self.base_uw(name) if limit < math.inf else math.inf)
        for units, uw, _ in standing if self.in_watts else ():
            for name, watts in self.taken(units, uw).items():
                room[name].most -= watts
        for unit, uw in self.idle_above.items():
            for name, watts in self.taken([unit], uw).items():
                room[name].most -= watts
        for units, uw, share in load:
            self.take(room, units, uw, share)
        return room

    def known(self, one: SupplyDomain, now: float) -> list[tuple[float, float]]:
        """The rows of a series that are known."""
        known = one.known_s or [-math.inf] * len(one.limit_s)
        rows = zip(one.limit_s, one.limits_w, known, strict=True)
        return [(t, watts) for k, (t, watts, since) in enumerate(rows) if since <= now or not k]

    def falls(self, after: float, before: float) -> list[tuple[float, str]]:
        """When the limit of which domain becomes lower, between two times."""
        return [
            (t, name)
            for name, one in self.domains.items()
            for (_, high), (t, low) in itertools.pairwise(self.known(one, after))
            if low < high and after < t < before
        ]

    def idle(self, units: Iterable[int]) -> Load:
        """What units draw that are on and idle."""
        return [([unit], round(self.idle_w[unit] * 1e6), 1.0) for unit in units]

    def taken(self, units: Sequence[int], uw: Figures) -> dict[str, int]:
        """What units of so many microwatts take of each domain."""
        found = dict[str, int]()
        for unit, each in zip(units, [uw] * len(units) if isinstance(uw, int) else uw, strict=True):
            for name, gain in self.paths[unit]:
                found[name] = found.get(name, 0) + math.ceil(each * gain)
        return found

    def take(self, room: Mapping[str, Room], units: Sequence[int], uw: Figures, share: float = 1.0) -> None:
        """Let a job run on units."""
        for name, watts in self.taken(units, uw).items():
            room[name].drawn += watts
            room[name].squares += round(share * round((watts / 1e6) ** 2))

    def choose(
        self, free: Iterable[int], need: int, uw: int, room: Mapping[str, Room], terms: Terms | None = None
    ) -> list[int] | None:
        """The first units whose domains all have room, one after the other; None where there are too few."""
        free = list(free)
        if free and free[0] in self.node_of:
            return self.choose_nodes(free, need, uw, room, terms)
        found = list[int]()
        for unit in free:
            if len(found) == need:
                break
            if self.hold([*found, unit], uw, room, terms):
                found.append(unit)
        return found if len(found) == need else None

    def hold(self, units: Sequence[int], uw: int, room: Mapping[str, Room], terms: Terms | None) -> bool:
        """Whether the domains above the last of some units have room for all of them."""
        taken = self.taken(units, uw)
        path = [
            (one[name], taken[name]) for name, _ in self.paths[units[-1]] for one in (room, *self.later) if name in one
        ]
        return all(one.left(terms, watts) >= 0 for one, watts in path)

    def choose_nodes(
        self, free: Iterable[int], need: int, uw: int, room: Mapping[str, Room], terms: Terms | None
    ) -> list[int] | None:
        """GPUs of the node with the least free ones that hold the job, the lowest of these; a job wider than a node
        gets the lowest nodes that are wholly free, of the last one what is left."""
        nodes = dict[tuple[int, int], list[int]]()
        for unit in sorted(free):
            nodes.setdefault(self.node_of[unit], []).append(unit)
        size = next(iter(nodes))[1]
        if need <= size:
            held = [
                (len(units), units)
                for units in nodes.values()
                if len(units) >= need and self.hold(units[:need], uw, room, terms)
            ]
            return min(held)[1][:need] if held else None
        found = list[int]()
        for units in nodes.values():
            if len(units) == size and len(found) < need and self.hold([*found, *units], uw, room, terms):
                found += units
        return found[:need] if len(found) >= need else None

    def place(
        self,
        free: Sequence[int],
        free_anywhere: Iterable[int],
        need: int,
        uw: int,
        room: Mapping[str, Room],
        terms: Terms | None = None,
    ) -> list[int] | None:
        """The units that a start gets by the machine's placement; None where there are too few. ``free``: of its
        partition, in the order in which ``lowest`` or a rank takes them."""
        if not self.balanced and not self.racks:
            found = self.choose(free, need, uw, room, terms)
            return None if found is None else sorted(found)
        leaves = self.leaves(free)
        pulls, weights = self.pulls(leaves, free_anywhere, uw, room) if self.balanced else ([0.0] * len(leaves), [])
        may = [len(units) for units in leaves]
        if self.racks:
            may = self.bounded([self.most(units, uw, room, terms) for units in leaves], may, pulls, need)
        want = self.levelled(leaves, may, pulls, weights, need) if self.balanced else may
        first = [unit for units, n in zip(leaves, want, strict=True) for unit in units[:n]]
        second = [unit for units, n in zip(leaves, may, strict=True) if n for unit in units]
        order = list(dict.fromkeys([*first, *second, *free]))
        chosen = self.choose(order, need, uw, room, terms)
        if chosen is None:
            return None
        counts = [sum(unit in chosen for unit in units) for units in leaves]
        return [unit for units, n in zip(leaves, counts, strict=True) for unit in units[:n]]

    def leaves(self, free: Sequence[int]) -> list[list[int]]:
        """Free units of a partition by leaf: neighbours of one lowest domain in the pass."""
        found, last, begin = list[list[int]](), None, 0
        for part in self.machine.partitions:
            for unit in range(begin, begin + part.units):
                lowest = next(iter(self.kept(unit)), None)
                if unit == begin or lowest != last:
                    found.append([])
                last = lowest
                if unit in free:
                    found[-1].append(unit)
            begin += part.units
        return [sorted(units) for units in found if units]

    def kept(self, unit: int) -> list[tuple[str, float]]:
        return [one for one in self.paths[unit] if self.binding is None or one[0] in self.binding]

    def most(self, units: Sequence[int], uw: int, room: Mapping[str, Room], terms: Terms | None) -> int:
        """How many units of a leaf fit by themselves."""
        return max(n for n in range(len(units) + 1) if self.choose(units, n, uw, room, terms) is not None)

    def pulls(
        self, leaves: list[list[int]], free_anywhere: Iterable[int], uw: int, room: Mapping[str, Room]
    ) -> tuple[list[float], list[float]]:
        """Pull and weight of each leaf (the table of kernels/supply_placement.py)."""
        below: dict[str, int] = {}
        gain = {name: g for path in self.paths.values() for name, g in path}
        for unit in free_anywhere:
            for name, _ in self.kept(unit):
                below[name] = below.get(name, 0) + 1
        share = [
            min(
                (max(room[name].left(None), 0) / (below[name] * gain[name]) for name, _ in self.kept(units[0])),
                default=math.inf,
            )
            for units in leaves
        ]
        known = [(r, len(units)) for r, units in zip(share, leaves, strict=True) if self.kept(units[0])]
        watts, total, each = 0.0, sum(n for _, n in known), float(max(uw, 1))
        for r, n in known:
            watts += r * n
        if total and each * total >= watts:
            return [min(r / (2.0 * each), 1.0) for r in share], [float(len(units)) for units in leaves]
        pulls = [min(each / (2.0 * r), 1.0) if r > 0 else 1.0 for r in share]
        return pulls, [len(units) / (2.0 * max(v, 1e-300)) for v, units in zip(pulls, leaves, strict=True)]

    def bounded(self, fit: list[int], free: list[int], pulls: list[float], need: int) -> list[int]:
        """How many units each leaf may give if a job takes few leaves."""
        if sum(n > 0 for n in fit) <= self.racks:
            return fit
        enough = [k for k, n in enumerate(fit) if n >= math.ceil(need / self.racks)]
        if len(enough) >= self.racks:
            kept = sorted(enough, key=lambda k: -pulls[k])[: self.racks]
        else:
            kept = []
            for k in sorted(range(len(fit)), key=lambda k: -fit[k]):
                if sum(fit[i] for i in kept) < need:
                    kept.append(k)
        return [n if k in kept else 0 for k, n in enumerate(fit)]

    def levelled(
        self, leaves: list[list[int]], may: list[int], pulls: list[float], weights: list[float], need: int
    ) -> list[int]:
        """How many units of each leaf at the level at which they are enough."""

        def at(step: int) -> list[int]:
            x, found = 1.0 - step / 2**20, []
            for most, pull, weight in zip(may, pulls, weights, strict=True):
                if pull <= x:
                    found.append(0)
                elif pull >= 0.5 or x >= 0.5:
                    found.append(most)
                else:
                    found.append(int(min(most, weight * ((pull - x) / (0.5 - x)))))
            return found

        low, high = 0, 2**20
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if sum(at(middle)) >= need else (middle, high)
        want = at(high)
        for k in reversed(range(len(want))):
            want[k] -= min(want[k], max(sum(want) - need, 0))
        return want
