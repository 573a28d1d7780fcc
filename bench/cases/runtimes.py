"""Run times predicted online: the kernel of recent jobs alone, and whole runs of a million jobs with each part.

Runs are measured in processor time, beyond EASY by limits on the same jobs: what a part costs, its stops for Python
included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import numpy as np

from bench.harness import Measured, benchmark, digest
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import plain_machine
from wattqueue.parts.contracts import FinishedRuns
from wattqueue.parts.runtime.recent_quantile import RecentQuantile
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.workload import marconi

COUNT = 1_000_000
BLOCK = 1_000
T = TypeVar("T")


def timed_cpu(work: Callable[[], T]) -> tuple[float, T]:
    """Return the processor seconds that ``work`` takes, and what it gives."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


@cache
def million() -> Jobs:
    """A million generated jobs of Marconi100 at a load of 0.85."""
    return marconi.generate(np.random.default_rng(1), jobs=COUNT, load=0.85)


@cache
def by_limits() -> tuple[float, Run]:
    """Processor seconds of EASY by limits, and its run."""
    jobs, machine = million(), plain_machine(marconi.NODES)
    return timed_cpu(lambda: simulate(jobs, machine, load_policy("easy")))


def beyond_limits(row: str, *, exact: bool = True) -> Measured:
    """Return the processor seconds of a row beyond those of EASY by limits, with a digest of all starts.

    ``exact``: whether predictions are the same to the last bit on every machine; without it there is no digest.
    """
    jobs, machine = million(), plain_machine(marconi.NODES)
    base, _ = by_limits()
    seconds, run = timed_cpu(lambda: simulate(jobs, machine, load_policy(row)))
    wait = float((run.schedule.start_s - jobs.submit_s).mean())
    detail = {"cpu_s": seconds, "easy_cpu_s": base, "wait_s_mean": wait}
    return Measured(seconds - base, digest(run.schedule.start_s) if exact else None, detail)


@benchmark("run times of recent jobs, learned and predicted", unit="jobs/s", at_least=5_000_000)
def recent() -> Measured:
    """A million jobs by the thousand: predicted, then learned."""
    jobs, part, out = million(), RecentQuantile(), np.empty(COUNT)
    rows = np.arange(COUNT, dtype=np.int32)
    ends = jobs.submit_s + jobs.runtime_s

    def walk() -> None:
        for k in range(0, COUNT, BLOCK):
            some = rows[k : k + BLOCK]
            out[some] = part.seconds_of(some, 0.0)
            part.learn_runs(FinishedRuns(some, ends[some], jobs.runtime_s[some]))

    part.seconds(KnownJobs.of(jobs), plain_machine(1))
    walk()
    part.seconds(KnownJobs.of(jobs), plain_machine(1))
    seconds, _ = timed_cpu(walk)
    return Measured(COUNT / seconds, digest(out), {"cpu_s": seconds})


@benchmark("EASY++ of a million jobs, beyond EASY by limits", unit="s", at_most=5)
def easy_plus_plus() -> Measured:
    """Predictions, corrections and the order of tries, all in the compiled loop."""
    return beyond_limits("easy++")


@benchmark("k-NN run times of a million jobs, beyond EASY by limits", unit="s", at_most=120)
def nearest() -> Measured:
    """A search through the last 1,000 jobs at each submission."""
    return beyond_limits("easy+rt-nearest")


@benchmark("boosted run times of a million jobs, trained each week, beyond EASY by limits", unit="s", at_most=120)
def boosted() -> Measured:
    """Training some 80 times, and an ensemble asked at each submission.

    Trained models differ in their last bits from machine to machine; tests hold what the trees answer.
    """
    return beyond_limits("easy+rt-boosted", exact=False)
