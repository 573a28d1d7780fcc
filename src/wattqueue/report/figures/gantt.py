"""Gantt: units by time. Few jobs are drawn one by one; many become a grid of units by time.

A cell of the grid covers some units for some time. What it says is exact: the share of it that was
busy, the mean watts of its busy part, the mean frequency, and the user who held most of it. The
integrals come from differences at the four corners of each job's rectangles and one running sum a
direction, so the cost is per rectangle, not per cell that a rectangle covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Ints
from wattqueue.report import words
from wattqueue.report.figure import Axis, Figure, time_axis
from wattqueue.report.run import Run

EXACT_JOBS = 10_000
EXACT_RECTANGLES = 40_000
COLUMNS = 1_200
ROWS = 512
USERS = 7
SAME = 1e-6  # watts that differ by a smaller share are the same
"""Users with a colour of their own; the others share one."""
LEVELS = 32
CHUNK = 1 << 16
"""Rectangles taken at once, so that what is in between stays in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Rectangles:
    """Job ``job[k]`` held units ``low[k]..high[k]``, both included, while it ran. Shapes (m,)."""

    job: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells of units by time. Shapes (rows, columns); watts and hertz are means over the busy part, NaN where idle.

    ``user`` is the index in the list of top users plus one, 0 for any other.
    """

    first_s: float
    column_s: float
    row_units: int
    busy: Floats
    unit_w: Floats
    frequency_hz: Floats | None
    user: NDArray[np.uint8] | None


def figure(run: Run) -> Figure:
    """Who held which units when, coloured by power, user or frequency."""
    users = top_users(run)
    what = rectangles(run)
    exact = len(run.jobs) <= EXACT_JOBS and len(what.job) <= EXACT_RECTANGLES
    first = run.first_s
    extra: dict[str, object] = {
        "end_s": run.last_s - first,
        "units": run.units,
        "unit": run.unit,
        "partitions": run.partitions,
        "users": [name for _, name in users],
        "power": power_scale(run),
        "frequency": _several(_range(run.frequency_hz[run.ran], trim=False)),
        "has_users": bool((run.jobs.user.codes >= 0).any()),
    }
    if exact:
        shown = _exact(run, what, users)
    else:
        extra["grid"] = cells = grid(run, what, users)
        shown = _by_unit(run, cells)
    return Figure(
        "gantt",
        f"Gantt: {run.unit}s by time",
        says(run, exact),
        time_axis(run),
        Axis(f"{run.unit} number"),
        shown,
        {
            "start_s": "start",
            "end_s": "end",
            "unit_first": f"first {run.unit}",
            "unit_last": f"last {run.unit}",
            "unit_w": f"mean power of one busy {run.unit}",
            "busy": "busy",
        },
        extra,
    )


def rectangles(run: Run) -> Rectangles:
    """All rectangles of jobs that ran for some time."""
    placed = run.placed
    lasted = run.ran & (run.end_s > run.start_s)
    if lasted.all():
        return Rectangles(placed.job, placed.low, placed.high)
    keep = lasted[placed.job]
    return Rectangles(placed.job[keep], placed.low[keep], placed.high[keep])


def top_users(run: Run) -> list[tuple[int, str]]:
    """Code and name of the users with most unit-seconds, most first."""
    user = run.jobs.user
    good = run.ran & (user.codes >= 0)
    if not good.any():
        return []
    held = (run.jobs.nodes * (run.end_s - run.start_s))[good]
    total = np.bincount(user.codes[good], weights=held, minlength=len(user.names))
    best = np.argsort(-total, kind="stable")[:USERS]
    return [(int(code), user.names[code]) for code in best if total[code] > 0]


def user_rank(run: Run, users: list[tuple[int, str]]) -> NDArray[np.int64]:
    """Place of each job's user in the list, from one; 0 for any other. Shape (n,)."""
    table = np.zeros(len(run.jobs.user.names) + 1, np.int64)
    for place, (code, _) in enumerate(users, 1):
        table[code] = place
    return table[run.jobs.user.codes]


def _exact(run: Run, what: Rectangles, users: list[tuple[int, str]]) -> dict[str, NDArray[np.generic]]:
    job = what.job
    return {
        "job_id": run.jobs.job_id[job],
        "start_s": run.start_s[job] - run.first_s,
        "end_s": run.end_s[job] - run.first_s,
        "unit_first": what.low,
        "unit_last": what.high,
        "unit_w": run.unit_w[job],
        "frequency_hz": run.frequency_hz[job],
        "user": user_rank(run, users)[job].astype(np.uint8),
    }


def _by_unit(run: Run, cells: Grid) -> dict[str, NDArray[np.generic]]:
    """The grid summed over time, for the table behind the picture: one row a row of the grid."""
    first = np.arange(len(cells.busy), dtype=np.int32) * cells.row_units
    busy = cells.busy.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit_w = np.nansum(cells.unit_w * cells.busy, axis=1) / busy
    return {
        "unit_first": first,
        "unit_last": np.minimum(first + cells.row_units, run.units).astype(np.int32) - 1,
        "busy": busy / cells.busy.shape[1],
        "unit_w": unit_w,
    }


def _range(values: Floats, *, trim: bool = True) -> tuple[float, float] | None:
    """Ends of a colour scale; a few outliers do not flatten it."""
    good = values[np.isfinite(values)]
    if not len(good):
        return None
    if not trim or len(good) < 100:
        return float(good.min()), float(good.max())
    row = [len(good) // 200, len(good) - 1 - len(good) // 200]
    low, high = np.partition(good, row)[row].tolist()
    return low, high


def power_scale(run: Run) -> tuple[float, float] | None:
    """Ends of the colour scale of watts; None where nobody states any, or all nodes draw the same."""
    return _several(_range(run.unit_w[run.ran]))


def _several(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    """One frequency alone is no colouring, nor are watts that differ by rounding alone."""
    return ends if ends is not None and ends[1] - ends[0] > SAME * abs(ends[1]) else None


def grid(run: Run, what: Rectangles, users: list[tuple[int, str]], rows: int = ROWS, columns: int = COLUMNS) -> Grid:
    """Exact means over cells of units by time."""
    row_units = -(-run.units // rows)
    rows = -(-run.units // row_units)
    cells = _Cells(run.first_s, (run.last_s - run.first_s) / columns, row_units, rows, columns)
    held, unit_w, hertz = _areas(run, what, user_rank(run, users), len(users) + 1, cells)
    area = held.sum(axis=0)
    # The last row may cover fewer units than the others.
    units = np.minimum(row_units, run.units - row_units * np.arange(rows))
    busy = np.clip(area / units[:, None] * row_units, 0.0, 1.0)
    area[busy < 1e-9] = np.nan
    return Grid(
        run.first_s,
        cells.column_s,
        row_units,
        busy,
        unit_w / area,
        None if hertz is None else hertz / area,
        _largest(held) if users else None,
    )


def _largest(held: Floats) -> NDArray[np.uint8]:
    """Layer with the largest area in each cell, the first of equals. Shape (rows, columns)."""
    best, layer = held[0].copy(), np.zeros(held.shape[1:], np.uint8)
    for k in range(1, len(held)):
        larger = held[k] > best
        best[larger] = held[k][larger]
        layer[larger] = k
    return layer


@dataclass(frozen=True, slots=True)
class _Cells:
    first_s: float
    column_s: float
    row_units: int
    rows: int
    columns: int

    @property
    def wide(self) -> int:
        """Columns, and two more that take the differences behind the last edge."""
        return self.columns + 2

    @property
    def size(self) -> int:
        """Differences of one plane."""
        return (self.rows + 2) * self.wide

    def summed(self, difference: Floats) -> Floats:
        """Areas from differences. Shape (planes, rows, columns)."""
        field = difference.reshape(-1, self.rows + 2, self.wide)
        np.cumsum(field, axis=1, out=field)
        np.cumsum(field, axis=2, out=field)
        return field[:, : self.rows, : self.columns]


def _areas(
    run: Run, what: Rectangles, rank: NDArray[np.int64], layers: int, cells: _Cells
) -> tuple[Floats, Floats, Floats | None]:
    """Area held by each layer of users, and watts and hertz times area, in cells."""
    held = np.zeros(layers * cells.size)
    watts = np.zeros(cells.size)
    unit_w, frequency = np.nan_to_num(run.unit_w), np.nan_to_num(run.frequency_hz)
    hertz = np.zeros(cells.size) if frequency.any() else None
    for first in range(0, len(what.job), CHUNK):
        part = slice(first, first + CHUNK)
        job = what.job[part]
        layer, power = rank[job] * cells.size, unit_w[job]
        for cell, weight in _corners(run, what, part, cells):
            np.add.at(held, layer + cell, weight)
            np.add.at(watts, cell, weight * power)
            if hertz is not None:
                np.add.at(hertz, cell, weight * frequency[job])
    return cells.summed(held), cells.summed(watts)[0], None if hertz is None else cells.summed(hertz)[0]


def _corners(run: Run, what: Rectangles, part: slice, cells: _Cells) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Differences at the corners of rectangles, in cells.

    An edge at position p adds 1 - frac(p) to the difference of its own cell and frac(p) to that of
    the next: after the running sum, cell c holds the overlap of [p, infinity) with [c, c + 1).
    """
    job = what.job[part]
    column_s, first_s = cells.column_s, cells.first_s
    x = [_split(np.clip((t[job] - first_s) / column_s, 0.0, cells.columns)) for t in (run.start_s, run.end_s)]
    y = [_split(unit / cells.row_units) for unit in (what.low[part], what.high[part] + 1)]
    for (column, beyond), sign_x in zip(x, (1.0, -1.0), strict=True):
        for (row, below), sign_y in zip(y, (1.0, -1.0), strict=True):
            cell = row * cells.wide + column
            sign = sign_x * sign_y
            yield cell, sign * (1.0 - below) * (1.0 - beyond)
            yield cell + 1, sign * (1.0 - below) * beyond
            if cells.row_units > 1:
                yield cell + cells.wide, sign * below * (1.0 - beyond)
                yield cell + cells.wide + 1, sign * below * beyond


def _split(edge: Floats) -> tuple[NDArray[np.int64], Floats]:
    cell = edge.astype(np.int64)  # edges are never negative
    return cell, edge - cell


def says(run: Run, exact: bool) -> str:
    """What is drawn, and how coarse it is."""
    ran = int(run.ran.sum())
    drawn = f"{words.count(ran, 'job')} on {words.count(run.units, run.unit)}"
    good = run.unit_w[run.ran & np.isfinite(run.unit_w)]
    coloured = power_scale(run) is not None
    watts = ""
    if len(good):
        low, high = words.watts(float(good.min())), words.watts(float(good.max()))
        watts = f" Mean power of one busy {run.unit}: {f'{low} to {high}' if coloured else high}."
    if exact:
        return f"{drawn}, a rectangle for each block of {run.unit}s that a job held.{watts}"
    column = (run.last_s - run.first_s) / COLUMNS
    rows = -(-run.units // ROWS)
    cell = f"{words.count(rows, run.unit)} for {words.span(column)}"
    return (
        f"{drawn}, as a grid: a cell covers {cell}; its strength is the share that was busy, "
        f"its colour {'the mean over it' if coloured else 'the user with most of it'}.{watts}"
    )
