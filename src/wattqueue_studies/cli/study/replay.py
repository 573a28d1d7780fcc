"""Paper 2, section 4.2: a recorded schedule replayed with recordings of every application.

Sockets and watts are generated, estimates are the paper's. ``study.replay`` computes; this file has the options.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Has traffic_bursty.csv of paper 2.")],
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Draws of sockets and jobs.")] = 30,
    threads: Annotated[int, typer.Option("--workers", min=1, max=1024, help="Experiments at a time.")] = 2,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure here.")] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write all tables here.")] = None,
) -> None:
    """Replay schedules of 100 jobs on 16 sockets with recordings of every application (paper 2, 4.2)."""
    from wattqueue_studies.cli.study._run import perform
    from wattqueue_studies.replay.study import ReplayStudy

    if seeds > 1:
        import_module("scipy.stats")  # needed for the intervals: fail before the work if it is missing
    perform(ReplayStudy(folder, seeds, threads), json_file, page)
