"""Find what the site's cap leaves for the jobs of managed nodes, and who holds how much of it.

From the cap come off, in this order:

- what shared nodes count (``live.shared_nodes``): what is left is the cap that the policy and its parts know, now and
  as announced;
- idle watts of managed nodes (``base``), in the scope ``machine``;
- watts of running jobs that the resource manager does not count (``uncounted_w``);
- watts that running jobs may draw above their licences, beyond what the site accepts (``live.bound``).

The rest, in whole watts and no more than the licence's total, is the pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from wattqueue.live.cluster import Pool, Snapshot
from wattqueue.live.shared_nodes import SharedCount, SharedNodes
from wattqueue.live.sorting import Sorted
from wattqueue.live.world import Busy
from wattqueue.model.signals import Cap


@dataclass
class Budget:
    """The budget of one cluster, round after round."""

    shared: SharedNodes
    counted: SharedCount = field(default_factory=SharedCount)
    """What shared nodes count in this round."""
    _left: tuple[Cap, int, Cap] | None = None
    """A cap, what shared nodes counted then, and what was left of it."""

    def update(self, snapshot: Snapshot) -> None:
        """Take over the nodes of a round."""
        self.counted = self.shared.count(snapshot.nodes, snapshot.jobs)

    def left_of(self, cap: Cap) -> Cap:
        """Return what a cap leaves beside shared nodes, not below 0; the same object while nothing changed."""
        uw = self.counted.uw
        if not uw:
            return cap
        if self._left is None or self._left[0] is not cap or self._left[1] != uw:
            self._left = (cap, uw, Cap(cap.time_s, np.maximum(cap.cap_w - uw / 1e6, 0.0)))
        return self._left[2]

    def alone_w(self, cap: Cap, snapshot: Snapshot, base_uw: int, bare_w: int) -> float:
        """Return the cap for the policy without the load targets in it; -inf where there are none."""
        if cap.alone_w is None:
            return -math.inf
        left_w = max(cap.alone.in_force_w(snapshot.taken_s) - self.counted.uw / 1e6, 0.0)
        return pool_under(left_w, snapshot.pool, base_uw, bare_w)[0]


def pool_under(
    cap_w: float, pool: Pool | None, base_uw: int, bare_w: int, withheld_w: int = 0
) -> tuple[float, int | None]:
    """Return the cap for the policy, and the pool that Slurm should hold: the cap less idle watts, whole.

    The pool cannot be greater than the licence's total in slurm.conf. ``bare_w`` is what running jobs may draw that
    Slurm does not count (``uncounted_w``), so the pool is smaller by it. The policy gets the cap that the pool stands
    for, so that it never plans on watts that Slurm will not admit; its own ledger counts the bare jobs.
    """
    total = pool.total if pool is not None else None
    if not math.isfinite(cap_w):
        return (cap_w if total is None else base_uw / 1e6 + total + bare_w), total
    room = math.floor(cap_w - base_uw / 1e6 + 1e-6) - bare_w - withheld_w
    room = max(0, room if total is None else min(room, total))
    return base_uw / 1e6 + room + bare_w, room


def uncounted_w(busy: Iterable[Busy]) -> int:
    """Return the watts of jobs on managed nodes that Slurm does not count: of those without a licence, and suspended.

    Backfill of Slurm 22.05 with bf_licenses starts others on the licences of suspended jobs, and a resume checks
    nothing.
    """
    # the common case first: most of ten thousand jobs have a licence and run
    return sum([b.net_w for b in busy if (b.row.watts < 0 or b.row.state == "suspended") and b.row.active])


def elsewhere_w(pool: Pool | None, rows: Sorted, busy: Sequence[Busy]) -> int:
    """Return watts of the pool that are not for the policy to use.

    They are held by running jobs outside the machine, or by jobs that no row shows: the pool is read after the jobs,
    so one may have started in between. A job under way may be that very job; its watts are counted already and account
    for some of the difference.
    """
    if pool is None:
        return 0
    shown, outside = (*rows.running, *rows.under_way), 0
    if len(busy) < len(shown):  # each busy job is one of these rows
        ours = {id(job.row) for job in busy}
        outside = sum(max(row.watts, 0) for row in rows.running if id(row) not in ours)
    known = sum([row.watts for row in shown if row.watts > 0])
    return outside + max(0, pool.used - known)
