"""Repeat a recorded run, and compare its files byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[Path, typer.Argument(help="The directory of a run.")],
    out: Annotated[Path | None, typer.Option(help="Keep the repeated run here.")] = None,
) -> None:
    """Repeat a recorded run, and compare its files byte for byte; exit status 1 where they differ."""
    from wattqueue.cli._progress import running
    from wattqueue.formats.rundir import write_run
    from wattqueue.sim.task import perform, record, recorded_inputs

    inputs = recorded_inputs(folder)
    with running(len(inputs.jobs), "repeating") as progress:
        outcome = perform(inputs, progress)
    with tempfile.TemporaryDirectory(prefix="wattqueue-rerun-") as scratch:
        target = out or Path(scratch) / "run"
        write_run(target, record(outcome))
        differing = differences(folder, target)
    if differing:
        typer.echo(f"{folder}: {', '.join(differing)} came out differently")
        raise typer.Exit(1)
    typer.echo(f"{folder}: repeated, the same bytes")


def differences(one: Path, other: Path) -> list[str]:
    """Names of the files of a run that are not the same bytes in both directories."""
    from wattqueue.formats.rundir import JOBS, METRICS, POWER, RUN, UNUSABLE

    names = (JOBS, POWER, METRICS, RUN, UNUSABLE)
    return [name for name in names if _bytes(one / name) != _bytes(other / name)]


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
