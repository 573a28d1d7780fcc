"""Write a finished run: its directory, and the report beside it; say early what cannot be written."""

from __future__ import annotations

from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.formats.rundir import RunRecord, write_run
from wattqueue.sim.task import Outcome, record


def write(folder: Path, outcome: Outcome, *, report: bool) -> None:
    """Write the run's directory. Raises: OutputError; nothing is left half-written."""
    write_run(folder, record(outcome))
    if report:
        write_report(folder / "report.html", record(outcome))


def write_report(path: Path, finished: RunRecord) -> None:
    """Write the one-file report. Raises: OutputError."""
    from wattqueue.formats.pages import write_text
    from wattqueue.report.document import report
    from wattqueue.report.load import of_record

    write_text(path, report(of_record(finished)))


def refuse_folders(*files: Path | None) -> None:
    """Say before the work begins that a folder stands where a file shall be. Raises: OutputError."""
    for path in files:
        if path is not None and path.is_dir():
            raise OutputError("is a directory, not a file", where=path, mend="name a file")
