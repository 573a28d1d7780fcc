"""Measured chips that differ: what one benchmark says about another application (PAL data set, 392 V100s).

``study.chips`` computes; this file has the options. The data are not part of WattQueue.
"""

from __future__ import annotations

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
        Path,
        typer.Argument(
            metavar="FOLDER|SET",
            help="Runs as PAL has them: sgemm, pagerank, bert, resnet (CSV); or a file that states its columns (TOML).",
        ),
    ],
    factors: Annotated[Path | None, typer.Option(help="Write the measured unit factors here (CSV).")] = None,
    draws: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of jobs for the simulations.")] = 20,
    extensions: Annotated[
        bool, typer.Option("--extensions", help="Compare also what lies beyond paper 2, with generated sockets.")
    ] = False,
    nodes: Annotated[
        Path | None,
        typer.Option(help="For --extensions: series of real nodes (CSV of ClusterCockpit: 2 jobs on emmy)."),
    ] = None,
) -> None:
    """Rank measured chips by one application's watts, and see what this is worth for another (PAL data set).

    Spread, rank correlations with and without noise, savings by own and by foreign ranks. Then the policies of paper 2
    on these chips under budgets, and placements under limits of each chip; slurm-ivp reads the truth: an oracle.
    """
    from wattqueue.errors import InputError
    from wattqueue_studies.chips.study import ChipsStudy

    if nodes is not None and not extensions:
        raise InputError("--nodes is for --extensions", where="--nodes", hint="add --extensions")
    if folder.suffix == ".toml":
        from wattqueue_studies.chips.chip_sets import ChipSetStudy

        if extensions or factors is not None:
            hint = "leave it out for a set of chips"
            raise InputError("is for the PAL data set", where="--extensions, --factors", hint=hint)
        output.perform(ChipSetStudy(folder, draws, output.threads))
        return
    import_module("scipy.stats")  # ranks: fail before the work if it is missing
    output.perform(ChipsStudy(folder, factors, draws, output.threads, extensions, nodes))
