"""Run a grid of workloads x machines x policies x estimators x caps x seeds, on one machine or on many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

COLUMNS = (
    ("wait\nmin", "wait_s_mean", 60.0, "{:,.1f}"),
    ("slow-\ndown", "bounded_slowdown_mean", 1.0, "{:,.2f}"),
    ("used\n%", "utilization", 0.01, "{:.1f}"),
    ("watts/\ncap, %", "power_utilization", 0.01, "{:.1f}"),
    ("excess\nkW", "cap_overshoot_w", 1e3, "{:,.1f}"),
)
"""Heading, metric, what divides it, how it is written."""
AXES = ("machine", "policy", "estimator", "cap")


def run(
    file: Annotated[Path, typer.Argument(help="The grid, in TOML.")],
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for results.parquet. [the file's own, or its name]")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes here [one a core], or jobs of Slurm [1].")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="dask://host:port, or slurm; without it, this machine's processes.")
    ] = None,
) -> None:
    """Run a grid of workloads x machines x policies x estimators x caps x seeds, on one machine or on many.

    What is finished is kept in the folder: the same command goes on where it was stopped.
    """
    from wattqueue.campaign.campaign import run_campaign
    from wattqueue.campaign.dask import opened_backend
    from wattqueue.campaign.plan import plan_of
    from wattqueue.cli._progress import counting

    plan = plan_of(file)
    folder = out or (file.parent / plan.file.out if plan.file.out else file.with_suffix(""))
    if cluster == "slurm":
        typer.echo("Waiting for the first of Slurm's jobs ...", err=True)
    with counting("campaign", "runs") as progress, opened_backend(cluster, jobs, plan.file.slurm) as backend:
        finished = run_campaign(plan, folder, backend, progress)
    show(finished.table, f"{file.name}: {finished.runs:,} runs, means over workloads and seeds")
    before = finished.runs - finished.performed
    typer.echo(f"{finished.path}: {finished.performed:,} runs done" + (f", {before:,} kept" if before else ""))


def show(table: pl.DataFrame, title: str) -> None:
    """Print the means of each machine, policy, estimator and cap, in the order of the grid."""
    import polars as pl
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    names = [name for _, name, _, _ in COLUMNS]
    means = table.group_by(AXES, maintain_order=True).agg(pl.len().alias("runs"), pl.col(names).mean())
    several = [axis for axis in AXES if table[axis].n_unique() > 1] or ["policy"]
    shown = [column for column in COLUMNS if means[column[1]].is_not_null().any()]
    lines = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for axis in several:
        lines.add_column(f"\n{axis}", overflow="fold")
    for heading in ("\nruns", *(heading for heading, _, _, _ in shown)):
        lines.add_column(heading, justify="right")
    for row in means.iter_rows(named=True):
        figures = ("–" if row[name] is None else form.format(row[name] / unit) for _, name, unit, form in shown)
        lines.add_row(*(row[axis] for axis in several), str(row["runs"]), *figures)
    Console().print(lines)
