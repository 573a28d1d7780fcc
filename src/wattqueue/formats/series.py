"""Piecewise constant signals from CSV: caps, prices, carbon intensity; times in seconds or ISO 8601."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._csv import NUMBER, first_comments, nearest, records
from wattqueue.formats._offsets import Repair, mend_offset
from wattqueue.formats._source import refuse_long_lines, shown
from wattqueue.model.jobs import Floats
from wattqueue.model.signals import Series


class Steps(NamedTuple):
    """Rows as read. Shapes (k,): seconds, value, line of the file; and which rows' offsets were mended."""

    time_s: Floats
    value: Floats
    line: NDArray[np.int64]
    repairs: tuple[Repair, ...] = ()


def read_series(path: Path, *, column: str | None = None, epoch_s: float | None = 0.0) -> Series:
    """Read a price or carbon series: a column of times, then one of values (``column`` names another).

    Times are seconds on the trace's clock, or ISO 8601 dates (without an offset they are UTC), whose
    clock begins at ``epoch_s`` seconds of Unix time (SWF: UnixStartTime; None: nobody knows).

    Raises: InputError naming file and line.
    """
    steps = read_steps(path, None, column, epoch_s=epoch_s)
    return Series(steps.time_s, steps.value)


def read_steps(
    path: Path,
    time_name: str | None,
    value_name: str | None,
    *,
    words: Mapping[str, float] | None = None,
    least: float = -np.inf,
    epoch_s: float | None = 0.0,
    repair: bool = False,
) -> Steps:
    """Rows of a time and a value column, times rising; None takes the first and second column.

    ``words`` are texts that stand for a value, ``least`` is the lowest value allowed. ``repair`` mends the offset of a
    date whose local time fits between its neighbours and whose offset does not (formats/_offsets.py), and says so.

    Raises: InputError naming file and line.
    """
    refuse_long_lines(path)
    rows = records(path, first_comments(path))
    line, names = next(rows, (1, []))
    names = [name.strip() for name in names]
    at = (_column(path, line, names, time_name, 0), _column(path, line, names, value_name, 1))
    found = list(_values(path, rows, at, words or {}, epoch_s))
    if not found:
        raise InputError("no row", where=path, mend="write a time and a value in each line below the column names")
    lines, times, values, offsets = (np.array(column) for column in zip(*found, strict=True))
    repairs: list[Repair] = []
    while len(late := np.flatnonzero(np.diff(times) <= 0)):
        fault = mend_offset(times, offsets, lines, int(late[0]))
        if fault is None or not repair or fault.line in {r.line for r in repairs}:
            raise InputError(
                "time does not rise" + (f": line {fault.line} has the offset {fault.was}" if fault else ""),
                where=f"{path}:{lines[late[0] + 1]}",
                mend=f"write {fault.now} there as in its neighbours, or --repair" if fault else
                "sort the rows, one a time",
            )  # fmt: skip
        repairs.append(fault)
    low = np.flatnonzero(values < least)
    if len(low):
        raise InputError(
            f"{values[low[0]]:g} is below {least:g}", where=f"{path}:{lines[low[0]]}", mend="mend the value"
        )
    return Steps(times.astype(np.float64), values.astype(np.float64), lines.astype(np.int64), tuple(repairs))


def _column(path: Path, line: int, names: list[str], name: str | None, default: int) -> int:
    if name is None and default < len(names):
        name = names[default]
        if NUMBER.fullmatch(name):
            raise InputError("the first line holds no column names", where=f"{path}:{line}", mend="write time_s,value")
    if name not in names:
        wanted = f"column {name}" if name else "two columns"
        raise InputError(
            f"no {wanted}, there are {shown(', '.join(names))}",
            where=f"{path}:{line}",
            mend=f"{nearest(name or '', names)}the first line names the columns",
        )
    return names.index(name)


def _values(
    path: Path,
    rows: Iterator[tuple[int, list[str]]],
    at: tuple[int, int],
    words: Mapping[str, float],
    epoch_s: float | None,
) -> Iterator[tuple[int, float, float, float]]:
    """Line, seconds, value and the date's offset in seconds (NaN for plain seconds) of each row."""
    dated: bool | None = None
    for line, fields in rows:
        if len(fields) <= max(at):
            raise InputError(
                f"{len(fields)} fields", where=f"{path}:{line}", mend="mend the line; is the file complete?"
            )
        time, value = (fields[i].strip() for i in at)
        plain = NUMBER.fullmatch(time) is not None
        if dated is None:
            dated = not plain
        if dated and epoch_s is None:
            raise InputError(
                f"time {shown(time)} is a date, and the trace does not say on which it begins",
                where=f"{path}:{line}",
                mend="give --start 2023-01-01T00:00Z, or times in seconds of the trace",
            )
        seconds, offset = (float(time), np.nan) if plain and not dated else _seconds(path, line, time, plain == dated)
        seconds -= epoch_s if dated and epoch_s else 0.0
        number = words.get(value.lower())
        if number is None:
            number = float(value) if NUMBER.fullmatch(value) else np.nan
        if np.isnan(number) or (np.isinf(number) and value.lower() not in words) or not np.isfinite(seconds):
            raise InputError(
                f"{shown(value)} at {shown(time)} is no number", where=f"{path}:{line}", mend="mend the line"
            )
        yield line, seconds, number, offset


def _seconds(path: Path, line: int, text: str, mixed: bool) -> tuple[float, float]:
    """Unix time of an ISO 8601 date, and its offset from UTC in seconds; without an offset it is UTC."""
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
            mend="write all times one way",
        ) from error
