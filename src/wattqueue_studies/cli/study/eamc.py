"""Paper 1: EAMC, which chooses partition and frequency of every job.

Without files, Table 1 of the paper gives the applications' watts and times; with EAR's coefficients and the metrics of
the eight applications, these are computed as EAR does. Ten seeds of conservative backfilling take about three minutes
of processor time, 30 seeds of EASY half a minute; ``--jobs 500`` gives a first look.
The JSON holds every row of every table; the text shows means, intervals and the published figures.

``study.eamc`` simulates and compares; this file has the options. Nothing depends on the number of threads: each seed is
a workload of its own.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy

MOST_SEEDS = 10_000
"""Workloads per setting."""


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    coefficients: Annotated[
        Path | None, typer.Option(help="EAR coefficients of p1 and p2 (CSV); without them Table 1 is used.")
    ] = None,
    apps: Annotated[Path | None, typer.Option(help="Metrics of the eight applications (CSV).")] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=MOST_SEEDS, help="Generated workloads per setting, conservative backfilling.")
    ] = 10,
    easy_seeds: Annotated[
        int, typer.Option(min=1, max=MOST_SEEDS, help="The same with EASY backfilling, and for --extensions.")
    ] = 30,
    jobs: Annotated[
        int,
        typer.Option(min=50, max=1_000_000, help="Jobs of a workload; the paper has 5,000."),
    ] = 5_000,
    extensions: Annotated[
        bool, typer.Option(help="Also what the paper does not have: waits, caps, history, node factors.")
    ] = False,
) -> None:
    """EAMC against Base Slurm, Min_runtime and Min_energy on two clusters (paper 1).

    Prints the choices of each application, the check without scheduling, a table per figure of the paper, and the
    published figures beside these.
    """
    from wattqueue_studies.eamc.cirne import CirneModel
    from wattqueue_studies.eamc.study import EamcStudy

    if max(seeds, easy_seeds) > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    paper = CirneModel()
    # Fewer jobs come over a shorter time, so that the load stays.
    model = paper if jobs == paper.jobs else CirneModel(jobs=jobs, span_s=paper.span_s * jobs / paper.jobs)
    study = EamcStudy(coefficients, apps, seeds, easy_seeds, output.threads, model=model, extended=extensions)
    output.perform(study)
