"""Compare runs side by side: table, compare.csv, compare.json and one page with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from wattqueue.report.compare.table import Cell, Comparison

MAIN = (
    *("wait_s_mean", "wait_s_p95", "turnaround_s_mean", "bounded_slowdown_mean", "makespan_s", "utilization"),
    *("job_energy_j", "machine_energy_j", "power_utilization", "cap_overshoot_w", "cap_over_s", "jobs_killed"),
    "jobs_rejected",
)
"""Metrics of the table in the terminal; the files and the page have all of them."""


def run(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR DIR...", help="Run directories; the first is what others are held to.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for compare.csv, .json and .html.")] = Path(),
    everything: Annotated[bool, typer.Option("--all", help="All metrics in the terminal too.")] = False,
) -> None:
    """Compare runs side by side: table, compare.csv, compare.json and one page with all of them.

    Runs that differ in their seed alone make a group: its means bear 95 % intervals, and its
    differences from the first group are tested seed by seed.
    """
    from rich.console import Console

    from wattqueue.formats.pages import write_files
    from wattqueue.report.compare.document import report
    from wattqueue.report.compare.groups import grouped
    from wattqueue.report.compare.table import compare, to_csv, to_json
    from wattqueue.report.load import load_members

    comparison = compare(grouped(load_members(folders)))
    names = ("compare.csv", "compare.json", "compare.html")
    texts = (to_csv(comparison), to_json(comparison), report(comparison))
    write_files(out, dict(zip(names, texts, strict=True)))
    console = Console()
    console.print(terminal_table(comparison, everything=everything))
    console.print(f"{out / 'compare.html'} (with compare.csv and compare.json)", highlight=False, soft_wrap=True)


def terminal_table(comparison: Comparison, *, everything: bool) -> Table:
    """A metric a row, a group a column; differences below the values."""
    from rich.table import Table

    from wattqueue.report import metric_table

    table = Table(caption=_caption(comparison), caption_justify="left")
    table.add_column("Metric")
    for group in comparison.groups:
        many = f"\n{len(group.members)} seeds" if len(group.members) > 1 else ""
        table.add_column(f"{group.label}{many}", justify="right")
    for row in comparison.rows:
        if everything or row[0].metric in MAIN:
            what = metric_table.known(row[0].metric)
            table.add_row(what.label if what else row[0].metric, *(_cell(cell) for cell in row))
    return table


def _cell(cell: Cell) -> str:
    from wattqueue.report.compare.table import difference, shown

    better = cell.better if cell.certain is not False else None
    colour = {True: "green", False: "red", None: "dim"}[better]
    more = difference(cell)
    return f"{shown(cell)}\n[{colour}]{more}[/]" if more else shown(cell)


def _caption(comparison: Comparison) -> str:
    from wattqueue.report.compare.table import any_intervals, any_pairs

    said = [f"Differences are from {comparison.groups[0].label}."]
    if any_intervals(comparison):
        said.append("± is half a 95 % interval over seeds.")
    if any_pairs(comparison):
        said.append("* the paired 95 % interval leaves zero out.")
    return " ".join(said)
