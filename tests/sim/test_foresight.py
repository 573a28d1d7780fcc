"""History predictions inside the loop: the same microwatts as through Python, and never the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.reference import history as twin
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.estimator.app_mean import AppMean
from wattqueue.parts.estimator.history_max import HistoryMax
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator.history_quantile import HistoryQuantile
from wattqueue.parts.estimator.last_job import LastJob
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate

MACHINE = Machine(
    "two",
    (
        Partition("a", 24, frequencies_hz=(3e9, 2e9), idle_w=240.0, max_w=2100.0),
        Partition("b", 8, idle_w=100.0, max_w=900.0),
    ),
)
CAP = Cap(np.array([0.0, 20_000.0]), np.array([22_000.0, 16_000.0]))


def some_jobs(seed: int, n: int = 400) -> Jobs:
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 7, n)
    mean = np.clip(500.0 + 90.0 * user + rng.normal(0.0, 60.0, n), 300.0, 2_000.0)
    mean[rng.random(n) < 0.05] = np.nan
    run = np.ceil(rng.exponential(900.0, n))
    return Jobs.build(
        np.floor(rng.uniform(0.0, 40_000.0, n)),
        rng.integers(1, 9, n),
        run,
        walltime_s=run * rng.choice([0.8, 1.0, 2.0, 5.0], n),
        user=[f"u{k}" if k else "" for k in user],
        app=[f"x{k}" if k else "" for k in rng.integers(0, 4, n)],
        partition=["a" if k else "b" for k in rng.integers(0, 4, n)],
        mean_power_w=mean,
        max_power_w=np.where(rng.random(n) < 0.2, np.nan, mean * 1.2),
    )


def outside(part: type[Any]) -> type[Any]:
    """The same estimator as a subclass, which states no kernel: the loop must come back to Python for it."""
    return type("Outside", (part,), {})


def run(jobs: Jobs, estimator: Any, cap: Cap = CAP, backfill: str = "easy") -> Run:
    return simulate(jobs, MACHINE, replace(load_policy(backfill), estimator=estimator), cap=cap)


def columns(found: Run) -> list[Any]:
    s = found.schedule
    return [s.state, s.start_s, s.end_s, s.option, s.energy_j, s.predicted_w, found.power.jobs_w]


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@pytest.mark.parametrize(
    ("part", "options"),
    [
        (HistoryMean, {}),
        (HistoryMax, {}),
        (HistoryMean, {"alpha": 1.0, "window_s": 3_000.0}),
        (HistoryMean, {"alpha": 0.5, "window_s": 9_000.0}),
        (LastJob, {}),
        (LastJob, {"target": "max"}),
        (AppMean, {}),
        (HistoryQuantile, {}),
        (HistoryQuantile, {"at": 0.9, "least": 0.3}),
    ],
)
def test_inside_the_loop_and_through_python_are_the_same_run(
    part: type[Any], options: dict[str, Any], backfill: str
) -> None:
    jobs = some_jobs(3, 220)
    inside, through = part(**options), outside(part)(**options)
    mine, its = run(jobs, inside, backfill=backfill), run(jobs, through, backfill=backfill)
    assert inside.in_loop
    assert not through.in_loop
    for a, b in zip(columns(mine), columns(its), strict=True):
        np.testing.assert_array_equal(a, b)


class Doubled(HistoryMean):
    """As a user would write it: another answer from the same history."""

    def _answer(self, of_user: Floats, of_app: Floats | None = None) -> Floats:
        return 2.0 * super()._answer(of_user, of_app)


class AtTheMaximum(HistoryMean):
    """The same, with another way from one figure to those of all options."""

    def apply(self, watts: Floats) -> Floats:
        return super().apply(np.full_like(watts, np.nan))


@pytest.mark.parametrize("part", [Doubled, AtTheMaximum])
def test_a_subclass_of_a_user_is_never_ignored(part: type[HistoryMean]) -> None:
    """Whatever it overrides: the kernel answers for the class that states it, and for no other."""
    jobs = some_jobs(4, 120)
    found = run(jobs, part())
    assert not np.array_equal(found.schedule.predicted_w, run(jobs, HistoryMean()).schedule.predicted_w)
    ran = found.schedule.ran
    if part is AtTheMaximum:
        most = MACHINE.option_dynamic_factor * (np.array([2100.0, 2100.0, 900.0]) - [240.0, 240.0, 100.0])
        unit = (np.array([240.0, 240.0, 100.0]) + most)[found.schedule.option]
        np.testing.assert_allclose(found.schedule.predicted_w[ran], (unit * jobs.nodes)[ran], rtol=1e-6)


def test_each_job_keeps_the_prediction_of_its_own_submission() -> None:
    """Against eq. 1-3 over what had ended in the simulated time line, with measured watts."""
    jobs = some_jobs(5, 150)
    found = run(jobs, HistoryMean())
    s = found.schedule
    assert s.ran.sum() > 100
    unit_w = s.energy_j / (s.end_s - s.start_s) / jobs.nodes
    ended = [twin.Done(int(jobs.user.codes[k]), float(s.end_s[k]), float(unit_w[k])) for k in np.flatnonzero(s.ran)]
    ended.sort(key=lambda d: d.end_s)
    for k in np.flatnonzero(s.ran):
        want = twin.history_predict(ended, int(jobs.user.codes[k]), float(jobs.submit_s[k]))
        option = int(s.option[k])
        top = (2100.0, 2100.0, 900.0)[option]
        idle = min((240.0, 240.0, 100.0)[option], top if np.isnan(want) else want)
        want = idle + ((top if np.isnan(want) else want) - idle) * float(MACHINE.option_dynamic_factor[option])
        assert s.predicted_w[k] / jobs.nodes[k] == pytest.approx(want, rel=1e-9)


def test_ends_of_the_trace_are_no_business_of_the_loop() -> None:
    jobs = some_jobs(6, 80)
    part = HistoryMean(completions="trace")
    found = run(jobs, part)
    assert not part.in_loop
    known = part.predict(KnownJobs.of(jobs, oracle=True), MACHINE).power_w
    ran = found.schedule.ran
    expected = (known[np.arange(len(jobs)), found.schedule.option] * jobs.nodes)[ran]
    np.testing.assert_allclose(found.schedule.predicted_w[ran], expected, rtol=1e-9)


def test_what_the_loop_learned_the_part_knows() -> None:
    jobs = some_jobs(7, 80)
    part = HistoryMean()
    found = run(jobs, part)
    rows = np.arange(len(jobs), dtype=np.int32)
    s = found.schedule
    unit_w = s.energy_j / (s.end_s - s.start_s) / jobs.nodes
    order = np.flatnonzero(s.ran)[np.argsort(s.end_s[s.ran], kind="stable")]
    ended = [twin.Done(int(jobs.user.codes[k]), float(s.end_s[k]), float(unit_w[k])) for k in order]
    want = [twin.history_predict(ended, int(user), 1e7) for user in jobs.user.codes]
    np.testing.assert_allclose(part.predict_rows(rows, 1e7)[:, 0], want, rtol=1e-9)
