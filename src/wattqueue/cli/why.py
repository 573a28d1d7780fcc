"""Say what held a job of a simulated run back: nodes, the cap, a power domain, or its turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of


@verb_of(Printed)
def run(
    printed: Printed,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run (what --out named).")],
    job: Annotated[str, typer.Argument(help="Name of a job, as in jobs.csv.")],
) -> None:
    """Say what held a job of a simulated run back: nodes, the cap, a power domain, or its turn."""
    from wattqueue.formats.rundir.folder import read_run
    from wattqueue.report.held_back import HeldBack

    found = HeldBack.of(read_run(folder), job)
    printed.show(found.values, found.lines)
