"""Predictions of watts: the history kernel alone, and models trained every week over nine months.

Digests of watts are taken at whole watts: the last bits of log and pow depend on the machine.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cache

import numpy as np

from bench.harness import Measured, benchmark, best_of, digest, timed
from wattqueue.kernels.history import history_replay, new_history
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.estimator._weekly import weeks
from wattqueue.parts.estimator.linear import Linear
from wattqueue.parts.estimator.submission_text import SubmissionText
from wattqueue.parts.submitted_text import SubmittedText
from wattqueue.parts.timeline import Timeline, job_watts, trace_timeline
from wattqueue.workload import marconi
from wattqueue.workload.submissions import with_texts


@cache
def nine_months() -> tuple[Jobs, Timeline, Floats]:
    """Marconi100's 523,204 generated jobs, in order of submissions and ends."""
    jobs = marconi.generate(np.random.default_rng(1), jobs=marconi.JOBS)
    return jobs, trace_timeline(jobs), job_watts(jobs, "mean")


def walked(alpha: float, window_s: float) -> Measured:
    """Predictions a second of one walk, learning included; the best of three."""
    jobs, line, watts = nine_months()
    out = np.empty((len(jobs), 3))

    def walk() -> None:
        state = new_history(np.bincount(jobs.user.codes), alpha=alpha, window_s=window_s)
        history_replay(state, line.by_submit, line.by_end, jobs.submit_s, line.end_s, jobs.user.codes, watts, out)

    walk()
    seconds, _ = best_of(3, walk)
    error = float(np.nanmean(np.abs(out[:, 0] - watts) / watts))
    return Measured(len(jobs) / seconds, digest(np.rint(out[:, 0])), {"mape_percent": 100 * error})


@benchmark("history prediction, whole history, alpha 2", unit="predictions/s", at_least=1_000_000)
def whole_history() -> Measured:
    """Paper 4's own setting."""
    return walked(2.0, math.inf)


@benchmark("history prediction, window of 30 days, alpha 2", unit="predictions/s", at_least=1_000_000)
def window() -> Measured:
    """Moments in two stacks."""
    return walked(2.0, 30 * 86_400.0)


@benchmark("history prediction, window of a day, alpha 1", unit="predictions/s", at_least=1_000_000)
def short_window() -> Measured:
    """Windows that often run empty."""
    return walked(1.0, 86_400.0)


@benchmark("linear regression, retrained 38 times over nine months", unit="s", at_most=60)
def linear() -> Measured:
    """Selection of features by 5-fold cross-validation each week; BLAS decides the last bits, so no digest."""
    jobs, line, watts = nine_months()
    seconds, found = timed(lambda: Linear().replay(jobs, line))
    error = float(np.nanmean(np.abs(found - watts) / watts))
    return Measured(seconds, None, {"mape_percent": 100 * error})


@benchmark("texts of submissions, a million jobs, retrained each week", unit="s", at_most=120)
def submission_text() -> Measured:
    """Processor time of hashing, training and predicting.

    The digest is of the hashed texts: BLAS decides the last bits of a model.
    """
    made = marconi.generate(np.random.default_rng(1), jobs=1_000_000)
    jobs = with_texts(replace(made, profiles=None), np.random.default_rng(1))
    line, watts = trace_timeline(jobs), job_watts(jobs, "mean")
    began = time.process_time()
    found = SubmissionText().replay(jobs, line)
    seconds = time.process_time() - began
    vectors = SubmittedText(KnownJobs.of(jobs)).rows(np.arange(0, len(jobs), 10_000))
    error = float(np.nanmean(np.abs(found - watts) / watts))
    return Measured(seconds, digest(vectors.indices), {"mape_percent": 100 * error, "weeks": len(weeks(jobs, line))})
