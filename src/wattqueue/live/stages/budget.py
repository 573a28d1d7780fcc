"""Find what the site's cap leaves for the jobs of managed nodes, and who holds how much of it.

From the cap come off, in this order:

- what shared nodes count (``live.shared_nodes``): what is left is the cap that the policy and its parts know, now and
  as announced (``Planner.left``);
- idle watts of managed nodes (``base_uw``), in the scope ``machine``;
- watts of running jobs that the resource manager does not count (``bare_w``);
- watts that running jobs may draw above their licences, beyond what the site accepts (``live.watts.bound``).

The rest, in whole watts and no more than the licence's total, is the pool.
"""

from __future__ import annotations

import math

import numpy as np

from wattqueue.live.cluster import Pool
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.table import Stage


@stage(
    reads="snapshot nodes left_w withheld_w holding holders running under_way jobs.row jobs.shown_w jobs.net_w "
    "jobs.stage",
    writes="base_uw bare_w held_w elsewhere_w cap_w pool_w",
)
def budget(now: RoundState) -> None:
    """Find the pool that Slurm should hold, and the cap for the policy that goes with it."""
    jobs, planner = now.jobs, now.planner
    planner.nodes.update(now.nodes)
    slots = np.array(now.holding, np.int64)
    now.base_uw, now.held_w = planner.nodes.base_uw, int(jobs.net_w[slots].sum())
    # of jobs without a licence, and suspended ones: Backfill of Slurm 22.05 with bf_licenses starts others on the
    # licences of suspended jobs, and a resume checks nothing
    uncounted = jobs.shown_w[slots] < 0
    paused = np.flatnonzero(jobs.stage[slots] == Stage.SUSPENDED)
    uncounted[[k for k in paused.tolist() if jobs.row[slots[k]].state == "suspended"]] = True
    now.bare_w = int(jobs.net_w[slots[uncounted]].sum())
    now.cap_w, now.pool_w = pool_of(now)
    now.elsewhere_w = _elsewhere_w(now) if planner.rules.mode == "control" else 0


def pool_of(now: RoundState) -> tuple[float, int | None]:
    """Return the cap for the policy, and the pool, with what running jobs hold.

    A guard counts nodes that are off, or shared and drained, as if they were in service: it would refuse more.
    """
    counted_w = now.planner.shared_count.watts + now.base_uw / 1e6
    short_w = math.ceil(max(0.0, now.planner.rules.without_jobs_w - counted_w) - 1e-6)
    return pool_under(now.left_w, now.snapshot.pool, now.base_uw, now.bare_w, now.withheld_w + short_w)


def pool_under(
    cap_w: float, pool: Pool | None, base_uw: int, bare_w: int, withheld_w: int = 0
) -> tuple[float, int | None]:
    """Return the cap for the policy, and the pool that Slurm should hold: the cap less idle watts, whole.

    The pool cannot be greater than the licence's total in slurm.conf. ``bare_w`` is what running jobs may draw that
    Slurm does not count, so the pool is smaller by it. The policy gets the cap that the pool stands for, so that it
    never plans on watts that Slurm will not admit; its own ledger counts the bare jobs.
    """
    total = pool.total if pool is not None else None
    if not math.isfinite(cap_w):
        return (cap_w if total is None else base_uw / 1e6 + total + bare_w), total
    room = math.floor(cap_w - base_uw / 1e6 + 1e-6) - bare_w - withheld_w
    room = max(0, room if total is None else min(room, total))
    return base_uw / 1e6 + room + bare_w, room


def _elsewhere_w(now: RoundState) -> int:
    """Return watts of the pool that are not for the policy to use.

    They are held by running jobs outside the machine, or by jobs that no row shows: the pool is read after the jobs,
    so one may have started in between. A job under way may be that very job; its watts are counted already and account
    for some of the difference.
    """
    pool, jobs = now.snapshot.pool, now.jobs
    if pool is None:
        return 0
    outside = sorted(set(now.running) - set(now.holding)) if now.holders < len(now.running) else []
    known = np.maximum(jobs.shown_w[np.array((*now.running, *now.under_way), np.int64)], 0).sum()
    return int(np.maximum(jobs.shown_w[np.array(outside, np.int64)], 0).sum()) + max(0, pool.used - int(known))


def alone_w(now: RoundState) -> float:
    """Return the cap for the policy without the load targets in it; -inf where there are none."""
    cap = now.planner.cap
    if cap.alone_w is None:
        return -math.inf
    left_w = max(now.alone_w - now.planner.shared_count.uw / 1e6, 0.0)
    return pool_under(left_w, now.snapshot.pool, now.base_uw, int(now.bare_w))[0]
