"""The same workload with another future: what a part must not use is replaced, everything else stays.

All leak checks compare decisions on a workload with decisions on a perturbed copy of it. What may be known at an
instant t is what users stated at submission, for jobs submitted by t, and outcomes (run time, start, watts, energy,
exit state), for jobs that have ended by t. The functions here replace the rest:

``change_outcomes``  outcomes of given jobs, in one of several ways. Extreme ways matter: a decision that compares a run
                     time with a threshold changes only if the perturbed value lies on the other side of it.
``change_later``     everything about given jobs: those that are submitted later.
``lengthen``         run times and watts of given jobs, upwards only: such a job cannot end earlier than before, so a
                     whole run up to t stays as it was.
``change_future``    the perturbation for walks over a trace (``leak.find_leak``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.parts.timeline import Timeline

Way = Literal["shuffled", "low", "high"]
WAYS: tuple[Way, ...] = get_args(Way)
"""How outcomes are replaced: exchanged between jobs and scaled at random, all lowered, all raised."""
FACTOR = 20.0
"""Factor of the ways low and high. Sample run times span a factor of 100, so most thresholds are crossed by one."""
OUTCOMES = ("energy_j", "energy_quality", "state", "exit_code")
"""Columns of ``Jobs.extra`` that are unknown before a job has ended."""
Mask = NDArray[np.bool_]


def change_outcomes(jobs: Jobs, unknown: Mask, rng: np.random.Generator, way: Way) -> Jobs:
    """Replace run times, starts, watts, power profiles and outcome columns of some jobs.

    Args:
        jobs: The workload; it is not changed.
        unknown: Jobs whose outcomes are unknown. Shape (n,).
        rng: Source of random draws.
        way: How outcomes are replaced (``WAYS``).

    Mean and maximum watts get the same factor, so that the mean stays below the maximum. A column that is absent stays
    absent.
    """
    n = len(jobs)
    swapped = np.arange(n)
    if way == "shuffled":
        swapped[unknown] = rng.permutation(swapped[unknown])

    def scaled(column: Floats, factor: Floats) -> Floats:
        return np.where(unknown, column[swapped] * factor, column)

    time, power = _factors(n, rng, way), _factors(n, rng, way)
    return replace(
        jobs,
        runtime_s=scaled(jobs.runtime_s, time),
        mean_power_w=None if jobs.mean_power_w is None else scaled(jobs.mean_power_w, power),
        max_power_w=None if jobs.max_power_w is None else scaled(jobs.max_power_w, power),
        start_s=None if jobs.start_s is None else np.where(unknown, jobs.submit_s + 1_000.0 * time, jobs.start_s),
        profiles=None if jobs.profiles is None else jobs.profiles.take(swapped),
        extra={
            name: _outcome(column, unknown, rng, way) if name in OUTCOMES else column
            for name, column in jobs.extra.items()
        },
    )


def _factors(n: int, rng: np.random.Generator, way: Way) -> Floats:
    """Return the factor on each job's outcomes. Shape (n,)."""
    if way == "shuffled":
        return np.exp(rng.uniform(-1.5, 1.5, n))
    return np.full(n, 1.0 / FACTOR if way == "low" else FACTOR)


def _outcome(column: NDArray[np.generic], unknown: Mask, rng: np.random.Generator, way: Way) -> NDArray[np.generic]:
    """Return an outcome column with new values for unknown jobs: exchanged, or all the first or last value."""
    other = column.copy()
    if unknown.any():
        values = np.sort(column[unknown].astype(str)) if column.dtype == object else np.sort(column[unknown])
        other[unknown] = (
            rng.permutation(column[unknown])[::-1] if way == "shuffled" else values[0 if way == "low" else -1]
        )
    return other


def change_later(jobs: Jobs, later: Mask, rng: np.random.Generator) -> Jobs:
    """Replace all columns of the jobs in ``later``; they are submitted later than before. Shape (n,).

    Sizes and walltimes are drawn again, users, applications and partitions exchanged. Row numbers stay, so that
    decisions can be compared by row.
    """
    n = len(jobs)
    other = change_outcomes(jobs, later, rng, "shuffled")
    shuffled = np.arange(n)
    shuffled[later] = rng.permutation(shuffled[later])

    def labels(column: Labels) -> Labels:
        return Labels(column.codes[shuffled], column.names)

    return replace(
        other,
        submit_s=jobs.submit_s + np.where(later, rng.uniform(1.0, 5_000.0, n), 0.0),
        nodes=np.where(later, rng.integers(1, 65, n), jobs.nodes).astype(np.int32),
        walltime_s=np.where(later, jobs.walltime_s * rng.uniform(1.0, 2.0, n), jobs.walltime_s),
        user=labels(jobs.user),
        app=labels(jobs.app),
        partition=labels(jobs.partition),
    )


def lengthen(jobs: Jobs, unended: Mask, rng: np.random.Generator) -> Jobs:
    """Make the jobs in ``unended`` run longer and draw more, each by a factor of its own. Shape (n,).

    A job that outruns its walltime ends there in both workloads, which is no event before the instant either. Factors
    differ between jobs, so that an order by run time changes, and are large, so that thresholds are crossed.
    """
    time = np.where(unended, rng.uniform(1.5, 8.0, len(jobs)), 1.0)
    power = np.where(unended, rng.uniform(1.1, 2.0, len(jobs)), 1.0)
    return replace(
        jobs,
        runtime_s=jobs.runtime_s * time,
        mean_power_w=None if jobs.mean_power_w is None else jobs.mean_power_w * power,
        max_power_w=None if jobs.max_power_w is None else jobs.max_power_w * power,
        profiles=None,  # a profile says for how long a job runs
    )


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
            name: _outcome(column, running, rng, "shuffled") if name in OUTCOMES else column
            for name, column in jobs.extra.items()
        },
    )
