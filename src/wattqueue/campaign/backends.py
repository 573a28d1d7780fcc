"""Where cells are run: processes of this machine (joblib), or a Dask scheduler's workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Protocol

from wattqueue.campaign.cell import Cell
from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, perform


class Backend(Protocol):
    """Runs cells somewhere, in whatever order."""

    def results(self, cells: Sequence[tuple[int, Cell]], shared: Shared) -> Iterator[Done]:
        """What became of each cell, by its place, as soon as it is known."""
        ...


class Local:
    """Processes of this machine. joblib hands them cells in batches of 0.2 to 2 seconds."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def results(self, cells: Sequence[tuple[int, Cell]], shared: Shared) -> Iterator[Done]:
        """As Backend says."""
        from joblib import Parallel, delayed

        tasks = (delayed(perform)(place, cell, shared, program()) for place, cell in cells)
        parallel = Parallel(n_jobs=min(self.workers, len(cells)), return_as="generator_unordered")
        with closing(parallel(tasks)) as found:
            yield from found
