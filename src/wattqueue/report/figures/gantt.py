"""The Gantt chart: units over time. Few jobs are drawn one by one; many become a grid of units by time.

A cell of the grid covers some units for some time. Its values are exact: the share of it that was busy, the mean
watts and frequency of its busy part, and the user who held most of it. The integrals come from differences at the
four corners of each job's rectangles and one running sum per direction (a two-dimensional difference array), so the
cost is proportional to rectangles plus cells, not to the cells that each rectangle covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Ints
from wattqueue.report import words
from wattqueue.report.figure import Axis, Figure, span_of_time, time_axis
from wattqueue.report.run import RunData

# Up to these sizes every job is drawn as a rectangle, above them the grid is drawn.
EXACT_JOBS = 10_000
EXACT_RECTANGLES = 40_000
ZOOM_RECTANGLES = 150_000
"""Up to this number the page also holds single jobs, which it draws when few of them are in view."""
# Cells of the grid: about one pixel each on a wide screen.
COLUMNS = 1_200
ROWS = 512
USERS = 7  # users with a colour of their own; the others share one
SAME = 1e-6
"""Watts that differ by a smaller share than this are equal: the difference is rounding."""
LEVELS = 32  # steps of each colour scale in the encoded grid; must fit a byte
CHUNK = 1 << 16
"""Rectangles processed at once, so that temporary arrays stay in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Rectangles:
    """Job ``job[k]`` (a row of the job table) held units ``low[k]..high[k]``, both included, while it ran.

    Shapes (m,).
    """

    job: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells of units by time. Shapes (rows, columns).

    Attributes:
        first_s: Left edge on the trace's clock.
        column_s: Seconds per column.
        row_units: Units per row; the last row may cover fewer.
        busy: Share of the cell that was busy, 0..1.
        unit_w: Mean watts of one unit over the busy part, NaN where idle.
        frequency_hz: Mean frequency over the busy part, NaN where idle; None where no frequency is stated.
        user: Index in the list of top users plus one, 0 for any other; None where no user is known.
    """

    first_s: float
    column_s: float
    row_units: int
    busy: Floats
    unit_w: Floats
    frequency_hz: Floats | None
    user: NDArray[np.uint8] | None


def figure(run: RunData) -> Figure:
    """Return who held which units when, with the values for colouring by power, user or frequency.

    Up to ``EXACT_JOBS`` jobs the columns are single rectangles; above that ``extra["grid"]`` holds the cells, the
    columns are sums over time for the table, and ``extra["jobs"]`` holds single rectangles up to ``ZOOM_RECTANGLES``
    for zooming in.
    """
    users = top_users(run)
    what = rectangles(run)
    exact = len(run.jobs) <= EXACT_JOBS and len(what.job) <= EXACT_RECTANGLES
    extra: dict[str, object] = {
        **span_of_time(run),
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
        if len(what.job) <= ZOOM_RECTANGLES:  # single jobs appear when a reader zooms in
            extra["jobs"] = _exact(run, what, users)
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


def rectangles(run: RunData) -> Rectangles:
    """Return all rectangles of jobs that ran for some time."""
    placed = run.placed
    lasted = run.ran & (run.end_s > run.start_s)
    if lasted.all():
        return Rectangles(placed.job, placed.low, placed.high)
    keep = lasted[placed.job]
    return Rectangles(placed.job[keep], placed.low[keep], placed.high[keep])


def top_users(run: RunData) -> list[tuple[int, str]]:
    """Return code and name of the users with most unit-seconds, at most USERS, most first."""
    user = run.jobs.user
    good = run.ran & (user.codes >= 0)
    if not good.any():
        return []
    held = (run.jobs.nodes * (run.end_s - run.start_s))[good]
    total = np.bincount(user.codes[good], weights=held, minlength=len(user.names))
    best = np.argsort(-total, kind="stable")[:USERS]
    return [(int(code), user.names[code]) for code in best if total[code] > 0]


def user_rank(run: RunData, users: list[tuple[int, str]]) -> NDArray[np.int64]:
    """Return the index of each job's user in the list, from one; 0 for any other. Shape (n,)."""
    table = np.zeros(len(run.jobs.user.names) + 1, np.int64)
    for place, (code, _) in enumerate(users, 1):
        table[code] = place
    # Code -1 (no user) reads the last element, which stays 0.
    return table[run.jobs.user.codes]


def _exact(run: RunData, what: Rectangles, users: list[tuple[int, str]]) -> dict[str, NDArray[np.generic]]:
    """Return the columns of single rectangles, one row per block of units that a job held.

    ``job_id``, ``start_s`` and ``end_s`` (since the first submission), ``unit_first`` and ``unit_last``, ``unit_w``,
    ``frequency_hz``, and ``user``: index in the list of top users from 1, 0 for any other.
    """
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


def _by_unit(run: RunData, cells: Grid) -> dict[str, NDArray[np.generic]]:
    """Return the grid summed over time, one row per row of the grid, for the table below the figure."""
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
    """Return the ends of a colour scale, None without values; ``trim`` leaves out half a percent at each end."""
    good = values[np.isfinite(values)]
    if not len(good):
        return None
    if not trim or len(good) < 100:
        return float(good.min()), float(good.max())
    # Half a percent at each end is trimmed by rank: partition is cheaper than a quantile of all values.
    row = [len(good) // 200, len(good) - 1 - len(good) // 200]
    low, high = np.partition(good, row)[row].tolist()
    return low, high


def power_scale(run: RunData) -> tuple[float, float] | None:
    """Return the ends of the colour scale of watts; None where no watts are known, or all units draw the same."""
    return _several(_range(run.unit_w[run.ran]))


def _several(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return ``ends`` unless they are equal up to rounding: one value needs no colour scale."""
    return ends if ends is not None and ends[1] - ends[0] > SAME * abs(ends[1]) else None


def grid(
    run: RunData, what: Rectangles, users: list[tuple[int, str]], rows: int = ROWS, columns: int = COLUMNS
) -> Grid:
    """Return exact means over cells of units by time.

    Rows have ``row_units`` units each, so that at most ``rows`` rows are needed; columns divide the run into equal
    times. Memory is (USERS + 3) planes of rows x columns float64, independent of the number of jobs.
    """
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
    """Return the layer with the largest area in each cell, the first of equals. Shape (rows, columns)."""
    best, layer = held[0].copy(), np.zeros(held.shape[1:], np.uint8)
    for k in range(1, len(held)):
        larger = held[k] > best
        best[larger] = held[k][larger]
        layer[larger] = k
    return layer


@dataclass(frozen=True, slots=True)
class _Cells:
    """Geometry of the grid."""

    first_s: float
    column_s: float
    row_units: int
    rows: int
    columns: int

    @property
    def stride(self) -> int:
        """Return the columns of the difference array: two more, for the differences behind the last edge."""
        return self.columns + 2

    @property
    def size(self) -> int:
        """Return the number of differences of one plane."""
        return (self.rows + 2) * self.stride

    def summed(self, difference: Floats) -> Floats:
        """Return areas from differences. Shape (planes, rows, columns)."""
        field = difference.reshape(-1, self.rows + 2, self.stride)
        np.cumsum(field, axis=1, out=field)
        np.cumsum(field, axis=2, out=field)
        return field[:, : self.rows, : self.columns]


def _areas(
    run: RunData, what: Rectangles, rank: NDArray[np.int64], layers: int, cells: _Cells
) -> tuple[Floats, Floats, Floats | None]:
    """Return the area held by each layer of users, and watts and hertz times area, in cells.

    Rectangles are taken in chunks (``CHUNK``) so that temporary arrays stay in the cache.
    """
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


def _corners(run: RunData, what: Rectangles, part: slice, cells: _Cells) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield (cell, weight) differences at the corners of rectangles, in units of cells.

    An edge at position p adds 1 - frac(p) to the difference of its own cell and frac(p) to that of the next: after
    the running sum, cell c holds the overlap of [p, infinity) with [c, c + 1).
    """
    job = what.job[part]
    column_s, first_s = cells.column_s, cells.first_s
    x = [_split(np.clip((t[job] - first_s) / column_s, 0.0, cells.columns)) for t in (run.start_s, run.end_s)]
    y = [_split(unit / cells.row_units) for unit in (what.low[part], what.high[part] + 1)]
    for (column, beyond), sign_x in zip(x, (1.0, -1.0), strict=True):
        for (row, below), sign_y in zip(y, (1.0, -1.0), strict=True):
            cell = row * cells.stride + column
            sign = sign_x * sign_y
            yield cell, sign * (1.0 - below) * (1.0 - beyond)
            yield cell + 1, sign * (1.0 - below) * beyond
            if cells.row_units > 1:
                yield cell + cells.stride, sign * below * (1.0 - beyond)
                yield cell + cells.stride + 1, sign * below * beyond


def _split(edge: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the whole cell and the fraction of each position."""
    cell = edge.astype(np.int64)  # edges are never negative
    return cell, edge - cell


def says(run: RunData, exact: bool) -> str:
    """Return what is drawn, and how coarse it is."""
    ran = int(run.ran.sum())
    drawn = f"{words.count(ran, 'job')} on {words.count(run.units, run.unit)}"
    good = run.unit_w[run.ran & np.isfinite(run.unit_w)]
    coloured = power_scale(run) is not None
    watts = ""
    if len(good):
        low, high = words.watts(float(good.min())), words.watts(float(good.max()))
        watts = f" Mean power of one busy {run.unit}: {f'{low} to {high}' if coloured else high}."
    if exact:
        return f"{drawn}, one rectangle per block of {run.unit}s that a job held.{watts}"
    column = (run.last_s - run.first_s) / COLUMNS
    rows = -(-run.units // ROWS)
    cell = f"{words.count(rows, run.unit)} for {words.span(column)}"
    zoom = " Zoom in for single jobs." if len(rectangles(run).job) <= ZOOM_RECTANGLES else ""
    return (
        f"{drawn}, as a grid: a cell covers {cell}; opacity = share of time busy, "
        f"colour = {'mean over the cell' if coloured else 'the user with the largest share of it'}.{watts}{zoom}"
    )
