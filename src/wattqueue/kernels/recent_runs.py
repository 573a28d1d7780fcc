"""Run times predicted from the latest jobs that are alike: the mean or a quantile of the last few, in O(1) a job.

Jobs are alike at several *levels*, the narrowest first: say those of the same user with the same requested time, then
all of the user. Each group keeps the run times of its last jobs in a ring; the first level whose group has enough of
them answers. The compiled loop predicts at arrivals and learns at completions; a part that is called through Python
(``parts/recent_runs.py``) uses the same kernels.

Reference: Tsafrir, Etsion and Feitelson, Backfilling using system-generated predictions rather than user runtime
estimates, IEEE TPDS 18(6), 2007: the mean of the user's last two jobs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wattqueue.kernels._numba import as_int64, entry, kernel, referenced, separate
from wattqueue.kernels.state import Array, KernelView, Log

# Slots of RecentRuns.rule.
PREDICTS = 0
MEAN = 1  # the mean of the ring, not a quantile
FEWEST = 2  # run times that a group needs to answer
RECENT_SLOTS = 3

LEAST_S = 1.0
"""A planned time is at least a second, or the walltime where that is shorter: schedulers plan in seconds."""


@referenced
class RecentRuns(NamedTuple):
    """The last run times of each group of jobs that are alike.

    ``rule`` (3,) int64 (see the constants); ``at`` (1,) the quantile; ``group`` (L, n) int32 group of each job at each
    level, -1 for none; ``ring`` (G, K) float64 its last K run times in seconds at reference speed, and ``ordered``
    (G, K) the same from the least on; ``seen`` (G,) int64 how many there were. ``rule[PREDICTS]`` 0: nothing is
    predicted, all else is empty.
    """

    rule: Array
    at: Array
    group: Array
    ring: Array
    ordered: Array
    seen: Array


def no_recent_runs() -> RecentRuns:
    """Return what predicts nothing."""
    nothing = np.zeros(0)
    return RecentRuns(
        np.zeros(RECENT_SLOTS, np.int64), nothing, np.zeros((0, 0), np.int32), np.zeros((0, 0)),
        np.zeros((0, 0)), np.zeros(0, np.int64),
    )  # fmt: skip


@kernel
def recent_learn(runs: RecentRuns, job: int, seconds: float) -> None:
    """Add the run time of a job that ended to its group at every level."""
    for level in range(runs.group.shape[0]):
        group = as_int64(runs.group[level, job])
        if group >= 0:
            at = runs.seen[group] % runs.ring.shape[1]
            keep_sorted(runs, group, runs.ring[group, at], seconds)
            runs.ring[group, at] = seconds
            runs.seen[group] += 1


@kernel
def keep_sorted(runs: RecentRuns, group: int, old: float, new: float) -> None:
    """Put a run time into the sorted ring of a group, in place of the oldest one where it is full."""
    row, last = runs.ordered, runs.ring.shape[1] - 1
    i = as_int64(min(runs.seen[group], last))
    if runs.seen[group] > last:
        while row[group, i] != old:
            i -= 1
    last = min(runs.seen[group], last)
    while i > 0 and row[group, i - 1] > new:
        row[group, i] = row[group, i - 1]
        i -= 1
    while i < last and row[group, i + 1] < new:
        row[group, i] = row[group, i + 1]
        i += 1
    row[group, i] = new


@kernel
def recent_seconds(runs: RecentRuns, job: int) -> float:
    """Return the predicted run time of a job in seconds, NaN where no group has enough run times."""
    for level in range(runs.group.shape[0]):
        group = as_int64(runs.group[level, job])
        if group >= 0 and runs.seen[group] >= runs.rule[FEWEST]:
            count = as_int64(min(runs.seen[group], runs.ring.shape[1]))
            if runs.rule[MEAN] != 0:
                return ring_mean(runs, group, count)
            return quantile_in(runs.ordered[group], count, runs.at[0])
    return math.nan


@kernel
def ring_mean(runs: RecentRuns, group: int, count: int) -> float:
    """Return the mean of the run times in a ring."""
    total = 0.0
    for k in range(count):
        total += runs.ring[group, k]
    return total / count


@kernel
def quantile_of(values: Array, count: int, at: float, out: Array) -> float:
    """Return a quantile of the first ``count`` values, linear between them; ``out`` is working space.

    The values are few: sorted by insertion.
    """
    for k in range(count):
        value = values[k]
        i = k
        while i > 0 and out[i - 1] > value:
            out[i] = out[i - 1]
            i -= 1
        out[i] = value
    return quantile_in(out, count, at)


@kernel
def quantile_in(rising: Array, count: int, at: float) -> float:
    """Return a quantile of the first ``count`` values, which rise, linear between them."""
    place = at * (count - 1)
    low = int(place)
    high = min(low + 1, count - 1)
    return float(rising[low] + (rising[high] - rising[low]) * (place - low))


@entry
def recent_learn_rows(runs: RecentRuns, rows: Array, seconds: Array) -> None:
    """Learn the run times of jobs in order of their ends. Shapes (k,)."""
    for i in range(len(rows)):
        recent_learn(runs, as_int64(rows[i]), seconds[i])


@entry
def recent_seconds_rows(runs: RecentRuns, rows: Array, out: Array) -> None:
    """Write the predicted run times of jobs that arrive now to ``out``, NaN unknown. Shapes (k,)."""
    for i in range(len(rows)):
        out[i] = recent_seconds(runs, as_int64(rows[i]))


@kernel
def usable_s(seconds: float, limit: float) -> float:
    """Return a planned time: a prediction within its bounds, or the walltime where nothing is known."""
    if math.isnan(seconds):
        return limit
    return min(limit, max(LEAST_S, seconds))


@separate
def plan_from_recent(view: KernelView, runs: RecentRuns, job: int) -> None:
    """Write the planned time of a job that arrives now."""
    view.planned.seconds[job] = usable_s(recent_seconds(runs, job), float(view.walltime[job]))


@separate
def learn_run(view: KernelView, log: Log, runs: RecentRuns, job: int) -> None:
    """Learn the run time of a job that ended now, in seconds at the speed that plans take for the reference."""
    recent_learn(runs, job, (log.end[job] - log.start[job]) / view.held.factor[job] + log.checkpointed_s[job])


@entry
def set_planned(view: KernelView, rows: Array, seconds: Array) -> None:
    """Write the planned times of jobs that arrive now, for parts in Python. Shapes (k,)."""
    for i in range(len(rows)):
        view.planned.seconds[rows[i]] = usable_s(seconds[i], float(view.walltime[rows[i]]))
