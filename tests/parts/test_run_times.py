"""Parts that predict run times: against naive twins, their options, and what a past teaches them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.reference.recent_runs import NearestRuns, RecentRuns, tree_sum
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.model.machine import plain_machine
from wattqueue.parts.contracts import FinishedRuns, Floats
from wattqueue.parts.runtime.boosted import Boosted, flat_trees
from wattqueue.parts.runtime.last_two import LastTwo
from wattqueue.parts.runtime.nearest import Nearest
from wattqueue.parts.runtime.recent_quantile import RecentQuantile
from wattqueue.parts.runtime.true_runtime import TrueRuntime
from wattqueue.policy.capabilities import DriverAbilities, require_carried_out, resolve
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

JOBS, MACHINE = sample_jobs(80), sample_machine()


def walked(part: Any, twin: Any, jobs: Jobs) -> tuple[list[float], list[float]]:
    """What both answer when each job is asked for at its row, and the job three rows before has just ended."""
    part.seconds(KnownJobs.of(jobs), MACHINE)
    ours, theirs = [], []
    for row in range(len(jobs)):
        if row >= 3:
            seconds = float(jobs.runtime_s[row - 3])
            part.learn_runs(FinishedRuns(np.array([row - 3], np.int32), np.array([float(row)]), np.array([seconds])))
            twin.learn(row - 3, seconds)
        ours.append(float(part.seconds_of(np.array([row], np.int32), float(row))[0]))
        theirs.append(twin.seconds(row))
    return ours, theirs


def columns(jobs: Jobs, *names: str) -> list[Any]:
    table: dict[str, Any] = {
        "user": jobs.user.codes,
        "app": jobs.app.codes,
        "nodes": jobs.nodes,
        "walltime": jobs.walltime_s,
    }
    rows = zip(*(table[name].tolist() for name in names), strict=True)
    return [None if "user" in names and row[names.index("user")] < 0 else row for row in rows]


def test_the_last_two() -> None:
    ours, theirs = walked(LastTwo(), RecentRuns([columns(JOBS, "user")], 2, 2, None), JOBS)
    np.testing.assert_allclose(ours, theirs)
    assert np.isfinite(ours).sum() > 40


@pytest.mark.parametrize("at", [0.0, 0.75, 1.0])
def test_a_quantile_of_recent_jobs_that_are_alike(at: float) -> None:
    part = RecentQuantile(at=at, jobs=4, fewest=2, alike=("user app nodes", "user"))
    keys = [columns(JOBS, "user", "app", "nodes"), columns(JOBS, "user")]
    ours, theirs = walked(part, RecentRuns(keys, 4, 2, at), JOBS)
    np.testing.assert_allclose(ours, theirs)


def test_the_nearest_of_the_last_jobs() -> None:
    part = Nearest(neighbours=3, last=20, at=0.4, user_apart=1.5, app_apart=0.5)
    requests: list[Any] = columns(JOBS, "nodes", "walltime")
    who = zip(JOBS.user.codes.tolist(), JOBS.app.codes.tolist(), strict=True)
    twin = NearestRuns([(*w, *r) for w, r in zip(who, requests, strict=True)], 3, 20, 0.4, (1.5, 0.5))
    ours, theirs = walked(part, twin, JOBS)
    np.testing.assert_allclose(ours, theirs)


def test_flat_trees_answer_as_scikit_learn_does() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    from wattqueue.kernels.boosted_trees import boosted_rows

    rng = np.random.default_rng(3)
    table = rng.normal(size=(400, 4))
    table[rng.random(table.shape) < 0.1] = np.nan
    goal = np.nan_to_num(table[:, 0]) * 2 + np.isnan(table[:, 1])
    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.7, max_iter=15).fit(table, goal)
    new = rng.normal(size=(60, 4))
    new[::7, 2] = np.nan
    out: Floats = np.empty(len(new))
    boosted_rows(flat_trees(model), new, out)
    np.testing.assert_allclose(out, tree_sum(model, new), rtol=1e-12)


def test_boosting_learns_what_a_user_does() -> None:
    # Two users with the same requests: one runs 100 s, the other 1,000 s.
    n = 400
    user = ["ab"[k % 2] for k in range(n)]
    run = np.where(np.arange(n) % 2, 1_000.0, 100.0)
    jobs = Jobs.build(np.arange(n) * 60.0, np.ones(n), run, walltime_s=np.full(n, 7_200.0), user=user)
    part = Boosted(fewest=50, period_s=6_000.0, correction="limit")
    simulation = simulate(jobs, plain_machine(40), load_policy("easy", runtime=part))
    assert simulation.schedule.ran.all()
    seconds = part.seconds_of(np.array([n - 2, n - 1], np.int32), float(n * 60))
    np.testing.assert_allclose(seconds, [100.0, 1_000.0], rtol=0.1)


def test_a_past_teaches_users_by_name() -> None:
    earlier = Jobs.build([0.0, 1.0, 2.0], [1, 1, 1], [50.0, 70.0, 900.0], walltime_s=[999.0] * 3, user=["b", "b", "x"])
    jobs = Jobs.build([5_000.0, 5_001.0], [1, 1], [60.0, 60.0], walltime_s=[500.0, 999.0], user=["a", "b"])
    part = LastTwo()
    part.seconds(KnownJobs.of(jobs), MACHINE)
    part.remember_runs(Past(earlier, np.array([50.0, 71.0, 902.0])))
    assert part.seconds_of(np.array([0, 1], np.int32), 5_001.0).tolist() == pytest.approx([np.nan, 60.0], nan_ok=True)


def test_a_run_with_a_past_refuses_a_part_that_cannot_take_it() -> None:
    past = Past(JOBS.take(slice(0)), np.zeros(0))
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, MACHINE, load_policy("easy", runtime="nearest"), past=past)
    assert caught.value.where == "Nearest"
    assert simulate(JOBS, MACHINE, load_policy("easy", runtime="last-two"), past=past).schedule.ran.any()


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: LastTwo(correction="never"), "correction"),  # type: ignore[arg-type]
        (lambda: TrueRuntime(correction="never"), "correction"),  # type: ignore[arg-type]
        (lambda: RecentQuantile(at=1.5), "at"),
        (lambda: RecentQuantile(jobs=2, fewest=3), "jobs, fewest"),
        (lambda: RecentQuantile(alike=("user colour",)), "alike"),
        (lambda: RecentQuantile(alike=()), "alike"),
        (lambda: Nearest(neighbours=0), "neighbours, last"),
        (lambda: Nearest(at=-0.1), "at, user_apart, app_apart"),
        (lambda: Boosted(at=1.0), "at, fewest, most, trees, period_s"),
    ],
)
def test_options_out_of_range(make: Any, where: str) -> None:
    with pytest.raises(PolicyError) as caught:
        make()
    assert caught.value.where == where


def test_a_driver_that_plans_by_limits_refuses_predicted_run_times() -> None:
    policy = load_policy("easy++")
    prediction = policy.estimator.predict(KnownJobs.of(JOBS), MACHINE)
    with pytest.raises(PolicyError, match="predicted run times"):
        require_carried_out(policy, resolve(policy), DriverAbilities("this driver", {}), 0, MACHINE, prediction)


def test_a_row_without_a_run_time_part_is_planned_by_limits() -> None:
    assert load_policy("easy").row["runtime"] == "user-limit"
    assert resolve(load_policy("easy")).plans is None
