"""Say on stderr which runs left jobs that never ran. The exit status stays 0: the run is what was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from wattqueue.model.comparability import WorkDone


def say_never_ran(runs: Iterable[tuple[str, WorkDone]]) -> None:
    """Print ``22,016 of 28,481 jobs never ran (still queued at the end)`` for each run of which that is true.

    ``runs`` are (name, work); a single run may have an empty name.
    """
    for name, work in runs:
        if work.text:
            typer.echo(f"{name}: {work.text}" if name else work.text, err=True)
