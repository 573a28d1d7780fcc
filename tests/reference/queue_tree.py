"""The queue's tree without a tree: a list of entries, looked through from the front every time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Entry = tuple[int, float, int]
"""Units, walltime, watts."""


@dataclass
class QueueList:
    """Entries of one partition by their leaf."""

    leaves: dict[int, Entry] = field(default_factory=dict)

    def tree_set(self, leaf: int, need: int, wall: float, watt: int) -> None:
        self.leaves[leaf] = (need, wall, watt)

    def tree_clear(self, leaf: int) -> None:
        del self.leaves[leaf]

    def tree_next(self, leaf: int, most: Entry, spare: tuple[int, int]) -> int:
        """The first entry from ``leaf`` on that fits ``most``; a longer one has to fit into ``spare``."""
        for k in sorted(k for k in self.leaves if k >= leaf):
            need, wall, watt = self.leaves[k]
            if need <= most[0] and watt <= most[2] and (wall <= most[1] or (need <= spare[0] and watt <= spare[1])):
                return k
        return -1

    def tree_pull(self, begin: int, end: int) -> tuple[float, float, float]:
        """Least units, walltime and watts of the entries from ``begin`` up to, not including, ``end``."""
        inside = [entry for k, entry in self.leaves.items() if begin <= k < end]
        return (
            min((e[0] for e in inside), default=math.inf),
            min((e[1] for e in inside), default=math.inf),
            min((e[2] for e in inside), default=math.inf),
        )

    def lower_classes(self, begin: int, end: int, most: float, by: int) -> float:
        """Least walltime of entries of at most ``most`` units (``by`` = 0) or watts (``by`` = 2)."""
        return min((e[1] for k, e in self.leaves.items() if begin <= k < end and e[by] <= most), default=math.inf)
