"""Print the metrics of runs side by side in the terminal.

Names and units are those of the report (``report.metric_table``): one name per figure on every screen, and a prefix
that suits each value, so that a small cluster is not printed as 0.000 MWh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
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
    (console or Console()).print(table)
