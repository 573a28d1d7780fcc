"""``wattqueue campaign``: from a plan to one Parquet, whatever was done of it before."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.campaign.backends import Backend
from wattqueue.campaign.cell import Row
from wattqueue.campaign.plan import Plan
from wattqueue.campaign.program import program
from wattqueue.campaign.run import Means, Progress, complete, keys_of, waiting_places
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.shelf import Shelf, opened_shelf
from wattqueue.campaign.task_cell import TaskCell
from wattqueue.campaign.windows import saved_names
from wattqueue.formats.results import results_frame, write_results

if TYPE_CHECKING:
    import polars as pl

RESULTS, WORKLOADS = "results.parquet", "workloads"


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A finished campaign: its table, and how many of its runs were done this time."""

    table: pl.DataFrame
    path: Path
    runs: int
    performed: int


def run_campaign(plan: Plan, out: Path, backend: Backend, progress: Progress | None = None) -> Finished:
    """Do what is left of a campaign, and write its table to ``out``.

    Raises: CampaignError for runs that cannot be done, once all others are finished and kept; OutputError where
    ``out`` cannot be written.
    """
    shared = Shared(out / WORKLOADS)
    means = Means(shared, backend)
    with opened_shelf(out) as kept:
        tables = complete(plan.sources, keys_of(plan.sources), kept, means)
        cells = plan.cells(tables)
        keys = keys_of(cells)
        waiting = waiting_places(keys, kept)
        _bring_back(plan, tables, [cells[i] for i in waiting], means)
        rows = complete(cells, keys, kept, replace(means, progress=progress))
        table = results_frame(rows)
        path = out / RESULTS
        write_results(path, table, {"program": program(), "campaign": campaign_hash(keys)})
        shutil.rmtree(shared.folder, ignore_errors=True)
    return Finished(table, path, len(rows), len(waiting))


def campaign_hash(keys: Sequence[str]) -> str:
    """What the table was made from: a hash of its runs' keys, in their order."""
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()


def _bring_back(plan: Plan, tables: Sequence[Row], waiting: Sequence[TaskCell], means: Means) -> None:
    """Make workloads again that waiting runs need and that a finished campaign cleared away."""
    needed = {cell.table for cell in waiting}
    gone = [
        source
        for source, row in zip(plan.sources, tables, strict=True)
        if not needed.isdisjoint(str(row["table"]).split()) and not all(map(means.shared.has, saved_names(row)))
    ]
    complete(gone, keys_of(gone), Shelf(None, None), means)
