"""Where cells are run: the processes of this machine, or what else can take them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

from wattqueue.campaign.cell import Cell
from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, perform
from wattqueue.errors import CampaignError

Places = Sequence[tuple[int, Cell]]
MOST_DEATHS = 3
"""How often in a row workers may die before any cell is finished."""


class Backend(Protocol):
    """Runs cells somewhere, in whatever order."""

    def results(self, cells: Places, shared: Shared) -> Iterator[Done]:
        """What became of each cell, by its place, as soon as it is known.

        Raises: CampaignError where workers cannot be reached, or are of another program.
        """
        ...


class Local:
    """Processes of this machine; with one worker, this process itself."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def results(self, cells: Places, shared: Shared) -> Iterator[Done]:
        """As Backend says. Workers that die (killed, out of memory) are replaced, and what they had done again."""
        if self.workers == 1:
            for place, cell in cells:
                yield perform(place, cell, shared, program())
            return
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left = dict(cells)
        deaths = 0
        while left:
            try:
                for done in spread(list(left.items()), shared, n_jobs=self._processes(len(left))):
                    del left[done.place]
                    deaths = 0
                    yield done
            except TerminatedWorkerError as error:
                deaths += 1
                if deaths == MOST_DEATHS:
                    raise CampaignError(
                        f"workers died {deaths} times in a row without finishing anything",
                        where=str(next(iter(left.values()))),
                        mend="is there memory enough? fewer workers (--jobs) need less; what was finished is kept",
                    ) from error

    def _processes(self, cells: int) -> int:
        """Never this process alone where there may be several: a run that is killed would take the campaign along."""
        return max(2, min(self.workers, cells))


def spread(cells: Places, shared: Shared, **settings: Any) -> Iterator[Done]:
    """Cells through joblib, which hands them out in batches of 0.2 to 2 seconds; results as they come."""
    from joblib import Parallel, delayed

    tasks = (delayed(perform)(place, cell, shared, program()) for place, cell in cells)
    with _quietly_left(), closing(Parallel(**settings, return_as="generator_unordered")(tasks)) as found:
        yield from found


@contextmanager
def _quietly_left() -> Iterator[None]:
    """Joblib warns of results that nobody took where an error, which is told, ends a campaign early."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
        yield
