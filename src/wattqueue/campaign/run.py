"""Run the cells of a campaign that are not finished yet, and lay all rows in the order of the grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.campaign.backends import Backend, Local
from wattqueue.campaign.cell import Cell, key_of
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.shelf import Shelf, opened_shelf
from wattqueue.campaign.work import Done, compile_once
from wattqueue.errors import CampaignError

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[int, int], None]


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
    import polars as pl

    keys = [key_of(cell) for cell in cells]
    with opened_shelf(shelf) as kept:
        place_of: dict[str, int] = {}
        for place, key in enumerate(keys):
            if key not in kept.rows:
                place_of.setdefault(key, place)
        waiting = [(place, cells[place]) for place in place_of.values()]
        if waiting:
            compile_once()
            failed = _perform(waiting, keys, kept, shared or Shared(Path()), backend or Local(workers), progress)
            if failed:
                raise _explained(failed, cells)
        rows = [kept.rows[key] for key in keys]
    return pl.DataFrame(rows, infer_schema_length=None, orient="row") if rows else pl.DataFrame()


def _perform(
    waiting: list[tuple[int, Cell]],
    keys: list[str],
    kept: Shelf,
    shared: Shared,
    backend: Backend,
    progress: Progress | None,
) -> list[Done]:
    """Run what is waiting, keep each row as it comes; what failed, by place."""
    failed: list[Done] = []
    total = len(set(keys))
    before = total - len(waiting)
    for count, done in enumerate(backend.results(waiting, shared), 1):
        if done.row is None:
            failed.append(done)
        else:
            kept.put(keys[done.place], done.row)
        if progress:
            progress(before + count, total)
    return sorted(failed, key=lambda d: d.place)


def _explained(failed: list[Done], cells: Sequence[Cell]) -> CampaignError:
    first = failed[0]
    what = ", ".join(f"{k}={v}" for k, v in cells[first.place].identity().items() if v not in (None, ""))
    more = f"{len(failed)} runs of {len(cells)} could not be done, the first: " if len(failed) > 1 else ""
    return CampaignError(
        f"{more}{first.failure}", where=f"run {first.place + 1} ({what})", mend="the others are kept; mend and repeat"
    )
