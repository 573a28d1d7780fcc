"""Paper 1: EAMC, which partition and frequency for every job."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


def run(
    coefficients: Annotated[
        Path | None, typer.Option(help="EAR coefficients of p1 and p2 (CSV); without them Table 1 is used.")
    ] = None,
    apps: Annotated[Path | None, typer.Option(help="Metrics of the eight applications (CSV).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Generated workloads a setting.")] = 30,
    threads: Annotated[int, typer.Option(min=1, help="Simulations at a time.")] = os.cpu_count() or 1,
    beyond: Annotated[
        bool, typer.Option(help="Also what goes beyond the paper: waits, caps, history, node factors.")
    ] = False,
    conservative_seeds: Annotated[
        int, typer.Option(min=0, help="Also with every reservation kept, over so many workloads (a minute each).")
    ] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every row here.")] = None,
) -> None:
    """EAMC against Base Slurm, Min_runtime and Min_energy on two clusters (paper 1)."""
    from rich.console import Console

    from wattqueue.cli._progress import say_if_compiling
    from wattqueue.cli._write import refuse_folders
    from wattqueue.formats.pages import write_json
    from wattqueue.study.eamc import beyond as more
    from wattqueue.study.eamc.study import run_study
    from wattqueue.study.eamc.systems import profiles_from, systems
    from wattqueue.study.eamc.text import study_lines

    refuse_folders(json_file)
    if seeds > 1:
        import_module("scipy.stats")  # of the intervals: where it is missing, that is said before the work
    say_if_compiling(Console(stderr=True))
    result = run_study(coefficients, apps, seeds=seeds, threads=threads)
    if json_file is not None:
        write_json(json_file, result.document())
    for line in study_lines(result):
        typer.echo(line)
    both = systems(profiles_from(coefficients, apps))
    if beyond:
        lines = more.beyond(both, range(seeds), threads=threads)
        for line in (*more.beyond_lines(lines), "", *more.verdicts(lines)):
            typer.echo(line)
    if conservative_seeds:
        lines = more.conservative(both, range(conservative_seeds), threads=threads)
        for line in more.beyond_lines(lines):
            typer.echo(line)
