"""Paper 2, sections 2 and 4.3: watts of every socket from performance counters.

No counters of the paper are published: sockets, counters and watts are generated. With ``--nodes`` the equation is also
checked on two real jobs. ``study.pmc`` computes; this file has the options.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import verb_of
from wattqueue_studies.cli.study._run import StudyOutput


@verb_of(StudyOutput)
def run(
    output: StudyOutput,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of the sockets.")] = 30,
    sockets: Annotated[int, typer.Option(min=64, max=100_000, help="Sockets of each draw; the paper has 256.")] = 256,
    nodes: Annotated[
        Path | None, typer.Option(help="Series of real nodes (CSV of ClusterCockpit: two jobs on emmy).")
    ] = None,
) -> None:
    """Predict the watts of applications on sockets that differ: VT, PR-CB and PR-MB, and eq. 1 on real nodes (paper 2).

    Half a minute with 30 seeds. Scheduling by these predictions: study variability.
    """
    from wattqueue_studies.pmc.study import PmcStudy

    if seeds > 1 or nodes is not None:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    output.perform(PmcStudy(seeds, sockets, nodes), "predicting")
