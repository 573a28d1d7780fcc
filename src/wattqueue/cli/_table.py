"""Print the metrics of runs side by side in the terminal.

Names and units are those of the report (``report.metric_table``): one name per figure on every screen, and a prefix
that suits each value, so that a small cluster is not printed as 0.000 MWh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

ROWS = (
    *("jobs", "jobs_completed", "jobs_killed", "jobs_never_ran"),
    *("all_wait_s_mean", "wait_s_mean", "node_wait_s_mean", "wait_s_p95", "bounded_slowdown_mean"),
    *("utilization", "makespan_s"),
    *("job_energy_j", "machine_energy_j", "power_utilization", "cap_overshoot_w", "cap_over_s"),
    *("target_overshoot_w", "target_over_s"),
)
"""Metrics of the table, in its order."""
QUIET = {"jobs", "jobs_killed", "jobs_never_ran", "all_wait_s_mean"}
"""Metrics whose rows are left out where they say nothing (``metric_table.says_nothing``) for every run."""


WIDEST = 10_000
"""Characters of a line that no table needs."""


def show(title: str, columns: Sequence[tuple[str, Mapping[str, Any]]], console: Console | None = None) -> None:
    """Print ``columns`` of (heading, metrics) side by side; rows that no run has a figure for are left out.

    ``columns`` are in the order of printing; metrics by the names of docs/semantics.md, None for a figure that does
    not exist. ``console`` is for tests.
    """
    from wattqueue.report.metric_table import label, readable_of, says_nothing

    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("Metric")
    for heading, _ in columns:
        table.add_column(heading, justify="right")
    for name in ROWS:
        values = [figures.get(name) for _, figures in columns]
        # Without a cap, for example, its metrics do not exist in any run.
        if all(v is None for v in values):
            continue
        if name in QUIET and all(says_nothing(name, figures) for _, figures in columns):
            continue
        table.add_row(label(name), *(readable_of(name, figures) for _, figures in columns))
    print_table(table, console or Console())


def print_table(table: Table, console: Console) -> None:
    """Print a table; one that is too wide for the terminal has a block for each row, so that no value is cut."""
    for column in table.columns:
        column.overflow = "fold"
    if Measurement.get(console, console.options.update_width(WIDEST), table).minimum <= console.width:
        console.print(table)
        return
    if table.title:
        console.print(table.title, style="bold")
    heads = [" ".join(str(column.header).replace("-\n", "").split()) for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        console.print(first, style="bold")
        for head, cell in zip(heads[1:], others, strict=True):
            console.print(f"  {head}: {' '.join(str(cell).split())}")
    if table.caption:
        console.print(table.caption)
