"""Run a study, write its files and print it: what all verbs of studies share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from wattqueue_studies.frame.report import Study


def perform(
    study: Study, json_file: Path | None, page: Path | None, what: str = "simulating", *, tables: Path | None = None
) -> None:
    """Run a study with its progress on stderr, write JSON and HTML, print the text.

    Outputs are checked before the work begins. Files are written before anything is printed, so that a reader of a
    pipe who leaves early does not prevent them.

    Args:
        study: The study with its options.
        json_file: Where to write the JSON, None for none.
        page: Where to write the page, None for none.
        what: What the progress is of.
        tables: Where to write the text's tables as Markdown, None for none.

    Raises: OutputError for a file that cannot be written; what the study raises.
    """
    from wattqueue.formats.pages import write_json, write_text
    from wattqueue.terminal import counting
    from wattqueue_studies.cli.study._outputs import require_writable

    require_writable(json_file, page, tables)
    with counting(what) as progress:
        report = study.run(progress)
    if json_file is not None:
        write_json(json_file, report.document())
    if page is not None:
        write_text(page, report.html())
    if tables is not None:
        write_text(tables, "\n".join(report.markdown()) + "\n")
    for line in report.lines():
        typer.echo(line)
