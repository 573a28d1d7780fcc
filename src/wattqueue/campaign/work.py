"""The worker's side of a campaign: prepare the process once, then run one cell after another.

Preparation (``prepare_process``) does two things that concern the process, not the cell: kernels are compiled once
per machine under a lock, and BLAS gets one thread so that results do not depend on the number of cores.
"""

from __future__ import annotations

import fcntl
import platform
from dataclasses import dataclass
from functools import cache

from wattqueue.campaign.cell import Cell, Row, program
from wattqueue.campaign.shared import Shared
from wattqueue.errors import CampaignError, WattQueueError
from wattqueue.kernels.cache import CACHE_DIR
from wattqueue.kernels.mode import COMPILES


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
        expected: Identity of the program that sent the cell (``cell.program``).

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


def compile_once() -> None:
    """Compile the kernels once per machine: the first process compiles, the others wait and load the cache.

    Without the lock every worker of a new version would compile the same kernels for 20 s at the same time.
    """
    if not COMPILES:
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
