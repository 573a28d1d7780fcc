"""The plan of conservative backfilling as a list of places; what is free is counted anew at every question."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """Units and net watts held from ``begin`` to ``end``."""

    begin: float
    end: float
    partition: int
    nodes: int
    net: int


@dataclass
class PlaceList:
    """Places of running and of planned jobs; ``free`` units by partition and ``watts`` without any of them."""

    free: list[int]
    watts: int
    places: list[Place] = field(default_factory=list)

    def left_at(self, time: float, p: int) -> tuple[int, int]:
        """Units of p and watts that nobody holds at ``time``."""
        held = [place for place in self.places if place.begin <= time < place.end]
        return (
            self.free[p] - sum(place.nodes for place in held if place.partition == p),
            self.watts - sum(place.net for place in held),
        )

    def fits_from(self, place: Place) -> bool:
        """Whether ``place`` is free from its begin to its end."""
        inside = {t for q in self.places for t in (q.begin, q.end) if place.begin <= t < place.end}
        left = [self.left_at(t, place.partition) for t in inside | {place.begin}]
        return all(place.nodes <= nodes and place.net <= watts for nodes, watts in left)

    def earliest_row(self, now: float, wall: float, p: int, nodes: int, net: int) -> Place | None:
        """The earliest place for a walltime of ``wall``; it begins now, or when something ends or begins."""
        for time in sorted({now, *(t for q in self.places for t in (q.begin, q.end) if t >= now)}):
            place = Place(time, time + wall, p, nodes, net)
            if self.fits_from(place):
                return place
        return None

    def change_profile(self, place: Place) -> None:
        self.places.append(place)

    def profile_row(self, times: Iterable[float]) -> list[tuple[int, ...]]:
        """Free units of every partition, and watts, at each of ``times``."""
        partitions = range(len(self.free))
        rows = []
        for time in times:
            left = [self.left_at(time, p) for p in partitions]
            rows.append((*(nodes for nodes, _ in left), left[0][1] if left else math.nan))
        return rows  # type: ignore[return-value]
