"""Repeat a recorded run, and compare its files byte by byte.

A run directory records the task, the policy's row, machine, cap, and the SHA-256 of every input file. Repeating it must
give identical files on any computer with the same versions of WattQueue and its libraries; a difference means that an
input, a version or the platform's arithmetic has changed.

Files are compared byte by byte, not value by value, since every writer is deterministic. The report is not compared:
it may change with the version without any change of the result. Without ``--out`` the repeated run is in a temporary
folder that is removed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of


@verb_of(Printed)
def run(
    printed: Printed,
    folder: Annotated[Path, typer.Argument(help="The directory of a run.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Keep the repeated run here.")] = None,
) -> None:
    """Repeat a recorded run, and compare its files byte by byte; exit status 1 where they differ.

    Inputs are found by the recorded paths and must have the recorded SHA-256.
    """
    from wattqueue.errors import InputError
    from wattqueue.formats.rundir.folder import write_run
    from wattqueue.model.comparability import WorkDone
    from wattqueue.runs.perform import perform
    from wattqueue.runs.record import record, recorded_inputs
    from wattqueue.terminal import running, say_never_ran

    if out is not None and out.exists() and folder.exists() and out.samefile(folder):
        raise InputError("is the recorded run itself", where=out, hint="name another folder: both are compared")
    # Checks the SHA-256 of every input first: a changed trace is reported as such, not as a difference of results.
    inputs = recorded_inputs(folder)
    with running("repeating", quiet=printed.quiet) as progress:
        outcome = perform(inputs, progress)
    say_never_ran([("", WorkDone.of(outcome.run.jobs, outcome.run.schedule))])
    with tempfile.TemporaryDirectory(prefix="wattqueue-rerun-") as scratch:
        target = out or Path(scratch) / "run"
        write_run(target, record(outcome))
        differing = differences(folder, target)
    verdict = f"{', '.join(differing)} differ" if differing else "reproduced, files identical"
    printed.show(lambda: {"run": str(folder), "differ": differing}, lambda: [f"{folder}: {verdict}"])
    if differing:
        raise typer.Exit(1)


def differences(one: Path, other: Path) -> list[str]:
    """Return the names of a run's files whose content differs between two directories, or that one of them lacks.

    Files of other names (report.html, figures) are not compared.
    """
    from wattqueue.formats.rundir.folder import JOBS, METRICS, POWER, RUN, UNUSABLE

    names = (JOBS, POWER, METRICS, RUN, UNUSABLE)
    return [name for name in names if _bytes(one / name) != _bytes(other / name)]


def _bytes(path: Path) -> bytes | None:
    """Return a file's content; None where there is no file."""
    return path.read_bytes() if path.is_file() else None
