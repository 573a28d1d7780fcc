"""Run times predicted from the most similar of the jobs that ended last: k nearest neighbours by what users request.

A search through the last jobs that ended, some hundreds to thousands, of the k with the least distance: some
microseconds, so that no index is needed that would have to follow every completion.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.recent_runs import quantile_of
from wattqueue.kernels.state import Array

INF = float("inf")


@referenced
class NearestRuns(NamedTuple):
    """The last jobs that ended, and what users requested with every job.

    ``at`` (1,) the quantile of the neighbours' run times; ``apart`` (2,) distance of another user, of another
    application; ``user``, ``app`` (n,) int32, -1 unknown; ``size`` (2, n) float64 binary logarithms of units and of
    walltime; ``job`` (W,) int32 and ``seconds`` (W,) of the last jobs that ended, a ring; ``seen`` (1,) int64 jobs that
    ended; ``near``, ``near_s``, ``sorted`` (k,) working space.
    """

    at: Array
    apart: Array
    user: Array
    app: Array
    size: Array
    job: Array
    seconds: Array
    seen: Array
    near: Array
    near_s: Array
    sorted: Array


@kernel
def distance(runs: NearestRuns, one: int, other: int) -> float:
    """Return how different two jobs are: doublings of units and of walltime, another user, another application."""
    far = abs(runs.size[0, one] - runs.size[0, other]) + abs(runs.size[1, one] - runs.size[1, other])
    if runs.user[one] != runs.user[other]:
        far += runs.apart[0]
    if runs.app[one] != runs.app[other]:
        far += runs.apart[1]
    return float(far)


@kernel
def nearest_seconds(runs: NearestRuns, job: int) -> float:
    """Return the quantile of the run times of the k nearest jobs that ended, NaN while fewer than k have.

    Of equally near ones the latest count: the ring is read from the newest on.
    """
    k = len(runs.near)
    known = as_int64(min(runs.seen[0], len(runs.job)))
    if known < k:
        return math.nan
    for i in range(k):
        runs.near[i] = INF
    for back in range(known):
        at = (runs.seen[0] - 1 - back) % len(runs.job)
        far = distance(runs, job, as_int64(runs.job[at]))
        if far < runs.near[k - 1]:
            i = k - 1
            while i > 0 and runs.near[i - 1] > far:
                runs.near[i] = runs.near[i - 1]
                runs.near_s[i] = runs.near_s[i - 1]
                i -= 1
            runs.near[i] = far
            runs.near_s[i] = runs.seconds[at]
    return quantile_of(runs.near_s, as_int64(k), runs.at[0], runs.sorted)


@entry
def nearest_learn_rows(runs: NearestRuns, rows: Array, seconds: Array) -> None:
    """Add jobs that ended to the ring, in order of their ends. Shapes (k,)."""
    for i in range(len(rows)):
        at = runs.seen[0] % len(runs.job)
        runs.job[at] = rows[i]
        runs.seconds[at] = seconds[i]
        runs.seen[0] += 1


@entry
def nearest_seconds_rows(runs: NearestRuns, rows: Array, out: Array) -> None:
    """Write the predicted run times of jobs that arrive now to ``out``, NaN unknown. Shapes (k,)."""
    for i in range(len(rows)):
        out[i] = nearest_seconds(runs, as_int64(rows[i]))
