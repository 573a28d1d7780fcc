"""What the controller withholds from the pool for the cap alone, in the file ``withheld`` of the run folder.

``live release`` has to work without the database, and withholds what the cluster's own counter misses besides
(``live.watts.missed``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wattqueue.live.cluster import Job
from wattqueue.live.files.lease import replace_text

WITHHELD = "withheld"


def suspended_w(rows: Iterable[Job]) -> int:
    """Return the watts of suspended jobs."""
    return sum(row.watts for row in rows if row.state == "suspended" and row.watts > 0)


def stored_figure(pool_w: int, total_w: int, suspended: int) -> int:
    """Return what a controller that wants ``pool_w`` of ``total_w`` open withholds for the cap alone.

    The pool is smaller by the watts of suspended jobs. Where nothing is open it is not known by how much.
    """
    return total_w if pool_w <= 0 else max(0, total_w - pool_w - suspended)


def store(folder: Path, watts: int, now_s: float) -> None:
    """Store the figure. Raises: OutputError where that is not possible; of equal length, it needs no room on a disk."""
    replace_text(folder / WITHHELD, f"{watts:012d} {int(now_s):012d}\n")
