"""What a worker does: look whether it is of the right program, then one cell after another."""

from __future__ import annotations

import fcntl
import gc
import os
import platform
import sys
import threading
from dataclasses import dataclass
from functools import cache
from multiprocessing import current_process
from pathlib import Path
from typing import Any

from wattqueue.campaign.cell import Cell, Row
from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared
from wattqueue.errors import CampaignError, WattQueueError
from wattqueue.kernels._jit import CACHE_DIR

LOOK_S = 0.5
"""How often a worker looks whether its campaign still lives."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a cell: its row, or why there is none. ``place`` is its place in the grid."""

    place: int
    row: Row | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a worker says of itself: which program it runs, and whether it sees the shared folder."""

    program: str
    folder: bool


def look(shared: Shared) -> Seen:
    """Asked of each worker before work starts."""
    return Seen(program(), shared.marked())


def perform(place: int, cell: Cell, shared: Shared, expected: str) -> Done:
    """Run one cell in this process. A run that cannot be done is told, not raised.

    Raises: CampaignError where this process runs another program than the one that sent the cell.
    """
    if program() != expected:
        raise CampaignError(
            f"runs {program()}, this campaign {expected}",
            where=f"a worker on {platform.node()}",
            mend="install one version everywhere",
        )
    ready()
    try:
        return Done(place, cell.perform(shared))
    except WattQueueError as error:
        return Done(place, None, " ".join(str(error).split()))


@cache
def ready() -> None:
    """Compile the kernels unless this machine has them; let BLAS compute in one thread.

    A product of long vectors is summed in as many pieces as there are threads, which shows in its last digit.
    """
    compile_once()
    one_thread()
    if current_process().name.startswith("LokyProcess"):
        count_own_memory()
        leave_with_parent()


def compile_once() -> None:
    """Compile the kernels once a machine: the first process does, others wait for it and load what it left."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return
    mark = CACHE_DIR / f"warm-{platform.node()}"
    if mark.exists():
        return
    with (CACHE_DIR / "warm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            from wattqueue.sim.warm import warm_up

            warm_up()
            mark.touch()


def one_thread() -> None:
    """Let BLAS and OpenMP compute in one thread from here on, in this process, where they can be told."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return
    threadpool_limits(1)


def count_own_memory() -> None:
    """Have loky count a worker's own memory, without the files that it has mapped.

    loky replaces a worker whose resident memory has grown by 300 MB, every second anew: shared columns count there,
    though nothing leaks, and each new worker begins by opening them all again.
    """
    executor: Any = sys.modules.get("joblib.externals.loky.process_executor")
    if hasattr(executor, "_get_memory_usage"):
        executor._get_memory_usage = own_bytes  # noqa: SLF001 - joblib 1.6 offers no setting


def own_bytes(pid: int, force_gc: bool = False) -> int:
    """Resident memory of a process that no file stands behind."""
    if force_gc:
        gc.collect()
    with Path(f"/proc/{pid}/statm").open() as statm:
        resident, shared = (int(word) for word in statm.read().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def leave_with_parent() -> None:
    """End this process soon after its parent; loky's workers wait five minutes for one that was killed."""
    parent, never = os.getppid(), threading.Event()

    def watch() -> None:
        while os.getppid() == parent:
            never.wait(LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, name="leave-with-parent", daemon=True).start()
