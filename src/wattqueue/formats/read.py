"""Read a workload of any format, chosen by the content of the file, not by its name.

``read_workload`` is the one entry for every verb that takes a trace: it asks each format (``formats.registry``) how
certain it is of the file, and has the most certain one read it. All readers return a ``Workload`` with the same meaning
of every column, so that nothing after this module depends on the format.

A wrong guess costs a clear error of the reader; ``--from`` overrides it.
"""

from __future__ import annotations

from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.registry import find_format, installed_formats, stock_formats
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import DEFAULTS, NOT, SURE, ReadOptions, WorkloadFile, WorkloadFormat

__all__ = ["ReadOptions", "read_workload", "recognised"]


def read_workload(path: Path, options: ReadOptions = DEFAULTS, *, kind: str | None = None) -> Workload:
    """Return jobs, rows left out and remarks, from a file of any known format.

    ``kind`` names a format, or a Python file that states one, instead of the choice by content; ``options`` holds what
    the file does not state.

    Raises: InputError naming file and line, or the formats that are known.
    """
    file = WorkloadFile(path)
    # Naming the columns of a dump without a header says what it is, and such a dump could not be recognised.
    kind = kind or ("sacct" if options.columns else None)
    form = find_format(kind) if kind else recognised(file)
    return form.read(file, options)


def recognised(file: WorkloadFile) -> WorkloadFormat:
    """Return the format that is most certain of a file; of equally certain ones, the first by name.

    Formats of other packages are asked where none of our own is sure.

    Raises: InputError for an empty file, and where no format is possible; both list what can be read.
    """
    certain = _most_certain(file, stock_formats())
    if certain[0] < SURE:
        certain = max(certain, _most_certain(file, installed_formats()), key=lambda found: found[0])
    if certain[1] is not None:
        return certain[1]
    formats = "; ".join(form.summary for form in (*stock_formats(), *installed_formats()))
    if not file.head.strip():
        raise InputError("is empty", where=file.path, hint=f"give one of: {formats}")
    columns = f" (columns {', '.join(sorted(file.columns)[:8])})" if file.is_parquet else ""
    raise InputError(f"is in no format that can be read here{columns}", where=file.path, hint=f"give one of: {formats}")


def _most_certain(file: WorkloadFile, formats: tuple[WorkloadFormat, ...]) -> tuple[int, WorkloadFormat | None]:
    """Return the highest certainty, and the first format that has it; None where no format is possible."""
    best: tuple[int, WorkloadFormat | None] = (NOT, None)
    for form in formats:
        found = form.recognise(file)
        if found > best[0]:
            best = (found, form)
        if found == SURE:
            break
    return best
