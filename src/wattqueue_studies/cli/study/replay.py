"""Paper 2, section 4.2: a recorded schedule replayed with recordings of every application.

Sockets and watts are generated, estimates are the paper's. ``study.replay`` computes; this file has the options.
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
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Has traffic_bursty.csv of paper 2.")],
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of sockets and jobs.")] = 30,
) -> None:
    """Replay schedules of 100 jobs on 16 sockets with recordings of every application (paper 2, 4.2)."""
    from wattqueue_studies.replay.study import ReplayStudy

    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    output.perform(ReplayStudy(folder, seeds, output.threads))
