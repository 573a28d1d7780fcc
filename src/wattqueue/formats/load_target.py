"""CSV of load targets: one row a target, times in seconds of the trace's clock.

An example: 407 kW from 9 to 12 o'clock, known an hour before, and 70 % of the machine's maximum the next day, after
which the limit may rise by 2 kW a second::

    start_s,end_s,limit,unit,notice_s,ramp_w_per_s,correlation_id
    32400,43200,407000,W,3600,,event-1
    118800,129600,70,% of maximum,86400,2000,event-2

``start_s``, ``end_s``, ``limit`` and ``unit`` must be there. The unit is ``W``, ``% of maximum`` (of the sum of unit
maxima in the cap's scope) or ``% of cap`` (of the cap in force at the start); ``notice_s`` is the time between notice
and start (empty: 0; ``inf``: known from the beginning), ``ramp_w_per_s`` what the limit may rise in a second after the
end (empty: no limit). What is refused: a target that ends before it starts, targets that overlap, a limit below what
the idle machine draws, and figures outside their ranges, each with file and line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError, MachineError, nearest
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.plain_numbers import is_whole
from wattqueue.model.signals import Cap

REQUIRED = ("start_s", "end_s", "limit", "unit")
"""Columns that must be there, and have a value in every row."""
COLUMNS = (*REQUIRED, "notice_s", "ramp_w_per_s", "correlation_id", "domain")
"""Every column, in the order that is written."""
TEXT_COLUMNS = frozenset({"unit", "correlation_id", "domain"})
"""Columns of text."""


def read_load_targets(
    path: Path, machine: Machine | None = None, cap: Cap | None = None, *, domains: bool = False
) -> LoadTargets:
    """Return the targets of a CSV, plain or gzip, sorted by their starts.

    ``domains``: targets may name a power domain. With a machine, a target of all of it below what it draws idle is
    refused, and a ramp that has nothing to rise to; ``cap`` is the site's.

    Raises: InputError or MachineError naming the file, and the line wherever one is concerned.
    """
    from wattqueue.formats import csv_records

    rows = csv_records.records(path, csv_records.first_comments(path))
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    _check_columns(path, line, names)
    found: list[tuple[LoadTarget, int]] = []
    for at, fields in rows:
        if len(fields) != len(names):
            raise InputError(
                f"{len(fields)} fields, {len(names)} columns", where=f"{path}:{at}", hint="quote a field with a comma"
            )
        found.append((_target(path, at, dict(zip(names, (f.strip() for f in fields), strict=True))), at))
    if not found:
        raise InputError("no load target", where=path, hint=f"write one row per target below {','.join(REQUIRED)}")
    found.sort(key=lambda one: one[0].start_s)
    try:
        targets = LoadTargets.of(*(target for target, _ in found))
        if machine is not None:
            targets.require_reachable(machine, cap or Cap.none())
            targets.require_rise(machine, cap or Cap.none())
    except (InputError, MachineError) as error:
        raise type(error)(f"{error.where}: {error.what}", where=_line(path, error, found), hint=error.hint) from error
    if not domains:
        targets.require_whole(path)
    return targets


def write_load_targets(path: Path, targets: LoadTargets) -> None:
    """Write targets so that they read back to equal ones. Raises: OutputError."""
    import polars as pl

    from wattqueue.formats import csv_records
    from wattqueue.formats.atomic_write import atomic_write

    columns = [
        pl.Series(name, list(getattr(targets, name)), pl.String)
        if name in TEXT_COLUMNS
        else pl.Series(name, [_written(v) for v in getattr(targets, name)], pl.String)
        for name in COLUMNS
    ]
    with atomic_write(path) as part:
        csv_records.write(part, pl.DataFrame(columns), "wattqueue load-targets", {}, packed=path.suffix == ".gz")


def _written(value: float) -> str:
    """Return the shortest text that gives a number back; whole ones without a point."""
    return str(int(value)) if value == np.rint(value) and abs(value) < 2**53 else repr(float(value))


def _check_columns(path: Path, line: int, names: list[str]) -> None:
    """Raise InputError for a column that is unknown, doubled or missing."""
    from wattqueue.formats import csv_records

    where = f"{path}:{line}"
    for name in names:
        if name not in COLUMNS:
            raise InputError(
                f"unknown column {csv_records.shown(name)}",
                where=where,
                hint=f"{nearest(name, COLUMNS)}columns: {','.join(COLUMNS)}",
            )
        if names.count(name) > 1:
            raise InputError(f"two columns {name}", where=where, hint="keep one")
    csv_records.having(REQUIRED)(where, names)


def _target(path: Path, line: int, fields: dict[str, str]) -> LoadTarget:
    """Return the target of one row. Raises: InputError naming file, line and column."""
    from wattqueue.formats import csv_records

    values: dict[str, Any] = {}
    for name, text in fields.items():
        if name in TEXT_COLUMNS:
            values[name] = text
        elif text == "inf" and name in {"notice_s", "ramp_w_per_s"}:
            values[name] = np.inf
        elif csv_records.NUMBER.fullmatch(text):
            values[name] = float(text)
        elif text or name in REQUIRED:
            raise InputError(
                f"column {name} is {csv_records.shown(text) or 'empty'}, not a number",
                where=f"{path}:{line}",
                hint="correct the line",
            )
    return LoadTarget(**values)


def _line(path: Path, error: InputError | MachineError, found: list[tuple[LoadTarget, int]]) -> str:
    """Return the file and line of a target that an error names by its number."""
    number = str(error.where).split()[2] if error.where is not None else ""
    return f"{path}:{found[int(number) - 1][1]}" if is_whole(number) else str(path)
