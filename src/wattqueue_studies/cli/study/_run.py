"""What all verbs of studies share: run a study with its progress, write its files, print it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.options import workers_option
from wattqueue.verbs import Printed, out_field

if TYPE_CHECKING:
    from wattqueue_studies.frame.report import Study

TraceOption = Annotated[
    list[str] | None, typer.Option(help="Recorded trace with the nodes to simulate it on, FILE:NODES; repeatable.")
]
PROBE_BYTES = 4_000_000
"""Bytes that are written on trial before the work; the largest JSON of a study has some megabytes."""


class _ProbeOverError(Exception):
    """Leaves an atomic write, so that nothing is replaced."""


@dataclass(frozen=True, kw_only=True)
class StudyOutput(Printed):
    """Where the result of a study goes."""

    out: Path | None = out_field("Folder for report.html, study.json (every figure) and tables.md.")

    def perform(self, study: Study, what: str = "simulating") -> None:
        """Run a study with its progress on stderr, which says ``what``; write its files and print it.

        The folder is checked before the work, which takes minutes to hours. Files are written before anything is
        printed, so that a reader of a pipe who leaves early does not prevent them.

        Raises: OutputError where the folder cannot be written; what the study raises.
        """
        from wattqueue.formats.atomic_folder import write_files
        from wattqueue.terminal import counting

        if self.out is not None:
            require_writable(self.out)
        with counting(what, quiet=self.quiet) as progress:
            report = study.run(progress)
        data = json.dumps(report.document(), allow_nan=False, indent=1)
        if self.out is not None:
            tables = "\n".join(report.markdown())
            write_files(self.out, {"report.html": report.html(), "study.json": f"{data}\n", "tables.md": f"{tables}\n"})
        self.show(lambda: data, report.lines)


@dataclass(frozen=True, kw_only=True)
class ParallelStudy(StudyOutput):
    """Options of a study whose simulations run in parallel."""

    workers: int | None = workers_option("Simulations at a time. [one per core]")

    @property
    def threads(self) -> int:
        """Return the number of simulations at a time, which changes no result."""
        return self.workers or os.cpu_count() or 1


def require_writable(folder: Path) -> None:
    """Check that files can be written into a folder: a page of ``PROBE_BYTES`` is written on trial and removed.

    Raises: OutputError with the folder.
    """
    from wattqueue.formats.atomic_folder import atomic_folder

    try:
        with atomic_folder(folder) as temporary:
            (temporary / "report.html").write_bytes(bytes(PROBE_BYTES))
            # Leaving by an exception makes atomic_folder remove what was written instead of renaming it.
            raise _ProbeOverError
    except _ProbeOverError:
        pass
