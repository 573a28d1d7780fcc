"""Find the formats of workloads.

Three sources, like those of parts (``policy.registry``): the files in ``formats/workloads``; entry points of other
installed packages in the group ``wattqueue.formats``; a Python file of the user's own, by path. Each states a
``FORMAT``, or is the entry point of one.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats import workloads
from wattqueue.formats.python_file import load_file
from wattqueue.formats.source import shown
from wattqueue.formats.workload_format import WorkloadFormat

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
    return tuple(point.load() for point in entry_points(group=GROUP))


def find_format(name: str) -> WorkloadFormat:
    """Return a format by its kind, or that of a Python file such as ``my_format.py``.

    Raises: InputError listing the kinds that are known; for a file without ``FORMAT``; for one that does not load.
    """
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
