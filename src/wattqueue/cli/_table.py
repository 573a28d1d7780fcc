"""A run's metrics in the terminal, runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

ROWS = (
    ("jobs", "jobs_total", 1.0, "{:,.0f}"),
    ("completed", "jobs_completed", 1.0, "{:,.0f}"),
    ("killed at walltime", "jobs_killed", 1.0, "{:,.0f}"),
    ("rejected", "jobs_rejected", 1.0, "{:,.0f}"),
    ("never started", "jobs_not_started", 1.0, "{:,.0f}"),
    ("mean wait, min", "wait_s_mean", 60.0, "{:,.2f}"),
    ("95 % wait below, h", "wait_s_p95", 3600.0, "{:,.2f}"),
    ("mean bounded slowdown", "bounded_slowdown_mean", 1.0, "{:,.2f}"),
    ("utilization, %", "utilization", 0.01, "{:.1f}"),
    ("makespan, h", "makespan_s", 3600.0, "{:,.1f}"),
    ("energy of jobs, MWh", "job_energy_j", 3.6e9, "{:,.3f}"),
    ("energy of the machine, MWh", "machine_energy_j", 3.6e9, "{:,.3f}"),
    ("mean power / cap, %", "power_utilization", 0.01, "{:.1f}"),
    ("greatest excess, kW", "cap_overshoot_w", 1e3, "{:,.2f}"),
    ("time above the cap, min", "cap_over_s", 60.0, "{:,.1f}"),
)
"""Label with unit, metric, what divides it, how it is written."""
QUIET = {"jobs_killed", "jobs_rejected", "jobs_not_started"}
"""Rows that are left out where they are 0 for every run."""


def show(title: str, columns: Sequence[tuple[str, Mapping[str, Any]]], console: Console | None = None) -> None:
    """Print ``columns`` of (heading, metrics) beside one another."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("metric")
    for heading, _ in columns:
        table.add_column(heading, justify="right")
    for label, name, unit, form in ROWS:
        values = [figures.get(name) for _, figures in columns]
        if all(v is None for v in values) or (name in QUIET and not any(values)):
            continue
        table.add_row(label, *("–" if v is None else form.format(v / unit) for v in values))
    (console or Console()).print(table)
