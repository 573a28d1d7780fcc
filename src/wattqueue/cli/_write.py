"""Write a finished run: its directory and its report.

Shared by the verbs that simulate. Imports of the report are inside the functions, since most runs do not need them.
"""

from __future__ import annotations

from pathlib import Path

from wattqueue.formats.rundir.folder import RunRecord, write_run
from wattqueue.runs.perform import TaskResult
from wattqueue.runs.record import record


def write(folder: Path, outcome: TaskResult, *, report: bool) -> None:
    """Write the run's directory, with report.html if ``report``. Raises: OutputError; nothing is left half-written.

    The report is written last, from the same record: if it fails, the run itself is complete, and ``wattqueue
    report`` can repeat the page.
    """
    write_run(folder, record(outcome))
    if report:
        write_report(folder / "report.html", record(outcome))


def write_report(path: Path, finished: RunRecord) -> None:
    """Write the one-file report of a run. Raises: OutputError."""
    # Imported here: reports need the template and figures, which runs without one do not.
    from wattqueue.formats.atomic_folder import write_text
    from wattqueue.report.load import of_record
    from wattqueue.report.run_page import report

    write_text(path, report(of_record(finished)))
