"""Paper 2, section 4.4: job scheduling under a power budget on sockets that differ.

Sockets and watts are generated, the traffic is the paper's. ``study.variability`` computes; this file has the options.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import ParallelStudy


@verb_of(ParallelStudy)
def run(
    output: ParallelStudy,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Has traffic_bursty.csv and traffic_heavy.csv of paper 2.")
    ],
    *,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of the sockets.")] = 30,
    budget: Annotated[
        list[float] | None,
        typer.Option(min=0.001, max=1e9, help="Budget in kW instead of the paper's five; may be repeated."),
    ] = None,
    backfill: Annotated[
        str, typer.Option(help="easy; or published: the paper's simulator, ten jobs a minute.")
    ] = "easy",
    whole_nodes: Annotated[
        bool,
        typer.Option("--whole-nodes", help="Jobs get whole nodes of two sockets (section 4.1) instead of sockets."),
    ] = False,
    rapl: Annotated[
        bool,
        typer.Option("--rapl", help="Limit each socket to the watts counted for it; each run with and without."),
    ] = False,
    stretch: Annotated[
        float,
        typer.Option(min=0.1, max=10.0, help="Run times over the estimates: those of the paper are not published."),
    ] = 1.0,
    extensions: Annotated[
        int,
        typer.Option(min=0, max=1_000, help="Also vary run times, on so many draws, as the paper's simulator runs."),
    ] = 0,
    idle: Annotated[
        list[float] | None,
        typer.Option(min=0, max=2e5, help="Watts of an idle socket, for the machine's energy; may be repeated."),
    ] = None,
) -> None:
    """Schedule jobs under a power budget by what is known of each socket: PE, PEVA, PRVP, VTP and IVP (paper 2).

    30 seeds are 3,600 simulations. slurm-ivp reads the truth: an oracle.
    """
    from wattqueue_studies.variability.study import VariabilityStudy
    from wattqueue_studies.variability.trial import BUDGETS_W, Variant

    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    budgets_w = BUDGETS_W if budget is None else tuple(1e3 * b for b in budget)
    variant = Variant(backfill, whole_nodes, rapl, stretch)
    study = VariabilityStudy(folder, seeds, budgets_w, threads=output.threads, variant=variant, extensions=extensions)
    output.perform(study if idle is None else replace(study, idle_w=tuple(idle)))
