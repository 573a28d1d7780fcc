"""Paper 3, section 5: PAS and E-PAS under a cap of 80 % on two machines of 520 cores, and Algorithm 1 by itself.

The workload is generated. ``study.epas`` computes; this file has the options.
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
    *,
    cells: Annotated[
        Path | None, typer.Option(help="Runs measured under caps (GridPilot's CSV): fit curves, print their error.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of the workload.")] = 30,
    idle: Annotated[
        list[float] | None,
        typer.Option(min=0, max=100, help="Idle watts in per cent of the maximum instead of 0, 30, 60; repeatable."),
    ] = None,
    divide: Annotated[
        float, typer.Option(min=1, max=1000, help="ESP's run times over those of the jobs: 12 or 1.")
    ] = 12,
    submissions: Annotated[
        bool, typer.Option(help="Vary submissions and windows, which the paper does not state.")
    ] = True,
    extensions: Annotated[
        bool, typer.Option("--extensions", help="Compare controls that lend unused watts, within and without promises.")
    ] = False,
    profiles: Annotated[
        Path | None,
        typer.Option(help="For --extensions: series of nodes (ClusterCockpit's CSV) to replay under caps."),
    ] = None,
    ramps: Annotated[
        Path | None, typer.Option(help="Power of a machine (CSV: datetime, sum vals), likewise. With --profiles.")
    ] = None,
) -> None:
    """Schedule LightESP by PAS and E-PAS under a cap, on bull and Mont-Blanc, and test Algorithm 1 (paper 3).

    30 seeds are 2,160 simulations. Power is measured by simulated sensors. pas-true-watts reads the truth: an oracle.
    """
    from wattqueue.errors import InputError
    from wattqueue_studies.epas.extensions import Extensions
    from wattqueue_studies.epas.study import IDLE_SHARES, EpasStudy

    if not extensions and (profiles is not None or ramps is not None):
        raise InputError("recorded demand without --extensions", where="--profiles", hint="add --extensions")
    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    shares = IDLE_SHARES if idle is None else tuple(dict.fromkeys(each / 100 for each in idle))
    more = Extensions(ramps, profiles) if extensions else None
    output.perform(EpasStudy(cells, seeds, shares, divide, output.threads, more, submissions))
