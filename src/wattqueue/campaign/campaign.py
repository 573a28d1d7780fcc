"""``wattqueue campaign``: from a plan to one Parquet file, reusing runs that were finished before.

The folder of a campaign holds ``finished.jsonl`` (rows of finished cells, the only state that a resumption needs),
``workloads`` (columns that the cells open, removed at the end) and ``results.parquet``.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.campaign.backends import Backend
from wattqueue.campaign.cell import Row, program
from wattqueue.campaign.plan import CampaignPlan
from wattqueue.campaign.result_store import ResultStore, open_result_store
from wattqueue.campaign.run import Execution, Progress, complete, keys_of, waiting_indices
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.task_cell import TaskCell
from wattqueue.campaign.windows import saved_names
from wattqueue.formats.results import results_frame, write_results

if TYPE_CHECKING:
    import polars as pl

RESULTS, WORKLOADS = "results.parquet", "workloads"


@dataclass(frozen=True, slots=True, eq=False)
class CampaignResult:
    """A finished campaign."""

    table: pl.DataFrame
    """One row per run, in the order of the grid."""
    path: Path
    """The Parquet file that holds the table."""
    runs: int
    """Number of runs of the grid."""
    performed: int
    """Number of runs done this time; the others were finished before."""


def run_campaign(plan: CampaignPlan, out: Path, backend: Backend, progress: Progress | None = None) -> CampaignResult:
    """Run what is left of a campaign, and write its table to ``out``.

    Args:
        plan: The resolved campaign file.
        out: Folder of the results; made if it does not exist.
        backend: Where cells run.
        progress: Called with (finished, all) runs; workloads are not counted.

    Workloads come first, because the cells of the grid name the tables that they produce. A workload finished before
    but cleared away is made again if a waiting run needs it. The file's metadata hold the program and a hash of the
    runs' keys, so that two files can be compared for having been made from the same inputs.

    Raises: CampaignError for runs that cannot be done, once all others are finished and kept; OutputError where
    ``out`` cannot be written.
    """
    shared = Shared(out / WORKLOADS)
    execution = Execution(shared, backend)
    with open_result_store(out) as kept:
        tables = complete(plan.sources, keys_of(plan.sources), kept, execution)
        cells = plan.cells(tables)
        keys = keys_of(cells)
        waiting = waiting_indices(keys, kept)
        _restore_workloads(plan, tables, [cells[i] for i in waiting], execution)
        rows = complete(cells, keys, kept, replace(execution, progress=progress))
        table = results_frame(rows)
        path = out / RESULTS
        write_results(path, table, {"program": program(), "campaign": campaign_hash(keys)})
        shutil.rmtree(shared.folder, ignore_errors=True)
    return CampaignResult(table, path, len(rows), len(waiting))


def campaign_hash(keys: Sequence[str]) -> str:
    """Return a hash of the runs' keys, in their order: it identifies all inputs of the table."""
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()


def _restore_workloads(
    plan: CampaignPlan, tables: Sequence[Row], waiting: Sequence[TaskCell], execution: Execution
) -> None:
    """Make workloads again that waiting runs need and that a finished campaign cleared away.

    Their rows are in the store already, so they run against an empty store: a cell found there would be skipped.
    """
    needed = {cell.table for cell in waiting}
    gone = [
        source
        for source, row in zip(plan.sources, tables, strict=True)
        if not needed.isdisjoint(str(row["table"]).split()) and not all(map(execution.shared.has, saved_names(row)))
    ]
    complete(gone, keys_of(gone), ResultStore(None, None), execution)
