"""Backends: where cells are run. ``Local`` uses processes of this machine; ``dask.Dask`` those of a scheduler.

A backend yields what became of each cell as soon as it is known, in any order. It is an iterator that its caller may
close early (an error, SIGTERM, Ctrl-C): closing ends the workers before it returns.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from wattqueue.campaign.cell import Cell, program
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, perform
from wattqueue.campaign.worker import Worker, WorkerDiedError, deferred
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
        self._started: list[Worker] = []

    def results(self, cells: NumberedCells, shared: Shared) -> Iterator[Done]:
        """Yield what became of each cell. Workers that die are replaced, and the cells that they held are repeated.

        One worker means this very process: nothing to start, and errors keep their traceback. More mean two processes
        at least, so that a run killed for its memory does not end the campaign.

        Raises: CampaignError once workers died three times in a row without finishing a cell; what a cell raised.
        """
        if self.workers == 1:
            for index, cell in cells:
                yield perform(index, cell, shared, program())
            return
        busy: dict[Worker, tuple[int, Cell]] = {}
        try:
            yield from self._spread(deque(cells), busy, shared)
        finally:
            self._end(busy)

    def _spread(
        self, waiting: deque[tuple[int, Cell]], busy: dict[Worker, tuple[int, Cell]], shared: Shared
    ) -> Iterator[Done]:
        """Give each worker a cell whenever it has none, and yield the outcomes as they come.

        ``busy`` holds the workers that run a cell, whenever this stops.
        """
        deaths = 0
        processes = max(2, min(self.workers, len(waiting)))
        while waiting or busy:
            idle = [worker for worker in self._started if worker not in busy]
            while waiting and len(busy) < processes:
                worker = idle.pop() if idle else self._start()
                busy[worker] = waiting.popleft()
                worker.start(*busy[worker], shared, program())
            for worker in _ready(busy):
                try:
                    done = worker.result()
                except WorkerDiedError:
                    deaths += 1
                    _require_few(deaths, busy[worker][1])
                    waiting.appendleft(busy.pop(worker))
                    self._end([worker])
                    continue
                deaths = 0
                del busy[worker]
                if waiting:  # before the outcome is yielded: it takes its time to store it
                    busy[worker] = waiting.popleft()
                    worker.start(*busy[worker], shared, program())
                yield done

    def close(self) -> None:
        """End the worker processes; the next call of ``results`` starts new ones."""
        self._end(self._started)

    def _start(self) -> Worker:
        """Start a worker. Signals are delayed until it is known, so that it can be ended."""
        with deferred():
            self._started.append(Worker())
        return self._started[-1]

    def _end(self, workers: Iterable[Worker]) -> None:
        """End some workers, and forget them. Signals are delayed until they have ended."""
        with deferred():
            for worker in list(workers):
                worker.end()
                self._started.remove(worker)


def _ready(workers: Iterable[Worker]) -> list[Worker]:
    """Wait until some workers have an outcome, or died, and return them.

    Not ``select.select``, which refuses file descriptors above 1,023: mapped tables of a large campaign have more.
    """
    by_number = {worker.outcomes.fileno(): worker for worker in workers}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll()]


def _require_few(deaths: int, cell: Cell) -> None:
    """Check that not too many workers died in a row. Raises: CampaignError."""
    if deaths == MOST_WORKER_DEATHS:
        raise CampaignError(
            f"workers died {deaths} times in a row without finishing anything",
            where=str(cell),
            hint="often too little memory: fewer workers (--workers) need less; finished runs are kept",
        )
