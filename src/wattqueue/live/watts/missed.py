"""Withhold from the pool what the cluster's own counter misses, while no controller compares the two.

The resource manager counts less than jobs hold after some restarts (``Pool.uncounted``), and it hands out the watts of
suspended jobs and checks nothing when they go on. A controller takes both off the pool in each round. While it is away,
each ``live release`` does:

    withheld = what the controller stored + max(0, watts of jobs that hold nodes - watts that the cluster counts)

where watts of suspended jobs do not count as counted. It is never less than what was stored, and exactly that when the
counter is right again. What is missing is the less of two readings some seconds apart: a job that completes between two
lists looks like a counter that is wrong. So one false reading withholds nothing, and what a wrong pair withholds is
given back by the next release, half a minute later.

What the controller withholds for the cap alone is in the file ``withheld`` of the run folder, since a release has to
work without the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.live.cluster import POOL, Pool, SetPool, Snapshot, Write
from wattqueue.live.driver import Cluster
from wattqueue.live.files.lease import read_stamp
from wattqueue.live.files.withheld import WITHHELD, store, suspended_w
from wattqueue.model.plain_numbers import is_whole

SECOND_READING_S = 3.0
"""Time between the two readings: a job that has ended is completing for about as long."""


def stored(folder: Path) -> int | None:
    """Return the controller's last figure; None where it has stored none."""
    found = read_stamp(folder / WITHHELD)
    return int(found[0]) if found is not None and is_whole(found[0]) else None


def missed_w(snapshot: Snapshot) -> int:
    """Return the watts of jobs that hold nodes which the cluster may hand out once more."""
    if snapshot.pool is None:
        return 0
    held = sum(row.watts for row in snapshot.jobs if row.active and row.watts > 0)
    counted = snapshot.pool.used - snapshot.pool.uncounted - suspended_w(row for row in snapshot.jobs if row.active)
    return max(0, held - counted)


def compared(
    cluster: Cluster, folder: Path, now_s: float, wait: Callable[[float], None] = time.sleep
) -> tuple[Snapshot, list[Write]]:
    """Return the cluster now, and the write of the pool where something else is to be withheld than is.

    Raises: ClusterError where the cluster cannot be observed.
    """
    snapshot = cluster.observe()
    missed = missed_w(snapshot)
    if missed:
        wait(SECOND_READING_S)
        snapshot = cluster.observe()
        missed = min(missed, missed_w(snapshot))
    return snapshot, list(_pool(snapshot, folder, missed, now_s))


def _pool(snapshot: Snapshot, folder: Path, missed: int, now_s: float) -> Iterator[Write]:
    """Yield the write that withholds the stored figure and what is missed."""
    pool = snapshot.pool
    if pool is None:
        return
    base = stored(folder)
    if base is None:  # a controller of an earlier version: what it withholds now stays
        base = pool.reserved
        if missed and folder.is_dir():
            try:
                store(folder, base, now_s)
            except OutputError:
                missed = 0  # else the next release would take it for the controller's
    wanted = min(pool.total, base + missed)
    if wanted != pool.reserved:
        why = f"{missed} W that jobs hold are not counted" if missed else "what jobs hold is counted"
        yield SetPool(
            POOL, str(_open_w(pool, pool.reserved)), str(_open_w(pool, wanted)), _open_w(pool, wanted),
            why=f"the controller is away: {why}", reduces_power=wanted > pool.reserved,
        )  # fmt: skip


def _open_w(pool: Pool, withheld: int) -> int:
    """Return the watts that jobs may hold together where so many are withheld (``Pool.open_w``)."""
    return pool.total - withheld + pool.uncounted
