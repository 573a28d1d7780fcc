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
    # A quantity that is nowhere known has no plane.
    unit_w, frequency = np.nan_to_num(run.unit_w), np.nan_to_num(run.frequency_hz)
    known = [values for values in (unit_w, frequency) if values.any()]
    area, user, more = _summed(_differences(run, what, users, known, cells), len(users) + 1, cells)
    watts = more[0] if unit_w.any() else np.zeros_like(area)
    # The last row may cover fewer units than the others.
    units = np.minimum(row_units, run.units - row_units * np.arange(rows))
    busy = np.clip(area / units[:, None] * row_units, 0.0, 1.0)
    area[busy < 1e-9] = np.nan
    return Grid(
        run.first_s,
        cells.column_s,
        row_units,
        busy,
        watts / area,
        more[-1] / area if frequency.any() else None,
        user if users else None,
    )


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


def _differences(
    run: RunData, what: Rectangles, users: list[tuple[int, str]], known: list[Floats], cells: _Cells
) -> Floats:
    """Return the difference arrays of areas. Shape (rows + 2, planes, stride).

    The planes are the area held by each layer of users (0 for any other), then the area times each quantity of jobs
    in ``known`` (shapes (n,)). Rectangles are taken in chunks (``CHUNK``) so that temporary arrays stay in the cache.
    """
    layers = len(users) + 1
    planes = layers + len(known)
    difference = np.zeros((cells.rows + 2) * planes * cells.stride)
    layer = user_rank(run, users) * cells.stride
    edges = _edges(run, cells)
    for first in range(0, len(what.job), CHUNK):
        part = slice(first, first + CHUNK)
        job = what.job[part]
        own, factors = layer[job], [values[job] for values in known]
        for cell, weight in _corners(what, part, edges, cells, planes):
            np.add.at(difference, cell + own, weight)
            for plane, factor in enumerate(factors, layers):
                np.add.at(difference, cell + plane * cells.stride, weight * factor)
    return difference.reshape(cells.rows + 2, planes, cells.stride)


def _summed(difference: Floats, layers: int, cells: _Cells) -> tuple[Floats, NDArray[np.uint8], Floats]:
    """Return the area, the layer with the largest part of it (the first of equals), and the further planes.

    Shapes (rows, columns), twice, and (planes - layers, rows, columns). All planes of one row are summed while they
    are in the cache.
    """
    shape = cells.rows, cells.columns
    area, largest = np.empty(shape), np.empty(shape, np.uint8)
    more = np.empty((difference.shape[1] - layers, *shape))
    above = np.zeros(difference.shape[1:])
    for row in range(cells.rows):
        above += difference[row]
        sums = np.cumsum(above[:, : cells.columns], axis=1)
        np.sum(sums[:layers], axis=0, out=area[row])
        largest[row] = sums[:layers].argmax(axis=0)
        more[:, row] = sums[layers:]
    return area, largest, more


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Where each job starts, or ends, in columns. Shapes (n,).

    Attributes:
        column: The column that the edge is in.
        near: Weight of its difference: the share of the column behind the edge, negative for ends.
        far: Weight of the next column's difference.
    """

    column: NDArray[np.int64]
    near: Floats
    far: Floats


def _edges(run: RunData, cells: _Cells) -> list[_Edges]:
    """Return the starts and the ends of all jobs.

    An edge at position p adds 1 - frac(p) to the difference of its own cell and frac(p) to that of the next: after
    the running sum, cell c holds the overlap of [p, infinity) with [c, c + 1).
    """
    found = []
    for time_s, sign in ((run.start_s, 1.0), (run.end_s, -1.0)):
        # A job that never ran has no times; no rectangle refers to it.
        position = np.nan_to_num((time_s - cells.first_s) / cells.column_s)
        column, beyond = _split(np.clip(position, 0.0, cells.columns))
        found.append(_Edges(column, sign * (1.0 - beyond), sign * beyond))
    return found


def _corners(
    what: Rectangles, part: slice, edges: list[_Edges], cells: _Cells, planes: int
) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield (cell of the first plane, weight) differences at the corners of rectangles, in units of cells."""
    job = what.job[part]
    line = planes * cells.stride
    for edge in edges:
        column, near, far = edge.column[job], edge.near[job], edge.far[job]
        for unit, sign in ((what.low[part], 1.0), (what.high[part] + 1, -1.0)):
            if cells.row_units == 1:  # edges of rectangles are edges of rows
                cell = unit * np.int64(line) + column
                yield cell, sign * near
                yield cell + 1, sign * far
                continue
            row, below = _split(unit / cells.row_units)
            cell = row * line + column
            yield cell, sign * (1.0 - below) * near
            yield cell + 1, sign * (1.0 - below) * far
            yield cell + line, sign * below * near
            yield cell + line + 1, sign * below * far


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
