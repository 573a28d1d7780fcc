"""Run a grid of workloads x machines x policies x estimators x caps x seeds, on one machine or on many.

A thin layer over ``wattqueue.campaign``: it chooses the output folder and the backend, shows progress and prints means.
The folder is ``--out``, else ``out`` of the campaign file (relative to it), else the file's name without its suffix.
``--cluster`` chooses the backend: this machine's processes, a running Dask scheduler, or workers as Slurm jobs. A plan
with an error ends the command before any work; a run that fails does so after all others are finished and kept.

Finished cells are in the result store of the folder, so a campaign that was stopped resumes with the same command;
cells whose inputs changed since are computed again, because the key of a cell is a hash of its inputs.
results.parquet and report.html are written at the end, from all cells of the plan.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

COLUMNS = (
    "jobs_never_ran",
    "all_wait_s_mean",
    "wait_s_mean",
    "node_wait_s_mean",
    "bounded_slowdown_mean",
    "utilization",
    "power_utilization",
    "cap_overshoot_w",
)
"""Metrics of the table in the terminal; results.parquet and report.html have more."""
PIPE_WIDTH = 140
"""Characters of a line where stdout is no terminal, so that nothing is cut."""
WHERE_JOBS_LEFT = ("jobs_never_ran", "all_wait_s_mean")
"""Those of the columns that are left out where every job ran."""
AXES = ("machine", "policy", "estimator", "cap")
"""Axes of the grid that the printed table distinguishes; workloads and seeds are averaged."""
MOST_PROCESSES = 10_000
"""Limit of --jobs: more is a typing error."""


def run(
    file: Annotated[Path, typer.Argument(help="The grid, in TOML.")],
    *,
    out: Annotated[str | None, typer.Option(help="Folder for results.parquet. [the file's own, or its name]")] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, max=MOST_PROCESSES, help="Processes here [one per core], or jobs of Slurm [1]."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="dask://host:port, or slurm; without it, this machine's processes.")
    ] = None,
) -> None:
    """Run a grid of workloads x machines x policies x estimators x caps x seeds, on one machine or on many.

    Finished runs are kept in the folder: the same command resumes after a stop.
    """
    from wattqueue.campaign.campaign import run_campaign
    from wattqueue.campaign.dask import opened_backend
    from wattqueue.campaign.plan import plan_of
    from wattqueue.cli._never_ran import say_never_ran
    from wattqueue.cli._progress import counting
    from wattqueue.errors import InputError
    from wattqueue.formats.pages import write_text
    from wattqueue.report.campaign import groups_of, html, mean_falls
    from wattqueue.report.metric_table import MAY_FALL

    if out is not None and not out.strip():
        raise InputError("is empty", where="--out", hint="name a folder; an unset shell variable gives an empty text")
    plan = plan_of(file)
    # A relative folder in the file is relative to the file, one on the command line to the current folder.
    folder = Path(out) if out else (file.parent / plan.file.out if plan.file.out else file.with_suffix(""))
    if cluster == "slurm":
        typer.echo("Waiting for the first of Slurm's jobs ...", err=True)
    with counting("campaign", "runs") as progress, opened_backend(cluster, jobs, plan.file.slurm) as backend:
        finished = run_campaign(plan, folder, backend, progress)
    rows = finished.table.to_dicts()
    groups = groups_of(rows)
    say_never_ran((", ".join(group.axes), group.work) for group in groups)
    show(finished.table, f"{file.name}: {finished.runs:,} runs, means over workloads and seeds")
    if mean_falls(groups):
        typer.echo(MAY_FALL)
    page = folder / "report.html"
    write_text(page, html(rows, file.stem))
    # Cells that an earlier call had already finished.
    before = finished.runs - finished.performed
    typer.echo(f"{finished.path}: {finished.performed:,} runs done" + (f", {before:,} kept" if before else ""))
    typer.echo(f"{page}")


def show(table: pl.DataFrame, title: str) -> None:
    """Print the means of each machine, policy, estimator and cap, in the order of the grid.

    Only axes with several values are columns; names and units are those of the report (``metric_table``).

    ``table`` has one row per run (``formats.results``). A metric without a value in any run has no column.
    """
    import polars as pl
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from wattqueue.cli._table import print_table
    from wattqueue.policy.oracles import marked
    from wattqueue.report.metric_table import at_least, is_bound, label
    from wattqueue.report.words import figures

    # maintain_order keeps the order of the grid, in which the user wrote the policies and caps.
    means = table.group_by(AXES, maintain_order=True).agg(
        pl.len().alias("runs"), pl.col("oracle").first(), pl.col("jobs_never_ran").sum(), pl.col(COLUMNS[1:]).mean()
    )
    count, waits = WHERE_JOBS_LEFT
    bound = any(is_bound(waits, row) for row in means.iter_rows(named=True))
    quiet = {*(() if means[count].sum() else (count,)), *(() if bound else (waits,))}
    several = [axis for axis in AXES if table[axis].n_unique() > 1] or ["policy"]
    shown = {name: unit_of(name, means[name].max()) for name in COLUMNS if means[name].is_not_null().any()}
    shown = {name: unit for name, unit in shown.items() if name not in quiet}
    lines = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for axis in several:
        lines.add_column(axis, no_wrap=True)
    lines.add_column("runs", justify="right", no_wrap=True)
    for name, (_, unit) in shown.items():
        head = f"{label(name)}{f' ({unit})' if unit else ''}".replace(" ", "\n")
        head = head.replace("tilization", "tili-\nzation").replace("slowdown", "slow-\ndown")
        lines.add_column(head, justify="right", no_wrap=True)
    for row in means.iter_rows(named=True):
        values = (
            "–" if row[name] is None else at_least(figures(row[name] / scale), bound=is_bound(name, row))
            for name, (scale, _) in shown.items()
        )
        first, *others = (row[axis] for axis in several)
        lines.add_row(marked(first, row["oracle"]), *others, str(row["runs"]), *values)
    console = Console()
    # rich would assume 80 columns for a pipe and cut values.
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    print_table(lines, console)


def unit_of(metric: str, largest: object) -> tuple[float, str]:
    """Return the scale and the unit in which a column is printed, from its largest value.

    Shares are percent, waits in hours, minutes or seconds, watts with a prefix; everything else is a pure number.
    Values are divided by the scale before printing. One unit per column keeps values comparable: the largest one
    decides. ``metric`` is a name of docs/semantics.md.
    """
    from wattqueue.report.metric_table import SHARES
    from wattqueue.report.words import prefix_of, wait_unit

    value = float(str(largest))
    if metric in SHARES:
        return 0.01, "%"
    if "wait_s_" in metric:
        return wait_unit(value)
    if metric.endswith("_w"):
        scale, prefix = prefix_of(value)
        return scale, f"{prefix}W"
    return 1.0, ""
