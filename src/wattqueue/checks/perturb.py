"""The same workload with another future: what a part must not use is replaced, everything else stays.

All leak checks compare decisions on a workload with decisions on a perturbed copy of it. What may be known at an
instant t is what users stated at submission, for jobs submitted by t, and outcomes (run time, start, watts, energy,
exit state), for jobs that have ended by t. Parts get a table without the other outcomes (``model/known_jobs.py``), so
these functions replace what such a table cannot hide: the jobs that are submitted later.

``other_requests``   what users request with given jobs, in either kind of table.
``change_later``     the same, and run times and watts: for runs that are repeated.
``lengthen``         run times and watts of given jobs, upwards only: such a job cannot end earlier than before, so a
                     whole run up to t stays as it was.
``change_future``    all of it, for walks over a trace (``leak.find_leak``): compiled replays are given the whole trace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.known_jobs import OUTCOME_COLUMNS, KnownJobs
from wattqueue.parts.timeline import Timeline

Mask = NDArray[np.bool_]
Table = TypeVar("Table", Jobs, KnownJobs)


def other_requests(jobs: Table, later: Mask, rng: np.random.Generator) -> Table:
    """Replace what users request with the jobs in ``later``; they are submitted later than before. Shape (n,).

    Sizes and walltimes are drawn again, users, applications and partitions exchanged. Row numbers stay, so that
    decisions can be compared by row.
    """
    n = len(jobs)
    shuffled = np.arange(n)
    shuffled[later] = rng.permutation(shuffled[later])

    def labels(column: Labels) -> Labels:
        return Labels(column.codes[shuffled], column.names)

    return replace(
        jobs,
        submit_s=jobs.submit_s + np.where(later, rng.uniform(1.0, 5_000.0, n), 0.0),
        nodes=np.where(later, rng.integers(1, 65, n), jobs.nodes).astype(np.int32),
        walltime_s=np.where(later, jobs.walltime_s * rng.uniform(1.0, 2.0, n), jobs.walltime_s),
        user=labels(jobs.user),
        app=labels(jobs.app),
        partition=labels(jobs.partition),
    )


def change_later(jobs: Jobs, later: Mask, rng: np.random.Generator) -> Jobs:
    """Replace requests, run times and watts of the jobs in ``later``; other outcomes and columns stay. Shape (n,)."""
    n = len(jobs)
    time, power = (np.where(later, np.exp(rng.uniform(-1.5, 1.5, n)), 1.0) for _ in range(2))
    return scaled(other_requests(jobs, later, rng), time, power)


def scaled(jobs: Jobs, time: Floats, power: Floats) -> Jobs:
    """Return the jobs with run times and watts multiplied, and without profiles (which say how long a job runs)."""
    return replace(
        jobs,
        runtime_s=jobs.runtime_s * time,
        mean_power_w=None if jobs.mean_power_w is None else jobs.mean_power_w * power,
        max_power_w=None if jobs.max_power_w is None else jobs.max_power_w * power,
        profiles=None,
    )


def lengthen(jobs: Jobs, unended: Mask, rng: np.random.Generator, metered: Mask | None = None) -> Jobs:
    """Make the jobs in ``unended`` run longer and draw more, each by a factor of its own. Shape (n,).

    Those in ``metered`` draw the same: what a power sensor shows of a running job may be known.

    A job that outruns its walltime ends there in both workloads, which is no event before the instant either. Factors
    differ between jobs, so that an order by run time changes, and are large, so that thresholds are crossed.
    """
    time = np.where(unended, rng.uniform(1.5, 8.0, len(jobs)), 1.0)
    power = np.where(unended, rng.uniform(1.1, 2.0, len(jobs)), 1.0)
    return scaled(jobs, time, power if metered is None else np.where(metered, 1.0, power))


def _exchanged(column: NDArray[np.generic], unknown: Mask, rng: np.random.Generator) -> NDArray[np.generic]:
    """Return an outcome column in which unknown jobs have exchanged their values."""
    other = column.copy()
    other[unknown] = rng.permutation(column[unknown])[::-1]
    return other


def change_future(jobs: Jobs, line: Timeline, now: float, rng: np.random.Generator) -> Jobs:
    """Return the trace as it is known at ``now``, with another future. ``line`` has the ends of the jobs.

    Jobs that run at ``now`` are lengthened, never shortened: a walk derives ends from run times, and an end before
    ``now`` would belong to the past.
    """
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
            name: _exchanged(column, running, rng) if name in OUTCOME_COLUMNS else column
            for name, column in jobs.extra.items()
        },
    )
