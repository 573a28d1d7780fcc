"""Paper 1: EAMC, which chooses partition and frequency of every job.

Without files, Table 1 of the paper gives the applications' watts and times; with EAR's coefficients and the metrics of
the eight applications, these are computed as EAR does. 30 seeds take about a minute on two cores, ``--beyond`` more.
The JSON holds every row of every table; the text shows means, intervals and the published figures.

``study.eamc`` simulates and compares; this file has the options. Nothing depends on the number of threads: each seed is
a workload of its own.
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
    page: Annotated[Path | None, typer.Option("--html", help="Write Figures 3, 4 and 6 and all tables here.")] = None,
) -> None:
    """EAMC against Base Slurm, Min_runtime and Min_energy on two clusters (paper 1).

    Prints the choices of each application, the check without scheduling, a table per figure of the paper, and the
    published figures beside these.
    """
    from wattqueue.cli.study._run import perform
    from wattqueue.study.eamc.study import EamcStudy

    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    study = EamcStudy(coefficients, apps, seeds, threads, extended=beyond, conservative_seeds=conservative_seeds)
    perform(study, json_file, page)
