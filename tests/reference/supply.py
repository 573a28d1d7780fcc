"""Power domains, naively: every unit is tested by itself against every domain on its path, none is left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wattqueue.model.machine import Machine
from wattqueue.model.supply import node_ranges

Load = Sequence[tuple[Sequence[int], int]]
"""Jobs: their units, and the net microwatts of one of these."""


@dataclass
class NaiveSupply:
    """The domains of a machine, by name."""

    machine: Machine

    def __post_init__(self) -> None:
        self.domains = {domain.name: domain for domain in self.machine.supply}
        self.in_watts = self.machine.cap_scope == "machine"
        self.paths: dict[int, list[tuple[str, float]]] = {}
        """Domains of each unit from the lowest up, and what they count for a watt of it."""
        first, self.idle_w = 0, dict[int, float]()
        for part in self.machine.partitions:
            size = part.units // part.nodes
            for unit in range(part.units):
                self.idle_w[first + unit] = part.idle_w
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

    def room(self, time: float, on: Iterable[int], load: Load, *, highest: bool = False) -> dict[str, float]:
        """What each domain has room for at a time, beside idle units that are on and jobs."""
        room = {}
        for name, domain in self.domains.items():
            later = [time, *(t for t in domain.limit_s if t > time)] if highest else [time]
            limit = max(domain.limit_at(t) for t in later)
            room[name] = round(limit * 1e6) - self.base_uw(name) if limit < math.inf else math.inf
        for unit in on if self.in_watts else ():
            self.take(room, unit, round(self.idle_w[unit] * 1e6))
        for units, uw in load:
            for unit in units:
                self.take(room, unit, uw)
        return room

    def take(self, room: dict[str, float], unit: int, uw: int) -> None:
        for name, gain in self.paths[unit]:
            room[name] -= math.ceil(uw * gain)

    def choose(self, free: Iterable[int], need: int, uw: int, room: Mapping[str, float]) -> list[int] | None:
        """The first units whose domains all have room, one after the other; None where there are too few."""
        left, found = dict(room), list[int]()
        for unit in free:
            if len(found) == need:
                break
            if all(left[name] >= max(math.ceil(uw * gain), 0) for name, gain in self.paths[unit]):
                found.append(unit)
                self.take(left, unit, uw)
        return found if len(found) == need else None
