"""Run the cells of a campaign that are not finished yet, and return all rows in the order of the grid.

``run_cells`` is the entry for studies and for users' own campaigns. It is deterministic in its result: rows stand in
the order of the cells, and equal cells run once, whatever the backend and the number of workers. A cell that fails
does not stop the others; the first failure (by index) is raised at the end, when everything else is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.campaign.backends import Backend, Local
from wattqueue.campaign.cell import Cell, Row, key_of
from wattqueue.campaign.result_store import ResultStore, open_result_store
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, compile_once
from wattqueue.errors import CampaignError
from wattqueue.formats.results import results_frame

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[int, int], None]
"""Called with (finished, all) after each cell."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How cells are run."""

    shared: Shared
    """Folder of the inputs that cells open by name."""
    backend: Backend
    """Where cells run."""
    progress: Progress | None = None
    """Reports progress, if given."""


def run_cells(
    cells: Sequence[Cell],
    *,
    shared: Shared | None = None,
    store: Path | None = None,
    workers: int | None = None,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Run cells and return their table: one row per cell, in the order of ``cells``.

    Args:
        cells: What to run; equal cells run once.
        shared: Holds what cells open by name.
        store: Folder that keeps finished rows, whose cells do not run again; None keeps nothing.
        workers: Processes of this machine, None for one per core; ended before this function returns.
        backend: Runs cells elsewhere, instead of those processes; it stays the caller's to close.
        progress: Called with (finished, all).

    Example: ``run_cells([MyCell(1), MyCell(2)], store=Path("results"), workers=2)``.

    Raises: CampaignError naming the first cell that cannot be run, once all others are finished; OutputError
    where the store cannot be written.
    """
    with closing(Local(workers)) as local, open_result_store(store) as kept:
        execution = Execution(shared or Shared(Path()), backend or local, progress)
        return results_frame(complete(cells, keys_of(cells), kept, execution))


def keys_of(cells: Sequence[Cell]) -> list[str]:
    """Return the key of each cell; equal cells have equal keys."""
    return [key_of(cell) for cell in cells]


def complete(cells: Sequence[Cell], keys: Sequence[str], kept: ResultStore, execution: Execution) -> list[Row]:
    """Run the cells that the store does not hold and return the rows of all, in their order.

    Args:
        cells: All cells.
        keys: Their keys (``keys_of``), handed in because callers need them too and hashing costs time.
        kept: The store; finished rows are added as they come.
        execution: How to run what is missing.

    Raises: as ``run_cells``.
    """
    waiting = waiting_indices(keys, kept)
    if waiting:
        compile_once()
        failed = _perform(cells, keys, waiting, kept, execution)
        if failed:
            raise _campaign_error(failed, cells)
    return [kept.rows[key] for key in keys]


def waiting_indices(keys: Sequence[str], kept: ResultStore) -> list[int]:
    """Return the indices of cells that the store does not hold; of equal cells the first."""
    first: dict[str, int] = {}
    for index, key in enumerate(keys):
        if key not in kept.rows:
            first.setdefault(key, index)
    return list(first.values())


def _perform(
    cells: Sequence[Cell], keys: Sequence[str], waiting: Sequence[int], kept: ResultStore, execution: Execution
) -> list[Done]:
    """Run the waiting cells, store each row as it comes, and return the failures in order of their indices."""
    failed: list[Done] = []
    total = len(set(keys))
    finished = total - len(waiting)
    for done in execution.backend.results([(index, cells[index]) for index in waiting], execution.shared):
        if done.row is None:
            failed.append(done)
        else:
            kept.put(keys[done.index], done.row)
        finished += 1
        if execution.progress:
            execution.progress(finished, total)
    return sorted(failed, key=lambda d: d.index)


def _campaign_error(failed: list[Done], cells: Sequence[Cell]) -> CampaignError:
    """Return the error of a campaign whose first failure is ``failed[0]``."""
    first = failed[0]
    where = str(cells[first.index])
    reason = first.failure.removeprefix(f"{where}: ")
    more = f"{len(failed)} of {len(cells)} runs failed, the first: " if len(failed) > 1 else ""
    return CampaignError(f"{more}{reason}", where=where, hint="the other runs are kept; correct this and repeat")
