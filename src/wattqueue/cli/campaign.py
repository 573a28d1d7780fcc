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

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import typer

from wattqueue.options import about, option, workers_option
from wattqueue.verbs import Printed, out_field, verb_of


@dataclass(frozen=True)
class CampaignVerb(Printed):
    """Options of the verb; the grid is in the file."""

    file: Path = field(metadata=about("The grid, in TOML.", kind=Path))
    _: KW_ONLY
    out: Path | None = out_field("Folder for results.parquet. [the file's own, or its name]")
    workers: int | None = workers_option("Processes here [one per core], or jobs of Slurm [1].")
    cluster: str | None = option(None, "dask://host:port, or slurm; without it, this machine's processes.")


@verb_of(CampaignVerb)
def run(options: CampaignVerb) -> None:
    """Run a grid of workloads x machines x policies x estimators x caps x seeds, on one machine or on many.

    Finished runs are kept in the folder: the same command resumes after a stop.
    """
    from wattqueue.campaign.campaign import run_campaign
    from wattqueue.campaign.dask import opened_backend
    from wattqueue.campaign.plan import plan_of
    from wattqueue.cli._table import print_document
    from wattqueue.formats.atomic_folder import write_text
    from wattqueue.report.campaign import groups_of, html, summary
    from wattqueue.terminal import counting, say_never_ran

    file, cluster = options.file, options.cluster
    plan = plan_of(file)
    # A relative folder in the file is relative to the file, one on the command line to the current folder.
    folder = options.out or (file.parent / plan.file.out if plan.file.out else file.with_suffix(""))
    if cluster == "slurm":
        typer.echo("Waiting for the first of Slurm's jobs ...", err=True)
    with (
        counting("campaign", "runs", quiet=options.quiet) as progress,
        opened_backend(cluster, options.workers, plan.file.slurm) as backend,
    ):
        finished = run_campaign(plan, folder, backend, progress)
    rows = finished.table.to_dicts()
    groups = groups_of(rows)
    say_never_ran((", ".join(group.axes), group.work) for group in groups)
    title = f"{file.name}: {finished.runs:,} runs, means over workloads and seeds"
    options.show(lambda: {"runs": rows}, lambda: print_document(summary(groups, title)))
    page = folder / "report.html"
    write_text(page, html(rows, file.stem))
    # Cells that an earlier call had already finished.
    before = finished.runs - finished.performed
    kept = f", {before:,} kept" if before else ""
    made = [f"{sentence}." for sentence in plan.expansions()]
    options.say([*made, f"{finished.path}: {finished.performed:,} runs done{kept}", f"{page}"])
