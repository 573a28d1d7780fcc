"""The worker's side of a campaign: prepare the process once, then run one cell after another.

Preparation (``prepare_process``) does four things that concern the process, not the cell: kernels are compiled once
per machine under a lock, BLAS gets one thread so that results do not depend on the number of cores, loky's memory
watchdog counts only private memory, and a worker ends soon after its parent, in whatever way that ended.
"""

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
from wattqueue.kernels.cache import CACHE_DIR

PARENT_CHECK_S = 0.5
"""Interval at which a worker checks whether its parent process still exists."""


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome of a cell."""

    index: int
    """Index of the cell in the grid."""
    row: Row | None
    """Its result; None if it failed."""
    failure: str = ""
    """Why it failed, in one line."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker reports before work starts."""

    program: str
    """The program that it runs."""
    folder: bool
    """Whether it sees the shared folder."""


def report_worker(shared: Shared) -> WorkerReport:
    """Return the report of this process."""
    return WorkerReport(program(), shared.marked())


def perform(index: int, cell: Cell, shared: Shared, expected: str) -> Done:
    """Run one cell in this process. A run that cannot be done is returned as a failure, not raised.

    Args:
        index: Index of the cell in the grid.
        cell: The cell.
        shared: Folder of shared inputs.
        expected: Identity of the program that sent the cell (``program.program``).

    Other exceptions than WattQueueError are defects and end the campaign with their traceback.

    Raises: CampaignError if this process runs another program than the one that sent the cell.
    """
    if program() != expected:
        raise CampaignError(
            f"runs {program()}, this campaign {expected}",
            where=f"a worker on {platform.node()}",
            hint="install one version everywhere",
        )
    prepare_process()
    try:
        return Done(index, cell.perform(shared))
    except WattQueueError as error:
        return Done(index, None, " ".join(str(error).split()))


@cache
def prepare_process() -> None:
    """Prepare this process for running cells, once.

    BLAS gets one thread because a product of long vectors is summed in as many parts as there are threads, and the
    order of summation changes the last digit: results would depend on the machine's cores.
    """
    compile_once()
    one_thread()
    if current_process().name.startswith("LokyProcess"):
        count_own_memory()
        exit_with_parent()


def compile_once() -> None:
    """Compile the kernels once per machine: the first process compiles, the others wait and load the cache.

    Without the lock every worker of a new version would compile the same kernels for 20 s at the same time.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return
    mark = CACHE_DIR / f"warm-{platform.node()}"
    if mark.exists():
        return
    try:
        opened = (CACHE_DIR / "warm.lock").open("w")
    except OSError:
        return  # a folder that cannot be written but is used holds compiled kernels already (kernels/cache.py)
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            from wattqueue.sim.warm import warm_up

            warm_up()
            mark.touch()


def one_thread() -> None:
    """Limit BLAS and OpenMP to one thread in this process, if threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return
    threadpool_limits(1)


def count_own_memory() -> None:
    """Make loky's watchdog count a worker's private memory only.

    loky checks every second and replaces a worker whose resident memory has grown by 300 MB. Mapped columns count as
    resident though nothing leaks, and each new worker would open them all again.
    """
    executor: Any = sys.modules.get("joblib.externals.loky.process_executor")
    if hasattr(executor, "_get_memory_usage"):
        executor._get_memory_usage = own_bytes  # noqa: SLF001 - joblib 1.6 offers no setting


def own_bytes(pid: int, force_gc: bool = False) -> int:
    """Return the resident memory of a process that is not backed by files, in bytes."""
    if force_gc:
        gc.collect()
    with Path(f"/proc/{pid}/statm").open() as statm:
        resident, shared = (int(word) for word in statm.read().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def exit_with_parent() -> None:
    """End this process soon after its parent; loky's workers wait five minutes for a parent that was killed.

    A parent that has ended is replaced by another (init or a subreaper), which changes ``getppid``.
    """
    parent, never = os.getppid(), threading.Event()

    def watch() -> None:
        """Poll the parent; ``_exit`` skips handlers that would wait for the parent's queues."""
        while os.getppid() == parent:
            never.wait(PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, name="leave-with-parent", daemon=True).start()
