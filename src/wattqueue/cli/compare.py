"""Compare runs side by side as a table, compare.csv, compare.json and one page.

Without ``-o`` nothing is written: a look at two runs must not leave files in the current directory.

Runs are read from their directories (``report.load``), grouped by everything but the seed, and compared with the
first group. The same ``Comparison`` feeds the table, the files and the page. Rows are metrics and columns are groups;
where seeds are paired, a difference is tested by the differences of equal seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from rich.table import Table

    from wattqueue.report.compare.table import Comparison, MetricDifference

MAIN = (
    *(
        "jobs_never_ran",
        "all_wait_s_mean",
        "wait_s_mean",
        "node_wait_s_mean",
        "wait_s_p95",
        "turnaround_s_mean",
        "bounded_slowdown_mean",
        "makespan_s",
        "utilization",
    ),
    *("job_energy_j", "machine_energy_j", "energy_per_node_h_j"),
    *("power_utilization", "cap_overshoot_w", "cap_over_s", "target_overshoot_w", "target_over_s"),
    *("stranded_waiting_share", "domain_blocked_s", "racks_a_job_mean", "fragmented_gpus_mean"),
    "jobs_killed",
)
"""Metrics of the table in the terminal; the files and the page have all of them."""


@verb_of(Printed)
def run(
    printed: Printed,
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR DIR...", help="Run directories; the first is the reference.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for compare.csv, .json and .html; without it none is written."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all metrics in the terminal.")] = False,
) -> None:
    """Compare runs side by side as a table; with -o also as compare.csv, compare.json and one page.

    Runs that differ in their seed alone form a group: its means have 95 % intervals, and its
    differences from the first group are tested seed by seed.
    """
    from rich.console import Console

    from wattqueue.cli._table import print_table
    from wattqueue.formats.atomic_folder import write_files
    from wattqueue.report.compare.document import report
    from wattqueue.report.compare.groups import grouped
    from wattqueue.report.compare.table import compare, to_csv, to_json
    from wattqueue.report.load import load_members
    from wattqueue.terminal import followed, say_never_ran

    comparison = compare(grouped(load_members(followed("reading", folders, "runs", quiet=printed.quiet))))
    if out is not None:  # before the table is printed: a reader of the pipe may leave early
        names = ("compare.csv", "compare.json", "compare.html")
        texts = (to_csv(comparison), to_json(comparison), report(comparison))
        write_files(out, dict(zip(names, texts, strict=True)))
    say_never_ran((member.name, member.run.work) for group in comparison.groups for member in group.members)
    printed.show(
        lambda: to_json(comparison),
        lambda: print_table(terminal_table(comparison, everything=everything), Console()),
    )
    if out is not None:
        printed.say([f"{out / 'compare.html'} (with compare.csv and compare.json)"])


def terminal_table(comparison: Comparison, *, everything: bool) -> Table:
    """Return the table for the terminal: one row per metric, one column per group, differences below the values.

    ``everything`` adds the metrics outside ``MAIN``. The order of rows is that of the comparison.
    """
    from rich.table import Table

    from wattqueue.report import metric_table
    from wattqueue.report.compare.table import says_nothing

    table = Table(caption=_caption(comparison), caption_justify="left")
    table.add_column("Metric")
    for group in comparison.groups:
        many = f"\n{len(group.members)} seeds" if len(group.members) > 1 else ""
        table.add_column(f"{group.label}{many}", justify="right")
    for row in comparison.rows:
        if everything or (row[0].metric in MAIN and not says_nothing(row)):
            table.add_row(metric_table.label(row[0].metric), *(_cell(cell) for cell in row))
    return table


def _cell(cell: MetricDifference) -> str:
    """Return a value, and below it the difference.

    Green is an improvement, red a loss; grey stands where a paired test leaves doubt, or the metric has no direction.

    The colour is rich markup, which disappears where stdout is no terminal; the sign of the difference remains.
    """
    from wattqueue.report.compare.table import difference, shown

    # certain is None without paired seeds: the sign of the difference then decides the colour.
    better = cell.better if cell.certain is not False else None
    colour = {True: "green", False: "red", None: "dim"}[better]
    more = difference(cell)
    return f"{shown(cell)}\n[{colour}]{more}[/]" if more else shown(cell)


def _caption(comparison: Comparison) -> str:
    """Return the explanation below the table.

    A sign is explained only where it occurs.
    """
    from wattqueue.report.compare.table import any_intervals, any_pairs, notes

    said = [*notes(comparison), f"Differences are from {comparison.groups[0].label}."]
    if any_intervals(comparison):
        said.append("± is half of the 95 % interval over seeds.")
    if any_pairs(comparison):
        said.append("* the paired 95 % interval excludes zero.")
    return " ".join(said)
