"""Piecewise constant signals from CSV: caps, prices, carbon intensity.

A file has one row per change; a value holds from its time to the next row. Times are either all seconds of the
trace's clock or all ISO 8601 dates::

    time_s,price                       Date,Price,Unit
    0,50.5                             2023-01-01T00:00+01:00,50.5,EUR/MWh
    3600,-1.5                          2023-01-01T01:00+01:00,-1.5,EUR/MWh

Dates need the epoch of the trace (``formats.epoch``) to be put on its clock. What the reader refuses, since each of
these would shift or scale a whole signal without a visible error: times that do not rise, a mix of both kinds of
times, a row with more fields than the header (a decimal comma), values and times outside ``model.bounds``, text in
the place of a figure.

``read_steps`` serves caps (``formats.cap``), prices and carbon intensity. Errors are found row by row while reading
(``_values``), then over all rows: the order of times, then the range of values. The first error ends the reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, nearest
from wattqueue.formats.source import refuse_long_lines, shown
from wattqueue.formats.times import Repair, repair_offset
from wattqueue.model.bounds import SIGNAL, TIME_S, Bound
from wattqueue.model.jobs import Floats


class SeriesRows(NamedTuple):
    """Rows as read. Shapes (k,).

    Fields: ``time_s`` seconds on the trace's clock; ``value`` in the unit of the file; ``line`` the line of each
    row, for errors of the caller; ``repairs`` the rows whose offset was corrected; ``unit`` the unit that the file
    states in a column ``unit``, in whatever case, None for no such column.
    """

    time_s: Floats
    value: Floats
    line: NDArray[np.int64]
    repairs: tuple[Repair, ...] = ()
    unit: str | None = None


def read_steps(
    path: Path,
    time_name: str | None = None,
    value_name: str | None = None,
    *,
    words: Mapping[str, float] | None = None,
    bound: Bound = SIGNAL,
    epoch_s: float | None = 0.0,
    repair: bool = False,
) -> SeriesRows:
    """Return rows of a time and a value column, times rising.

    ``time_name`` and ``value_name`` are column names; None takes the first and second column. ``words`` are texts
    that stand for a value (``none`` for an infinite cap), ``bound`` is the range of all other values. ``epoch_s``
    is the Unix time of the trace's 0, None where it is unknown, which makes dates unusable. ``repair`` corrects the
    offset of a date whose local time fits between its neighbours and whose offset does not (formats/times.py),
    and reports it; without it, such a row is refused with the offset that would fit.

    Raises: InputError naming file and line; also for two units in one file.
    """
    from wattqueue.formats.csv_records import first_comments, records

    refuse_long_lines(path)
    # first_comments counts the comment lines above the header, which the CSV reader then skips.
    rows = records(path, first_comments(path))
    line, names = next(rows, (1, []))
    names = [name.strip() for name in names]
    at = (_column(path, line, names, time_name, 0), _column(path, line, names, value_name, 1))
    units = dict[str, None]()
    found = list(_values(path, _noting_unit(path, rows, names, units), at, words or {}, epoch_s, len(names)))
    if not found:
        raise InputError("no row", where=path, hint="write a time and a value in each line below the column names")
    lines, times, values, offsets = (np.array(column) for column in zip(*found, strict=True))
    repairs: list[Repair] = []
    # Each turn corrects one row (repair_offset changes times and offsets in place) and looks again. A row is
    # corrected at most once, so the loop ends.
    while len(late := np.flatnonzero(np.diff(times) <= 0)):
        fault = repair_offset(times, offsets, lines, int(late[0]))
        if fault is None or not repair or fault.line in {r.line for r in repairs}:
            raise InputError(
                "time does not rise" + (f": line {fault.line} has the offset {fault.was}" if fault else ""),
                where=f"{path}:{lines[late[0] + 1]}",
                hint=f"write {fault.now} there as in the neighbouring rows, or give --repair" if fault else
                "sort the rows, one row per time",
            )  # fmt: skip
        repairs.append(fault)
    # A word such as none stands for infinity, which lies outside the bound of written figures.
    given = np.array([*(words or {}).values()])
    wrong = np.flatnonzero(~bound.holds(values) & ~np.isin(values, given))
    if len(wrong):
        bound.require(float(values[wrong[0]]), "value", where=f"{path}:{lines[wrong[0]]}")
    columns = times.astype(np.float64), values.astype(np.float64), lines.astype(np.int64)
    return SeriesRows(*columns, tuple(repairs), next(iter(units), None))


def _noting_unit(
    path: Path, rows: Iterator[tuple[int, list[str]]], names: list[str], found: dict[str, None]
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows; the unit of a column ``unit`` is put into ``found``. Raises: InputError for two units in one file."""
    lower = [name.lower() for name in names]
    at = lower.index("unit") if "unit" in lower else len(names)
    for line, fields in rows:
        unit = fields[at].strip() if at < len(fields) else ""
        if unit:
            first = next(iter(found), unit)
            if unit != first:
                what = f"unit {shown(unit)} after {shown(first)}"
                raise InputError(what, where=f"{path}:{line}", hint="write one unit")
            found[unit] = None
        yield line, fields


def write_steps(path: Path, time_s: Floats, value: Floats, value_name: str) -> None:
    """Write a CSV of ``time_s`` and a value that ``read_steps`` reads back to the last bit. Raises: OutputError."""
    from wattqueue.formats.atomic_write import atomic_text

    rows = (f"{float(t)!r},{float(v)!r}\n" for t, v in zip(time_s, value, strict=True))
    atomic_text(path, "".join((f"time_s,{value_name}\n", *rows)))


def _column(path: Path, line: int, names: list[str], name: str | None, default: int) -> int:
    """Return the position of a column, by name or by default. Raises: InputError naming the nearest column.

    ``names`` is the header, ``line`` its line number. A default column whose name is a number means that the file
    begins with data: its first row would otherwise be lost as a header.
    """
    from wattqueue.formats.csv_records import NUMBER

    if name is None and default < len(names):
        name = names[default]
        if NUMBER.fullmatch(name):
            raise InputError("the first line holds no column names", where=f"{path}:{line}", hint="write time_s,value")
    if name not in names:
        wanted = f"column {name}" if name else "two columns"
        raise InputError(
            f"no {wanted}, there are {shown(', '.join(names))}",
            where=f"{path}:{line}",
            hint=f"{nearest(name or '', names)}the first line names the columns",
        )
    return names.index(name)


def _values(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    at: tuple[int, int],
    words: Mapping[str, float],
    epoch_s: float | None,
    width: int,
) -> Iterator[tuple[int, float, float, float]]:
    """Yield line, seconds, value and the date's offset in seconds (NaN for plain seconds) of each row.

    ``at`` are the positions of time and value, ``width`` the number of columns of the header; ``words``, ``epoch_s``
    as in ``read_steps``. The first row decides whether times are dates or seconds; a row of the other kind is an
    error, since a year such as ``2023`` or a compact date such as ``20230101`` would otherwise pass for seconds.

    Raises: InputError naming file and line.
    """
    from wattqueue.formats.csv_records import NUMBER

    dated: bool | None = None
    for line, fields in rows:
        if len(fields) <= max(at):
            raise InputError(
                f"{len(fields)} fields, too few", where=f"{path}:{line}", hint="correct the line; is the file complete?"
            )
        time, value = (fields[i].strip() for i in at)
        plain = NUMBER.fullmatch(time) is not None
        if dated is None:
            dated = not plain
        if dated and epoch_s is None:
            raise InputError(
                f"time {shown(time)} is a date, and the trace does not say on which it begins",
                where=f"{path}:{line}",
                hint="give --start 2023-01-01T00:00Z, or times in seconds of the trace",
            )
        seconds, offset = (float(time), np.nan) if plain and not dated else _seconds(path, line, time, plain == dated)
        # Unix time to the clock of the trace; plain seconds are on that clock already.
        seconds -= epoch_s if dated and epoch_s else 0.0
        number = words.get(value.lower())
        if number is None:
            number = float(value) if NUMBER.fullmatch(value) else np.nan
        # Empty surplus fields are trailing commas, which spreadsheets write. Text in them is a decimal comma: 50,5
        # would be read as 50.
        if any(fields[width:]):
            raise InputError(
                f"{len(fields)} fields, {width} columns",
                where=f"{path}:{line}",
                hint="write decimals with a point, and quote a field that holds a comma",
            )
        TIME_S.require(seconds, "time", where=f"{path}:{line}", hint="is epoch or unit of the times right?")
        if np.isnan(number) or (np.isinf(number) and value.lower() not in words) or not np.isfinite(seconds):
            raise InputError(
                f"{shown(value)} at {shown(time)} is not a number", where=f"{path}:{line}", hint="correct the line"
            )
        yield line, seconds, number, offset


def _seconds(path: Path, line: int, text: str, mixed: bool) -> tuple[float, float]:
    """Return Unix time of an ISO 8601 date, and its offset from UTC in seconds; without an offset it is UTC.

    ``mixed`` means that the rows above have the other kind of time; the text is then refused whatever it is.

    Raises: InputError naming file and line.
    """
    try:
        if mixed:
            raise ValueError
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.timestamp(), (moment.utcoffset() or timedelta()).total_seconds()
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"time {shown(text)} is neither seconds nor a date such as 2023-01-01T00:00+01:00"
            + (", or not as in the rows above" if mixed else ""),
            where=f"{path}:{line}",
            hint="write all times one way",
        ) from error
