"""Interval data of a meter: mean watts of equal intervals, with where they come from and which are missing.

A CSV has one row per interval: its begin, mean power or energy, and a label.

::

    # wattqueue meter interval_s=900 label=measured source=utility
    time,power_kw,label
    2023-03-01T00:00+01:00,412.5,measured
    2023-03-01T00:15+01:00,,
    2023-03-01T00:30+01:00,409.1,counted

The second column is ``power_w``, ``power_kw`` or ``energy_kwh`` (of the interval). A row that is missing, or whose
figure is empty, is a gap: it stays one, and nothing is put in its place. The label of a row says where its figure
comes from (``KINDS``); the label of the comment line holds for rows without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, nearest, one_of
from wattqueue.formats.csv_records import NUMBER, first_comments, read_facts, records
from wattqueue.formats.epoch import parse_date
from wattqueue.formats.source import refuse_long_lines, shown
from wattqueue.model.bounds import TIME_S
from wattqueue.model.jobs import Floats, Labels
from wattqueue.model.plain_numbers import is_whole
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.steps import Steps

KINDS = {
    "measured": "watts that a meter sampled",
    "counted": "energy that a counter added up, divided by the interval",
    "simulated": "computed by a simulation",
    "generated": "made by a model with a seed",
}
"""Where the figure of an interval comes from, and what that means."""


@dataclass(frozen=True, slots=True, eq=False)
class MeterData:
    """Mean watts of k intervals of equal length without a break in time. Shapes (k,).

    Raises: InputError for an interval that does not divide a day, a begin off the interval's grid, watts below 0, or a
    label that is none of ``KINDS``.
    """

    begin_s: int
    """Unix time at which the first interval begins, a multiple of ``interval_s``."""
    interval_s: int
    """Length of every interval in seconds."""
    power_w: Floats
    """Mean watts of each interval, in whole watts; NaN where there is no data."""
    label: Labels
    """One of ``KINDS`` for each interval; none where there is no data."""
    source: str
    """Meter, file or run that the figures come from, as text."""

    def __post_init__(self) -> None:
        check_interval(self.interval_s, self.source)
        if self.begin_s % self.interval_s:
            raise InputError(f"begins at {self.begin_s}, between two intervals", where=self.source)
        if len(self.label) != len(self.power_w):
            raise InputError(f"{len(self.label)} labels, {len(self.power_w)} intervals", where=self.source)
        if (self.power_w < 0).any():
            raise InputError("watts below 0", where=self.source, hint="write consumption as positive figures")
        unknown = sorted(set(self.label.names) - set(KINDS))
        if unknown:
            raise InputError(f"label {unknown[0]!r}", where=self.source, hint=one_of(unknown[0], KINDS))

    def __len__(self) -> int:
        return len(self.power_w)

    @property
    def end_s(self) -> int:
        """Return the Unix time at which the last interval ends."""
        return self.begin_s + len(self) * self.interval_s

    def rows(self, begin_s: int, end_s: int) -> slice:
        """Return the intervals that lie within two instants, as far as there are any."""
        first = -((self.begin_s - begin_s) // self.interval_s) if begin_s > self.begin_s else 0
        last = (end_s - self.begin_s) // self.interval_s
        return slice(min(first, len(self)), max(min(first, len(self)), min(last, len(self))))


def of_power(power: PowerSeries, epoch_s: float, interval_s: int, source: str, kind: str = "simulated") -> MeterData:
    """Return the mean watts of a run's machine by interval: whole intervals between its first and last change.

    ``epoch_s`` is the Unix time of the run's 0. The means are exact integrals, rounded to whole watts.

    Raises: InputError for a run that is shorter than one interval, or longer than ``MOST_INTERVALS``.
    """
    time = power.time_s + epoch_s
    first = int(np.ceil(time[0] / interval_s)) if len(time) else 0
    last = int(np.floor(time[-1] / interval_s)) if len(time) else 0
    if last <= first:
        raise InputError(f"is shorter than one interval of {interval_s} s", where=source)
    expect_intervals(last - first, source)
    edges = np.arange(first, last + 1, dtype=np.int64) * interval_s
    watts = np.round(Steps(time, power.machine_w).means(edges.astype(np.float64)))
    label = Labels(np.zeros(len(watts), np.int32), (kind,))
    return MeterData(int(edges[0]), interval_s, watts, label, source)


def check_interval(interval_s: int, where: str) -> None:
    """Raise InputError for an interval that does not divide an hour, naming ``where`` it is stated."""
    if interval_s < 1 or 3_600 % interval_s:
        raise InputError(
            f"an interval of {interval_s} s does not divide an hour", where=where, hint="300, 900, 1800 or 3600"
        )


def expect_intervals(count: int, where: Path | str) -> None:
    """Raise InputError for more intervals than a meter may have, naming ``where`` they come from."""
    if count > MOST_INTERVALS:
        raise InputError(f"{count:,} intervals", where=where, hint="is one of the dates or times wrong?")


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
    expect_intervals(count, path)
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
