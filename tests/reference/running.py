"""Running jobs in one plain list; every sum is taken anew over all of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stay:
    """A running job: expected end, units, net watts, partition."""

    end: float
    nodes: int
    net: int
    partition: int


@dataclass
class RunningList:
    """What runs, by job."""

    jobs: dict[int, Stay] = field(default_factory=dict)

    def running_insert(self, job: int, stay: Stay) -> None:
        self.jobs[job] = stay

    def running_remove(self, job: int) -> None:
        del self.jobs[job]

    def running_sum(self) -> int:
        """Net watts of all."""
        return sum(stay.net for stay in self.jobs.values())

    def find_shadow(self, p: int, free: int, watts: int, need: tuple[int, int]) -> tuple[float, int, int]:
        """The earliest expected end at which ``need`` (units of p, watts) is free, and what is left then."""
        for time in sorted({stay.end for stay in self.jobs.values()}):
            over = [stay for stay in self.jobs.values() if stay.end <= time]
            nodes = free + sum(stay.nodes for stay in over if stay.partition == p) - need[0]
            watt = watts + sum(stay.net for stay in over) - need[1]
            if nodes >= 0 and watt >= 0:
                return time, nodes, watt
        return math.inf, 0, 0
