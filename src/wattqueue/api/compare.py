"""``compare``: runs side by side, as ``wattqueue compare`` does for run folders.

Groups, intervals and tests are those of ``report.compare``. Runs in memory and runs in folders may be mixed, since both
are a ``RunRecord``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.api.inputs import PathLike, of_arguments
from wattqueue.api.run import RunResult, read_run
from wattqueue.formats.atomic_folder import write_files, write_text
from wattqueue.formats.results import results_frame
from wattqueue.report import metric_table
from wattqueue.report.compare.document import report
from wattqueue.report.compare.groups import Member, grouped
from wattqueue.report.compare.table import (
    Comparison,
    difference,
    flat,
    not_comparable,
    notes,
    says_nothing,
    shown,
    to_csv,
    to_json,
)
from wattqueue.report.compare.table import compare as compare_groups
from wattqueue.report.document import Document, Table

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class RunComparison:
    """Runs side by side; in a notebook a table of the main metrics with differences from the first run.

    Runs that differ in their seed alone form one group: means with 95 % intervals, and a paired test by seed.
    """

    comparison: Comparison
    """Groups, and one row per metric with one cell per group."""

    def __repr__(self) -> str:
        closed = "; ".join(not_comparable(self.comparison))
        said = f"; {closed}" if closed else ""
        return f"<comparison of {', '.join(group.label for group in self.comparison.groups)}{said}>"

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Return the columns of compare.csv as a polars frame: one row per metric and group."""
        return results_frame(list(flat(self.comparison)))

    def report(self, path: PathLike) -> Path:
        """Write the page with table and figures, one HTML file; return its path. Raises: OutputError."""
        write_text(Path(path), report(self.comparison))
        return Path(path)

    def save(self, folder: PathLike) -> Path:
        """Write compare.csv, compare.json and compare.html, as the command line does. Raises: OutputError."""
        found = self.comparison
        files = {"compare.csv": to_csv(found), "compare.json": to_json(found), "compare.html": report(found)}
        write_files(Path(folder), files)
        return Path(folder)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: one row per metric, one column per group, differences from the first.

        Metrics are those of ``notebook.SHOWN``; ``frame`` has all of them.
        """
        from wattqueue.api.notebook import SHOWN, document_html

        rows = []
        for cells in self.comparison.rows:
            if cells[0].metric in SHOWN and not says_nothing(cells):
                what = metric_table.known(cells[0].metric)
                values = [
                    " ".join(filter(None, (shown(c), f"({difference(c)})" if difference(c) else ""))) for c in cells
                ]
                rows.append([what.label if what else cells[0].metric, *values])
        heads = ["", *(group.label for group in self.comparison.groups)]
        about = f"differences are from {self.comparison.groups[0].label}"
        text: list[Table | str] = [Table(heads, rows), *notes(self.comparison)]
        return document_html(Document(title="Comparison", eyebrow=about, text=text))


@of_arguments
def compare(runs: Sequence[RunResult | PathLike] | Mapping[str, RunResult | PathLike]) -> RunComparison:
    """Compare runs; the first is the reference of all differences.

    Args:
        runs: Results, folders of runs, or both; a mapping gives each a name. Without one, a result is called after its
            policy, estimator and cap, and a folder by its path.

    Raises:
        InputError: Fewer than two runs, one folder named twice, or a folder that holds no run.

    Example::

        wq.compare({"maximum": maximum, "history": history}).frame
    """
    named = list(runs.items()) if isinstance(runs, Mapping) else _named(runs)
    results = [(name, run if isinstance(run, RunResult) else read_run(run)) for name, run in named]
    members = [Member(name, run.record.facts, run.data) for name, run in results]
    return RunComparison(compare_groups(grouped(members)))


def _named(runs: Sequence[RunResult | PathLike]) -> list[tuple[str, RunResult | PathLike]]:
    """Return runs with their names; results of one name are numbered, a folder keeps its path."""
    found: list[tuple[str, RunResult | PathLike]] = []
    for run in runs:
        name = run.label if isinstance(run, RunResult) else str(run)
        same = sum(isinstance(other, RunResult) and other.label == name for _, other in found)
        found.append((f"{name} ({same + 1})" if same and isinstance(run, RunResult) else name, run))
    return found
