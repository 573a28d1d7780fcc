"""Keep room for jobs that wait and that the resource manager alone schedules.

What waits is no power, but it may start before the next round: nodes and watts that it would take are kept for it, so
that the policy starts nobody else on them (semantics, rule 2). The jobs that the policy released were given their room
by the policy. Of the others (several components, no watts) nobody asked whether they fit:

- those that fit beside all that runs and is kept before them keep their room: the resource manager starts them at once;
- of those that do not fit, the oldest keeps what is free of its nodes and watts for ``patience_s``. Then none does for
  as long, however many wait: else a stream of them would keep the policy from starting anything.

``Sorter`` leaves a job out that has waited for longer than the start timeout: something that nobody sees here stops it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.cluster import Job
from wattqueue.live.world import Layout


@dataclass
class PendingRoom:
    """Decides from round to round for which of these jobs room is kept."""

    layout: Layout
    patience_s: float
    _until_s: float = -math.inf
    """Until when the oldest job that does not fit keeps what is free."""

    def kept(
        self,
        rows: Iterable[Job],
        partition: Callable[[Job], int],
        free: tuple[NDArray[np.bool_], Container[int]],
        room_w: float,
        now_s: float,
    ) -> list[Job]:
        """Return the rows for which room is kept, in their order.

        ``partition`` returns the machine partition of a row. ``free`` are the units that can be used, (units,), and
        those that jobs hold; ``room_w`` the watts that no job holds.
        """
        jobs: dict[str, list[Job]] = {}
        for row in rows:
            jobs.setdefault(row.target, []).append(row)
        if not jobs:
            return []
        usable, taken = free
        left = Counter(self.layout.row_of(int(unit)) for unit in np.flatnonzero(usable) if unit not in taken)
        out: list[Job] = []
        waits = False
        for group in jobs.values():
            nodes = Counter[int]()
            for row in group:
                nodes[partition(row)] += row.nodes
            # one that carries no watts asks for none, and starts as soon as it has its nodes
            watts = sum(max(row.watts, 0) for row in group)
            fits = watts <= room_w and all(left[p] >= count for p, count in nodes.items())
            if fits or (not waits and self._patient(now_s)):
                out += group
                left.subtract(nodes)
                room_w -= watts
            waits = waits or not fits
        return out

    def _patient(self, now_s: float) -> bool:
        """Whether room is kept now for a job that does not fit; begins such a time if none was for long enough."""
        if now_s >= self._until_s + self.patience_s:
            self._until_s = now_s + self.patience_s
        return now_s < self._until_s
