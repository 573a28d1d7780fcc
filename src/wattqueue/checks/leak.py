"""Does an estimator know the future? Change what has not happened yet, and see whether its answers change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator
from wattqueue.parts.timeline import Timeline, trace_timeline
from wattqueue.parts.walk import Walked, step, walk

CUTS = (0.3, 0.6, 0.9)
OUTCOMES = ("energy_j", "energy_quality", "state", "exit_code")
"""Columns of ``Jobs.extra`` that nobody knows before a job has ended."""


def find_leak(
    make: Callable[[], Estimator],
    jobs: Jobs,
    machine: Machine,
    *,
    seed: int = 0,
    cuts: tuple[float, ...] = CUTS,
) -> str | None:
    """What an estimator knew too early, in words; None where nothing was found.

    At each cut of the trace's submissions, everything that is still unknown there is changed: watts,
    run times and starts of jobs that have not ended, and all of the jobs that come later. A second
    trace ends at the cut. Predictions of jobs submitted up to the cut must stay as they were.
    """
    rng = np.random.default_rng(seed)
    line = trace_timeline(jobs)
    ways = [walk] if make().asked == "once" else [walk, step]
    for way in ways:
        before = way(make(), jobs, machine, line)
        for cut in cuts if len(jobs) else ():
            now = float(np.quantile(jobs.submit_s, cut, method="lower"))
            past = np.flatnonzero(jobs.submit_s <= now)
            for what, other, rows in (
                ("watts, run times and starts of jobs that had not ended", change_future(jobs, line, now, rng), past),
                ("the jobs of later", jobs.take(past), np.arange(len(past))),
            ):
                after = way(make(), other, machine, trace_timeline(other))
                moved = _moved(before, past, after, rows)
                if moved is not None:
                    return f"the prediction of row {past[moved] + 1} hangs on {what} (cut at {now:g} s)"
    return None


def change_future(jobs: Jobs, line: Timeline, now: float, rng: np.random.Generator) -> Jobs:
    """The same trace as far as it is known at ``now``; everything else is another."""
    n = len(jobs)
    later = jobs.submit_s > now
    running = line.end_s > now
    started = np.zeros(n, np.bool_) if jobs.start_s is None else jobs.start_s <= now
    stretch = np.where(running, rng.uniform(1.0, 3.0, n), 1.0)
    delay = np.where(later, rng.uniform(1.0, 5_000.0, n), 0.0)
    shuffled = np.arange(n)
    shuffled[later] = rng.permutation(shuffled[later])

    def watts(column: Floats | None) -> Floats | None:
        return None if column is None else np.where(running, column * rng.uniform(0.3, 3.0, n), column)

    def labels(column: Labels) -> Labels:
        return Labels(column.codes[shuffled], column.names)

    return replace(
        jobs,
        submit_s=jobs.submit_s + delay,
        nodes=np.where(later, rng.integers(1, 65, n), jobs.nodes).astype(np.int32),
        walltime_s=np.where(later, jobs.walltime_s * rng.uniform(1.0, 2.0, n), jobs.walltime_s),
        runtime_s=jobs.runtime_s * stretch,
        user=labels(jobs.user),
        app=labels(jobs.app),
        mean_power_w=watts(jobs.mean_power_w),
        max_power_w=watts(jobs.max_power_w),
        start_s=None if jobs.start_s is None else np.where(started, jobs.start_s, jobs.start_s + delay + 1_000.0),
        extra={
            name: _outcome(column, running, rng) if name in OUTCOMES else column for name, column in jobs.extra.items()
        },
    )


def _outcome(column: NDArray[np.generic], running: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.generic]:
    """Outcomes of jobs that have not ended, drawn anew from the column itself."""
    other = column.copy()
    other[running] = rng.permutation(column[running])[::-1]
    return other


def _moved(before: Walked, past: NDArray[np.int64], after: Walked, rows: NDArray[np.int64]) -> int | None:
    """Place in ``past`` of the first prediction that is not what it was; None for none."""
    pairs = [(before.power_w, after.power_w)]
    pairs += [(before.quantiles[q], after.quantiles[q]) for q in before.quantiles]
    for old, new in pairs:
        same = np.isclose(old[past], new[rows], rtol=1e-9, atol=1e-9, equal_nan=True)
        if not same.all():
            return int(np.argmin(same))
    return None
