"""Read a workload of any format, chosen by the content of the file; its name says which format is asked first.

Formats come from three sources, like parts (``policy.registry``): the files in ``formats/workloads``; entry points of
other installed packages in the group ``wattqueue.formats``; a Python file of the user's own, by path. Each states a
``FORMAT``, or is the entry point of one.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import cast

from wattqueue.errors import InputError
from wattqueue.formats import workloads
from wattqueue.formats.source import shown
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import DEFAULTS, LIKELY, NOT, SURE, ReadOptions, WorkloadFile, WorkloadFormat

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
    alike = _named_like(file.path)
    if alike is not None and alike.recognise(file) >= LIKELY:
        return alike
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


def _named_like(path: Path) -> WorkloadFormat | None:
    """Return the format that a suffix of a name is the kind of; None for none. The others need no import then."""
    for kind in (suffix.removeprefix(".").lower() for suffix in path.suffixes):
        if kind.isidentifier() and not kind.startswith("_") and Path(workloads.__path__[0], f"{kind}.py").exists():
            return cast("WorkloadFormat", importlib.import_module(f"{workloads.__name__}.{kind}").FORMAT)
    return None


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


GROUP = "wattqueue.formats"
"""Entry points of other packages that are formats."""


@cache
def stock_formats() -> tuple[WorkloadFormat, ...]:
    """Return the formats of WattQueue itself, in the order of their files' names."""
    names = sorted(path.stem for folder in workloads.__path__ for path in Path(folder).glob("*.py"))
    modules = [importlib.import_module(f"{workloads.__name__}.{name}") for name in names if not name.startswith("_")]
    return tuple(module.FORMAT for module in modules)


@cache
def installed_formats() -> tuple[WorkloadFormat, ...]:
    """Return the formats that other packages add. Looked up once, and late: it reads a file for each package."""
    from wattqueue.installed import entry_points_of

    return tuple(point.load() for point in entry_points_of(GROUP))


def find_format(name: str) -> WorkloadFormat:
    """Return a format by its kind, or that of a Python file such as ``my_format.py``.

    Raises: InputError listing the kinds that are known; for a file without ``FORMAT``; for one that does not load.
    """
    from wattqueue.formats.python_file import load_file

    if name.endswith(".py"):
        found = getattr(load_file(Path(name)), "FORMAT", None)
        if not isinstance(found, WorkloadFormat):
            raise InputError("states no format", where=name, hint="it needs FORMAT = WorkloadFormat(...)")
        return found
    for formats in (stock_formats, installed_formats):
        for form in formats():
            if form.kind == name:
                return form
    kinds = ", ".join(form.kind for form in (*stock_formats(), *installed_formats()))
    raise InputError(f"no format {shown(name)}", hint=f"use one of {kinds}, or a Python file with a FORMAT")
