"""Estimators that learn: asking job by job equals the walk in one go, and nothing is known too early."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.parts.contracts import Finished, Floats, OnlineEstimator
from wattqueue.parts.estimator.app_mean import AppMean
from wattqueue.parts.estimator.history_max import HistoryMax
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator.history_quantile import HistoryQuantile
from wattqueue.parts.estimator.last_job import LastJob
from wattqueue.parts.estimator.profiled import Profiled
from wattqueue.parts.estimator.user_figure import UserFigure
from wattqueue.parts.online import OnlineBase
from wattqueue.parts.timeline import trace_timeline

MACHINE = plain_machine(64, idle_w=200.0, max_w=2100.0)
MAKERS: list[Callable[[], OnlineBase]] = [
    HistoryMean,
    HistoryMax,
    LastJob,
    Profiled,
    AppMean,
    HistoryQuantile,
    lambda: HistoryMean(alpha=1.0, window_s=5_000.0),
    lambda: HistoryMean(alpha=0.5, window_s=5_000.0),
    lambda: LastJob(target="max"),
    lambda: Profiled(target="max"),
]


def random_jobs(n: int = 300, seed: int = 1) -> Jobs:
    rng = np.random.default_rng(seed)
    mean = rng.uniform(250.0, 1500.0, n)
    mean[rng.random(n) < 0.1] = np.nan
    mean[rng.random(n) < 0.05] = 0.0
    peak = np.where(rng.random(n) < 0.2, np.nan, mean * 1.3)
    return Jobs.build(
        np.round(rng.uniform(0.0, 20_000.0, n)),
        rng.integers(1, 9, n),
        np.round(rng.exponential(600.0, n)) + 1.0,
        user=[f"u{k}" if k else "" for k in rng.integers(0, 7, n)],
        app=[f"a{k}" if k else "" for k in rng.integers(0, 3, n)],
        mean_power_w=mean,
        max_power_w=peak,
    )


def step_by_step(part: OnlineEstimator, jobs: Jobs) -> Floats:
    line = trace_timeline(jobs)
    part.predict(KnownJobs.of(jobs), MACHINE)
    got = np.full(len(jobs), np.nan)
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    taught = 0
    for row in line.by_submit:
        now = float(jobs.submit_s[row])
        until = taught + int(np.searchsorted(line.end_s[line.by_end[taught:]], now, side="right"))
        done = line.by_end[taught:until].astype(np.int32)
        part.learn(Finished(done, line.end_s[done], jobs.mean_power_w[done], jobs.max_power_w[done]))
        taught = until
        got[row] = part.predict_rows(np.array([row], np.int32), now)[0, 0]
    return got


@pytest.mark.parametrize("make", MAKERS)
def test_asking_job_by_job_equals_the_walk_in_one_go(make: Callable[[], OnlineBase]) -> None:
    jobs = random_jobs()
    walked = make().replay(jobs, trace_timeline(jobs))
    stepped = step_by_step(make(), jobs)
    np.testing.assert_allclose(np.where(np.isnan(walked), 2100.0, walked), stepped, rtol=1e-12)
    assert 0 < np.isnan(walked).sum() < len(jobs)


@pytest.mark.parametrize("make", MAKERS)
def test_a_part_survives_pickling_in_the_middle(make: Callable[[], OnlineBase]) -> None:
    jobs = random_jobs()
    part = make()
    step_by_step(part, jobs)
    rows = np.arange(20, dtype=np.int32)
    twin = pickle.loads(pickle.dumps(part))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(twin.predict_rows(rows, 1e6), part.predict_rows(rows, 1e6))


def test_predict_starts_afresh() -> None:
    jobs = random_jobs()
    part = HistoryMean()
    first = step_by_step(part, jobs)
    np.testing.assert_array_equal(step_by_step(part, jobs), first)


def test_ends_of_the_trace_are_known_before_the_run() -> None:
    jobs = random_jobs()
    part = HistoryMean(completions="trace")
    assert part.asked == "once"
    static = part.predict(KnownJobs.of(jobs, oracle=True), MACHINE)
    assert static.row is None
    np.testing.assert_allclose(static.power_w[:, 0], step_by_step(HistoryMean(), jobs), rtol=1e-12)


def test_watts_spread_over_the_options_of_the_machine() -> None:
    machine = Machine("m", (Partition("p", 4, frequencies_hz=(2e9, 1e9), idle_w=100.0, max_w=500.0),))
    jobs = Jobs.build([0, 50], [1, 1], [10, 10], user=["a", "a"], mean_power_w=[300.0, 400.0])
    part = HistoryMean()
    np.testing.assert_allclose(part.predict(KnownJobs.of(jobs), machine).power_w, [[500.0, 200.0]])
    row = np.array([1], np.int32)
    np.testing.assert_allclose(part.predict_rows(row, 5.0), [[500.0, 200.0]])
    part.learn(Finished(np.array([0], np.int32), np.array([10.0]), np.array([300.0]), np.array([np.nan])))
    np.testing.assert_allclose(part.predict_rows(row, 50.0), [[300.0, 150.0]])


def test_the_profile_is_the_first_run_of_the_application() -> None:
    jobs = Jobs.build(
        [0, 5, 20, 40, 40],
        [1] * 5,
        [10, 5, 5, 5, 5],
        user=["a"] * 5,
        app=["x", "x", "x", "x", "y"],
        mean_power_w=[300.0, 500.0, 700.0, 1.0, 1.0],
    )
    got = Profiled().replay(jobs, trace_timeline(jobs))
    # Rows 0 and 1 end together at 10 s: the first in the trace is the profile.
    np.testing.assert_array_equal(got, [np.nan, np.nan, 300.0, 300.0, np.nan])


def test_a_start_before_the_submission_does_not_let_a_job_know_itself() -> None:
    jobs = Jobs.build([100.0], [1], [10.0], user=["a"], mean_power_w=[300.0], start_s=[0.0])
    line = trace_timeline(jobs)
    assert line.early_starts == 1
    assert line.end_s[0] == 110.0
    assert np.isnan(HistoryMean().replay(jobs, line)[0])


def test_time_that_runs_backwards_is_refused_in_words() -> None:
    part = HistoryMean()
    jobs = random_jobs()
    part.predict(KnownJobs.of(jobs), MACHINE)
    watts = np.array([300.0])
    part.learn(Finished(np.array([0], np.int32), np.array([50.0]), watts, watts))
    with pytest.raises(InputError) as caught:
        part.learn(Finished(np.array([1], np.int32), np.array([40.0]), watts, watts))
    assert caught.value.where == "HistoryMean"
    assert "40.0 s" in caught.value.what
    assert "50.0 s" in caught.value.what


@pytest.mark.parametrize("bad", [{"alpha": -1.0}, {"window_s": 0.0}, {"completions": "mine"}])
def test_options_out_of_range_are_refused_by_name(bad: dict[str, float]) -> None:
    with pytest.raises(PolicyError) as caught:
        HistoryMean(**bad)  # type: ignore[arg-type]
    assert caught.value.where == next(iter(bad))
    assert caught.value.hint


def test_asked_before_it_knows_the_jobs() -> None:
    with pytest.raises(PolicyError) as caught:
        HistoryMean().predict_rows(np.array([0], np.int32), 0.0)
    assert caught.value.where == "HistoryMean"


def test_the_users_figure_and_its_gaps() -> None:
    jobs = Jobs.build([0, 0, 0], [1, 1, 1], [9, 9, 9], extra={"user_power_w": np.array([800.0, math.nan, 0.0])})
    np.testing.assert_allclose(UserFigure().predict(KnownJobs.of(jobs), MACHINE).power_w[:, 0], [800.0, 2100.0, 2100.0])
    np.testing.assert_allclose(UserFigure(column="none").predict(KnownJobs.of(jobs), MACHINE).power_w[:, 0], 2100.0)


@pytest.mark.parametrize(
    ("column", "where"), [([-3.0], "column user_power_w, row 1"), (["many"], "column user_power_w")]
)
def test_a_users_figure_that_is_no_figure(column: list[object], where: str) -> None:
    jobs = Jobs.build([0], [1], [9], extra={"user_power_w": np.array(column)})
    with pytest.raises(InputError) as caught:
        UserFigure().predict(KnownJobs.of(jobs), MACHINE)
    assert caught.value.where == where
