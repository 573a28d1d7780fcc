"""Run the cells of a campaign that are not finished yet, and lay all rows in the order of the grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.campaign.backends import Backend, Local
from wattqueue.campaign.cell import Cell, Row, key_of
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.shelf import Shelf, opened_shelf
from wattqueue.campaign.work import Done, compile_once
from wattqueue.errors import CampaignError
from wattqueue.formats.results import results_frame

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Means:
    """What cells are run with: shared inputs, who runs them, who is told (finished, all)."""

    shared: Shared
    backend: Backend
    progress: Progress | None = None


def run_cells(
    cells: Sequence[Cell],
    *,
    shared: Shared | None = None,
    shelf: Path | None = None,
    workers: int | None = None,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """One row a cell, in the order of ``cells``, whatever ran them in whatever order.

    ``shared`` holds what cells open by name; ``shelf`` is a folder that keeps finished cells, which are not
    done again; ``workers`` counts processes (default: one a core); ``backend`` runs cells elsewhere;
    ``progress`` is called with (finished, all).

    Raises: CampaignError naming the first cell that cannot be run, once all others are finished; OutputError
    where the shelf cannot be written.
    """
    means = Means(shared or Shared(Path()), backend or Local(workers), progress)
    with opened_shelf(shelf) as kept:
        return results_frame(complete(cells, keys_of(cells), kept, means))


def keys_of(cells: Sequence[Cell]) -> list[str]:
    """What each cell is known by; equal ones have one key."""
    return [key_of(cell) for cell in cells]


def complete(cells: Sequence[Cell], keys: Sequence[str], kept: Shelf, means: Means) -> list[Row]:
    """The rows of all cells, in their order; those that the shelf has not are run first, equal ones once.

    ``keys`` are the cells' (``keys_of``). Raises: as ``run_cells``.
    """
    waiting = waiting_places(keys, kept)
    if waiting:
        compile_once()
        failed = _perform(cells, keys, waiting, kept, means)
        if failed:
            raise _explained(failed, cells)
    return [kept.rows[key] for key in keys]


def waiting_places(keys: Sequence[str], kept: Shelf) -> list[int]:
    """Places of the keys that the shelf has not, the first of each."""
    first: dict[str, int] = {}
    for place, key in enumerate(keys):
        if key not in kept.rows:
            first.setdefault(key, place)
    return list(first.values())


def _perform(
    cells: Sequence[Cell], keys: Sequence[str], waiting: Sequence[int], kept: Shelf, means: Means
) -> list[Done]:
    """Run what is waiting, keep each row as it comes; what failed, by place."""
    failed: list[Done] = []
    total = len(set(keys))
    finished = total - len(waiting)
    for done in means.backend.results([(place, cells[place]) for place in waiting], means.shared):
        if done.row is None:
            failed.append(done)
        else:
            kept.put(keys[done.place], done.row)
        finished += 1
        if means.progress:
            means.progress(finished, total)
    return sorted(failed, key=lambda d: d.place)


def _explained(failed: list[Done], cells: Sequence[Cell]) -> CampaignError:
    first = failed[0]
    where = str(cells[first.place])
    said = first.failure.removeprefix(f"{where}: ")
    more = f"{len(failed)} of {len(cells)} could not be done, the first: " if len(failed) > 1 else ""
    return CampaignError(f"{more}{said}", where=where, mend="the others are kept; mend and repeat")
