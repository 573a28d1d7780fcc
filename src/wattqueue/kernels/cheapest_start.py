"""The cheapest start of each job at given prices: the inner problem of bounds (docs/guide/bound.md).

A price holds in each interval of a grid of times. A job that starts at s pays s (or nothing for the time), what its
option costs, and for what it uses in each interval, energy at a tariff included. That sum is linear in s between the
points where s or the job's end crosses an edge of the grid, so that its least value lies at one of these, at the
release, or at the latest start.

Symbols: n jobs, m options, R resources, K intervals, B blocks of the grid. Times are ticks in float64, which is exact
for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.state import Array


@referenced
class PricedJobs(NamedTuple):
    """``first`` (n + 1,) first option of each job; ``release`` (n,) and ``latest`` (n,) start; ``run`` (m,); ``amount``
    (m, R) of each resource; ``cost`` (m,) what an option costs beside its start; ``hull`` (n + 1,) first own price of
    each job, the first one for interval ``low`` (n,); ``charged`` (m,) 1 for options that pay own prices, else 0.
    """

    first: Array
    release: Array
    latest: Array
    run: Array
    amount: Array
    cost: Array
    hull: Array
    low: Array
    charged: Array


@referenced
class PricedGrid(NamedTuple):
    """``edge`` (K + 1,) rises from 0; ``price`` (R, K) for one unit of each resource and tick; ``own`` (h,) prices of
    single jobs for being run; ``time`` (1,) what a start costs a tick; ``slope`` (K,) and ``paid`` (K + 1,) are work
    space.
    """

    edge: Array
    price: Array
    own: Array
    time: Array
    slope: Array
    paid: Array


@referenced
class Cheapest(NamedTuple):
    """``value`` (n, B), ``start`` (n, B), ``option`` (n, B): the cheapest of each block of the grid, inf for none.

    ``limit`` (n,): starts that cost as much are not needed, but for the cheapest one.
    """

    value: Array
    start: Array
    option: Array
    limit: Array


@kernel
def sum_prices(jobs: PricedJobs, grid: PricedGrid, job: int, option: int) -> None:
    """Write what an option pays for each interval (a tick, and up to its begin) into the grid's work space."""
    low = jobs.low[job]
    high = low + jobs.hull[job + 1] - jobs.hull[job]
    for k in range(len(grid.slope)):
        slope = 0.0
        for i in range(len(grid.price)):
            slope += jobs.amount[option, i] * grid.price[i, k]
        if jobs.charged[option] and low <= k < high:
            slope += grid.own[jobs.hull[job] + k - low]
        grid.slope[k] = slope
        grid.paid[k + 1] = grid.paid[k] + slope * (grid.edge[k + 1] - grid.edge[k])


@kernel
def paid_by(grid: PricedGrid, row: int, time: float) -> float:
    """Return what is paid up to a time of interval ``row``; after the last one nothing more is."""
    if row >= len(grid.slope):
        return float(grid.paid[len(grid.slope)])
    return float(grid.paid[row] + grid.slope[row] * (time - grid.edge[row]))


@kernel
def advance(grid: PricedGrid, row: int, time: float) -> int:
    """Return the interval of a time that is not before interval ``row``; K after the last edge."""
    while row < len(grid.slope) and grid.edge[row + 1] <= time:
        row += 1
    return row


@kernel
def note_start(found: Cheapest, job: int, option: int, block: int, start: float, value: float) -> None:
    """Keep a start in its block, if it is the cheapest there so far."""
    if value < found.value[job, block]:
        found.value[job, block] = value
        found.start[job, block] = start
        found.option[job, block] = option


@kernel
def least_value(found: Cheapest, job: int) -> float:
    """Return the least cost of a job so far."""
    best = np.inf
    for block in range(found.value.shape[1]):
        best = min(best, found.value[job, block])
    return float(best)


@kernel
def start_value(grid: PricedGrid, start: float, cost: float, paid: float) -> float:
    """Return what a start costs: for the time, for the option, and for what it uses."""
    return float(start * grid.time[0] + cost + paid)


@kernel
def try_edges_as_starts(jobs: PricedJobs, grid: PricedGrid, found: Cheapest, job: int, option: int) -> None:
    """Try the release, each later edge of the grid, and at last the latest start, as the start of an option."""
    intervals, blocks = len(grid.slope), found.value.shape[1]
    run, cost = jobs.run[option], jobs.cost[option]
    best = least_value(found, job)
    row = advance(grid, 0, jobs.release[job])
    other = row
    start = jobs.release[job]
    while start_value(grid, start, cost, 0.0) < max(best, found.limit[job]):
        other = advance(grid, other, start + run)
        row = advance(grid, row, start)
        value = start_value(grid, start, cost, paid_by(grid, other, start + run) - paid_by(grid, row, start))
        note_start(found, job, option, min(row * blocks // intervals, blocks - 1), start, value)
        best = min(best, value)
        if row == intervals or start == jobs.latest[job]:
            return
        start = min(grid.edge[row + 1], jobs.latest[job])


@kernel
def try_edges_as_ends(jobs: PricedJobs, grid: PricedGrid, found: Cheapest, job: int, option: int) -> None:
    """Try each edge of the grid as the end of an option that begins after the release."""
    intervals, blocks = len(grid.slope), found.value.shape[1]
    release, run, cost = jobs.release[job], jobs.run[option], jobs.cost[option]
    best = least_value(found, job)
    other = advance(grid, 0, release)
    for row in range(advance(grid, 0, release + run) + 1, intervals + 1):
        start = grid.edge[row] - run
        if start > jobs.latest[job] or start_value(grid, start, cost, 0.0) >= max(best, found.limit[job]):
            return
        other = advance(grid, other, start)
        value = start_value(grid, start, cost, grid.paid[row] - paid_by(grid, other, start))
        note_start(found, job, option, min(row * blocks // intervals, blocks - 1), start, value)
        best = min(best, value)


@entry
def cheapest_starts(jobs: PricedJobs, grid: PricedGrid, found: Cheapest) -> float:
    """Find the cheapest starts of every job; return the sum over all jobs of the least costs."""
    total = 0.0
    for job in range(len(jobs.release)):
        for block in range(found.value.shape[1]):
            found.value[job, block] = np.inf
        for option in range(jobs.first[job], jobs.first[job + 1]):
            sum_prices(jobs, grid, as_int64(job), as_int64(option))
            try_edges_as_starts(jobs, grid, found, as_int64(job), as_int64(option))
            try_edges_as_ends(jobs, grid, found, as_int64(job), as_int64(option))
        total += least_value(found, as_int64(job))
    return float(total)
