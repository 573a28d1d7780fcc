"""Does an estimator use the future? Change what has not happened yet, and compare its predictions.

A replay (``parts/estimator_replay.py``) hands an estimator a table without outcomes, and ended jobs as they end. But
the table has the jobs that are submitted later, and a compiled replay of our own kind is given the whole trace.
``find_leak`` replays the trace twice, the second time with another future from some instant on
(``perturb.change_future``): predictions made up to that instant must be equal. The other axes have the same check in
``static`` (order, frequency, placement) and ``in_a_run`` (backfill, rerank, ledger, controls).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from wattqueue.checks.perturb import change_future
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator
from wattqueue.parts.estimator_replay import ReplayedPredictions, replay_estimator, step
from wattqueue.parts.timeline import Timeline, trace_timeline

CUTS = (0.3, 0.6, 0.9)
"""Quantiles of the submissions at which the future begins."""


def find_leak(
    make: Callable[[], Estimator],
    jobs: Jobs,
    machine: Machine,
    *,
    seed: int = 0,
    cuts: tuple[float, ...] = CUTS,
) -> str | None:
    """Return what an estimator used too early, in words; None if nothing was found.

    At each cut of the trace's submissions, everything that is still unknown there is changed: watts,
    run times and starts of jobs that have not ended, and all columns of jobs that are submitted later. A second
    trace ends at the cut. Predictions of jobs submitted up to the cut must stay as they were. An online estimator is
    walked in one go (its compiled replay) and step by step (its methods).
    """
    rng = np.random.default_rng(seed)
    line = trace_timeline(jobs)
    ways = [replay_estimator] if make().asked == "once" else [replay_estimator, step]
    for way in ways:
        before = way(make(), jobs, machine, line)
        for what, other, past, rows in other_futures(jobs, line, rng, cuts):
            after = way(make(), other, machine, trace_timeline(other))
            moved = _moved(before, past, after, rows)
            if moved is not None:
                return f"the prediction of row {past[moved] + 1} depends on {what}"
    return None


def other_futures(
    jobs: Jobs, line: Timeline, rng: np.random.Generator, cuts: tuple[float, ...] = CUTS
) -> Iterator[tuple[str, Jobs, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield traces that differ only after a cut of the submissions, in words what differs, and what is the same.

    The last two are the rows of the jobs submitted up to the cut: in ``jobs``, and in the other trace.
    """
    for cut in cuts if len(jobs) else ():
        now = float(np.quantile(jobs.submit_s, cut, method="lower"))
        past, where = np.flatnonzero(jobs.submit_s <= now), f"(cut at {now:g} s)"
        unknown = f"watts, run times and starts of jobs that had not ended {where}"
        yield unknown, change_future(jobs, line, now, rng), past, past
        yield f"jobs that are submitted later {where}", jobs.take(past), past, np.arange(len(past))


def _moved(
    before: ReplayedPredictions, past: NDArray[np.int64], after: ReplayedPredictions, rows: NDArray[np.int64]
) -> int | None:
    """Return the position in ``past`` of the first prediction that differs, None if all are equal.

    ``rows`` are the rows of the same jobs in the second walk. Rounding of 1e-9 is allowed: sums over other tables.
    """
    pairs = [(before.power_w, after.power_w)]
    pairs += [(before.quantiles[q], after.quantiles[q]) for q in before.quantiles]
    for old, new in pairs:
        same = np.isclose(old[past], new[rows], rtol=1e-9, atol=1e-9, equal_nan=True)
        if not same.all():
            return int(np.argmin(same))
    return None
