"""Backends: where cells are run. ``Local`` uses processes of this machine; ``dask.Dask`` those of a scheduler.

A backend yields what became of each cell as soon as it is known, in any order. It is an iterator that its caller may
close early (an error, SIGTERM, Ctrl-C): closing ends the workers before it returns.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from wattqueue.campaign.cell import Cell
from wattqueue.campaign.interrupts import blocked_here, deferred, end_workers, start_trackers
from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, perform
from wattqueue.errors import CampaignError

NumberedCells = Sequence[tuple[int, Cell]]
"""Cells with their indices in the grid."""
MOST_WORKER_DEATHS = 3
"""How often in a row workers may die before any cell is finished; a cell that kills its worker would loop for ever."""


class Backend(Protocol):
    """Runs cells somewhere, in any order."""

    def results(self, cells: NumberedCells, shared: Shared) -> Iterator[Done]:
        """Yield what became of each cell as soon as it is known.

        Raises: CampaignError where workers cannot be reached, or are of another program.
        """
        ...


class Local:
    """Runs cells in processes of this machine; with one worker, in this process itself.

    Processes are kept between calls of ``results`` (their start takes seconds) until ``close``.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def results(self, cells: NumberedCells, shared: Shared) -> Iterator[Done]:
        """Yield what became of each cell. Workers that die are replaced, and the cells that they held are repeated.

        One worker means this very process, without joblib: nothing to start, and errors keep their traceback.

        Raises: CampaignError once workers died three times in a row without finishing a cell.
        """
        if self.workers == 1:
            for index, cell in cells:
                yield perform(index, cell, shared, program())
            return
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left = dict(cells)
        deaths = 0
        while left:
            try:
                for done in spread(list(left.items()), shared, n_jobs=self._processes(len(left))):
                    del left[done.index]
                    deaths = 0
                    yield done
            except TerminatedWorkerError as error:
                deaths += 1
                if deaths == MOST_WORKER_DEATHS:
                    raise CampaignError(
                        f"workers died {deaths} times in a row without finishing anything",
                        where=str(next(iter(left.values()))),
                        hint="often too little memory: fewer workers (--jobs) need less; finished runs are kept",
                    ) from error

    def close(self) -> None:
        """End the worker processes; the next call of ``results`` starts new ones."""
        if self.workers > 1:
            end_workers()

    def _processes(self, cells: int) -> int:
        """Return the number of processes: at least 2, so that a run killed for its memory does not end the campaign."""
        return max(2, min(self.workers, cells))


def spread(cells: NumberedCells, shared: Shared, **settings: Any) -> Iterator[Done]:
    """Run cells through joblib, which sends them in batches of 0.2 to 2 seconds; yield results as they finish.

    Args:
        cells: Cells with their indices.
        shared: Folder of shared inputs, pickled with each cell (it holds a path only).
        settings: Those of ``joblib.Parallel``.

    Each task carries the program's identity, so that a worker with another version refuses it.
    """
    from joblib import Parallel, delayed

    tasks = (delayed(perform)(index, cell, shared, program()) for index, cell in cells)
    with _without_joblib_warning():
        start_trackers()
        with blocked_here():
            found = Parallel(**settings, return_as="generator_unordered")(tasks)
        try:
            yield from found
        finally:
            with deferred():
                found.close()


@contextmanager
def _without_joblib_warning() -> Iterator[None]:
    """Silence joblib's warning about results that were not consumed: an error, which is reported, ended the loop."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
        yield
