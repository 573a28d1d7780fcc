"""Paper 1: EAMC, which chooses partition and frequency of every job.

Without files, Table 1 of the paper gives the applications' watts and times; with EAR's coefficients and the metrics of
the eight applications, these are computed as EAR does. 30 seeds take about a minute on two cores, ``--beyond`` more.
The JSON holds every row of every table; the text shows means, intervals and the published figures.

``study.eamc`` simulates and compares; this file has the options and prints. Nothing depends on the number of threads:
each seed is a workload of its own.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

MOST_SEEDS = 10_000
"""Workloads per setting; 30 take a minute."""
MOST_THREADS = 1_024
"""Limit of --threads: more is a typing error."""


def run(
    coefficients: Annotated[
        Path | None, typer.Option(help="EAR coefficients of p1 and p2 (CSV); without them Table 1 is used.")
    ] = None,
    apps: Annotated[Path | None, typer.Option(help="Metrics of the eight applications (CSV).")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="Generated workloads per setting.")] = 30,
    threads: Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Simulations at a time.")] = os.cpu_count() or 1,
    beyond: Annotated[
        bool, typer.Option(help="Also what the paper does not have: waits, caps, history, node factors.")
    ] = False,
    conservative_seeds: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_SEEDS, help="Also conservative backfilling, over that many workloads (a minute each)."
        ),
    ] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every row here.")] = None,
) -> None:
    """EAMC against Base Slurm, Min_runtime and Min_energy on two clusters (paper 1).

    Prints the choices of each application, the check without scheduling, a table per figure of the paper, and the
    published figures beside these.
    """
    from rich.console import Console

    from wattqueue.cli._progress import say_if_compiling
    from wattqueue.cli.study._outputs import require_writable
    from wattqueue.formats.pages import write_json
    from wattqueue.study.eamc import beyond as more
    from wattqueue.study.eamc.study import run_study
    from wattqueue.study.eamc.systems import profiles_from, systems
    from wattqueue.study.eamc.text import study_lines

    require_writable(json_file)
    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    say_if_compiling(Console(stderr=True))
    # The JSON is written before anything is printed, so a reader who leaves early does not prevent it.
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
    # Conservative backfilling plans every queued job, which makes it far slower than EASY; so it has seeds of its
    # own.
    if conservative_seeds:
        lines = more.conservative(both, range(conservative_seeds), threads=threads)
        for line in more.beyond_lines(lines):
            typer.echo(line)
