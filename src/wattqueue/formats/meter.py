"""Interval data of a meter from CSV: one row per interval, its begin, mean power or energy, and a label.

::

    # wattqueue meter interval_s=900 label=measured source=utility
    time,power_kw,label
    2023-03-01T00:00+01:00,412.5,measured
    2023-03-01T00:15+01:00,,
    2023-03-01T00:30+01:00,409.1,counted

The second column is ``power_w``, ``power_kw`` or ``energy_kwh`` (of the interval). A row that is missing, or whose
figure is empty, is a gap: it stays one, and nothing is put in its place. The label of a row says where its figure
comes from (``model.meter.KINDS``); the label of the comment line holds for rows without one.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, nearest
from wattqueue.formats._csv import NUMBER, first_comments, read_facts, records
from wattqueue.formats.epoch import parse_date
from wattqueue.formats.source import refuse_long_lines, shown
from wattqueue.model.bounds import TIME_S, is_whole
from wattqueue.model.jobs import Labels
from wattqueue.model.meter import KINDS, MeterData

FIGURES = {"power_w": Decimal(1), "power_kw": Decimal(1_000), "energy_kwh": Decimal(3_600_000)}
"""Columns that may hold the figure; watts of one unit of it, for energy joules."""
MOST_INTERVALS = 40 * 366 * 24 * 12
"""Forty years of five minutes; a longer span is a wrong date."""
MOST_W = 1e12
"""Upper limit of a figure in watts, as that of a cap."""


def read_meter(path: Path, interval_s: int | None = None) -> MeterData:
    """Return the interval data of a CSV file.

    ``interval_s`` is the length of an interval; None takes the comment line's, else the shortest distance of two rows.

    Raises: InputError naming file and line for a row off the grid, a time that does not rise, a figure that is no
    number, negative or too large, or an unknown label.
    """
    refuse_long_lines(path)
    facts = read_facts(path)
    lines, times, watts, labels, energy = _rows(path, facts.get("label", ""))
    step = interval_s or _stated_interval(path, facts) or int(np.diff(times).min(initial=86_400))
    off = [i for i, t in enumerate(times) if (t - times[0]) % step or t % step]
    if off:
        raise InputError(
            f"begins between two intervals of {step} s", where=f"{path}:{lines[off[0]]}",
            hint="state the interval: # wattqueue meter interval_s=900",
        )  # fmt: skip
    count = (times[-1] - times[0]) // step + 1
    if count > MOST_INTERVALS:
        raise InputError(f"{count:,} intervals", where=path, hint="is one of the dates wrong?")
    power, text = np.full(count, np.nan), np.full(count, "", object)
    place = (np.array(times, np.int64) - times[0]) // step
    # Rounded to whole watts here, so that every later sum is of whole numbers.
    power[place] = [np.nan if w is None else float(round(w / step if energy else w)) for w in watts]
    text[place] = labels
    text[np.isnan(power)] = ""
    return MeterData(times[0], step, power, Labels.of(text), facts.get("source", path.name))


def _stated_interval(path: Path, facts: dict[str, str]) -> int | None:
    """Return the interval of the comment line. Raises: InputError where it is no whole number of seconds."""
    text = facts.get("interval_s")
    if text is None:
        return None
    if not is_whole(text) or not 1 <= int(text) <= 3_600:
        raise InputError(f"interval_s={text}", where=f"{path}:1", hint="whole seconds, such as 900")
    return int(text)


def _rows(path: Path, usual: str) -> tuple[list[int], list[int], list[Decimal | None], list[str], bool]:
    """Return line, Unix time, figure in watts (joules for energy) and label of each row, and whether it is energy."""
    found = records(path, first_comments(path))
    line, names = next(found, (1, []))
    names = [name.strip() for name in names]
    column = next((name for name in names if name in FIGURES), None)
    if "time" not in names or column is None:
        raise InputError(
            f"columns {shown(','.join(names))}", where=f"{path}:{line}",
            hint=f"{nearest(names[1] if len(names) > 1 else '', FIGURES)}write time,power_kw,label",
        )  # fmt: skip
    at = (names.index("time"), names.index(column), names.index("label") if "label" in names else None)
    lines, times, watts, labels = list[int](), list[int](), list[Decimal | None](), list[str]()
    for line, fields in found:
        where = f"{path}:{line}"
        if len(fields) != len(names):
            raise InputError(f"{len(fields)} fields, {len(names)} columns", where=where, hint="correct the line")
        time = _time(fields[at[0]].strip(), where)
        if times and time <= times[-1]:
            raise InputError("time does not rise", where=where, hint="sort the rows, one row per interval")
        lines.append(line)
        times.append(time)
        watts.append(_figure(fields[at[1]].strip(), column, where))
        labels.append(_label(fields[at[2]].strip() if at[2] is not None else "", usual, where))
    if not times:
        raise InputError("no row", where=path, hint="write a time and a figure in each line below the column names")
    return lines, times, watts, labels, column == "energy_kwh"


def _time(text: str, where: str) -> int:
    """Return the Unix time of a date, or of whole Unix seconds. Raises: InputError."""
    seconds = float(text) if NUMBER.fullmatch(text) else parse_date(text, where)
    TIME_S.require(seconds, "time", where=where)
    if seconds != round(seconds):
        raise InputError(f"time {text} is not a whole second", where=where)
    return round(seconds)


def _figure(text: str, column: str, where: str) -> Decimal | None:
    """Return the watts (joules) of a field, None for an empty one. Raises: InputError."""
    if not text:
        return None
    if not NUMBER.fullmatch(text):
        raise InputError(f"{column} is {shown(text)}, not a number", where=where, hint="leave a gap empty")
    value = Decimal(text) * FIGURES[column]
    if not 0 <= value <= Decimal(MOST_W):
        raise InputError(f"{column} = {text} is outside 0 to 1e12 W", where=where, hint="consumption is positive")
    return value


def _label(text: str, usual: str, where: str) -> str:
    """Return the label of a row. Raises: InputError for one that is unknown, or none at all."""
    label = text or usual
    if label not in KINDS:
        raise InputError(
            f"label {label!r}" if label else "no label", where=where,
            hint=f"{', '.join(KINDS)}; for all rows: # wattqueue meter label=measured",
        )  # fmt: skip
    return label
