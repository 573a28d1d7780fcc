"""Estimators that are trained every week: what they may know, and when."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'wattqueue[ml]'")

from tests.parts.test_online_estimators import MACHINE, step_by_step
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.contracts import Finished
from wattqueue.parts.estimator._weekly import WeeklyBase
from wattqueue.parts.estimator.gradient_quantiles import GradientQuantiles
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator.linear import Linear
from wattqueue.parts.estimator.linear_svr import LinearSvr
from wattqueue.parts.estimator.random_forest import RandomForest
from wattqueue.parts.estimator.sgd import Sgd
from wattqueue.parts.timeline import WEEK_S, trace_timeline

MAKERS: list[Callable[[], WeeklyBase]] = [
    Linear,
    LinearSvr,
    Sgd,
    lambda: RandomForest(trees=4, tree_rows=100),
    lambda: GradientQuantiles(own_fewest=5, own_scores=16),
    lambda: Linear(target="max"),
]


def three_weeks(n: int = 210, seed: int = 7) -> Jobs:
    """Watts by user, and 10 W a node: a regressor can learn more than the history."""
    rng = np.random.default_rng(seed)
    user, nodes = rng.integers(0, 6, n), rng.integers(1, 17, n)
    mean = 500.0 + 60.0 * user + 10.0 * nodes + rng.normal(0.0, 5.0, n)
    mean[rng.random(n) < 0.03] = 0.0
    return Jobs.build(
        np.sort(rng.uniform(0.0, 3 * WEEK_S, n)),
        nodes,
        rng.exponential(5_000.0, n) + 60.0,
        user=[f"u{k}" for k in user],
        mean_power_w=mean,
        max_power_w=mean * 1.2,
    )


@pytest.mark.parametrize("make", MAKERS)
def test_asking_job_by_job_equals_the_walk_in_one_go(make: Callable[[], WeeklyBase]) -> None:
    jobs = three_weeks()
    walked = make().replay(jobs, trace_timeline(jobs))
    stepped = step_by_step(make(), jobs)
    np.testing.assert_allclose(np.where(np.isnan(walked), 2100.0, walked), stepped, rtol=1e-9)


@pytest.mark.parametrize("make", MAKERS[:4])
def test_week_0_is_history_and_later_weeks_are_not(make: Callable[[], WeeklyBase]) -> None:
    jobs = three_weeks()
    line = trace_timeline(jobs)
    got, history = make().replay(jobs, line), HistoryMean().replay(jobs, line)
    week_0 = jobs.submit_s < jobs.submit_s[0] + WEEK_S
    np.testing.assert_array_equal(got[week_0], history[week_0])
    assert (got[~week_0] != history[~week_0]).all()


def test_a_model_that_can_learn_more_than_history_does() -> None:
    jobs = three_weeks()
    line = trace_timeline(jobs)
    assert jobs.mean_power_w is not None
    later = (jobs.submit_s > 2 * WEEK_S) & (jobs.mean_power_w > 0)

    def miss(part: WeeklyBase | HistoryMean) -> float:
        assert jobs.mean_power_w is not None
        return float(np.abs(part.replay(jobs, line) - jobs.mean_power_w)[later].mean())

    assert miss(Linear()) < 0.7 * miss(HistoryMean())


def test_only_jobs_that_ended_before_the_week_are_trained_on() -> None:
    """A job that ends in the very second in which the week ends does not count (C_j < t(w))."""
    jobs = Jobs.build(
        [0.0, 10.0, WEEK_S + 5.0], [1] * 3, [20.0, WEEK_S - 10.0, 5.0], user=["a"] * 3, mean_power_w=[400.0, 900.0, 1.0]
    )
    part = Linear(fewest=2)
    part.predict(KnownJobs.of(jobs), MACHINE)
    rows = [np.array([k], np.int32) for k in range(3)]
    part.predict_rows(rows[0], 0.0)
    part.predict_rows(rows[1], 10.0)
    watts = np.array([400.0, 900.0])
    part.learn(Finished(np.array([0, 1], np.int32), np.array([20.0, WEEK_S]), watts, watts))
    part.predict_rows(rows[2], WEEK_S + 5.0)
    assert part._trained is None


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("make", MAKERS)
def test_next_to_nothing_to_learn_from(make: Callable[[], WeeklyBase], n: int) -> None:
    jobs = Jobs.build(
        [0.0, 2 * WEEK_S][:n], [1, 1][:n], [10.0, 10.0][:n], user=["a", "a"][:n], mean_power_w=[400.0, 500.0][:n]
    )
    got = make().replay(jobs, trace_timeline(jobs))
    np.testing.assert_array_equal(got, [np.nan, 400.0][:n])


def test_one_training_row_is_enough_if_one_says_so() -> None:
    jobs = Jobs.build(
        [0.0, 10.0, 2 * WEEK_S], [1, 1, 1], [5.0, 10.0, 10.0], user=["a"] * 3, mean_power_w=[400.0, 500.0, 1.0]
    )
    # The first job had no past, so that its features are unknown: one row is left to train on.
    assert Linear(fewest=1).replay(jobs, trace_timeline(jobs))[2] == 500.0


def test_quantiles_come_with_the_prediction_and_rise() -> None:
    jobs = three_weeks()
    part = GradientQuantiles(at=0.9, completions="trace")
    got = part.predict(KnownJobs.of(jobs, oracle=True), MACHINE)
    assert list(got.quantiles) == [0.5, 0.9, 0.99]
    np.testing.assert_array_equal(got.power_w, got.quantiles[0.9])
    assert (got.quantiles[0.5] <= got.quantiles[0.9]).all()
    assert (got.quantiles[0.9] <= got.quantiles[0.99]).all()


def test_quantiles_asked_online_equal_those_of_the_walk() -> None:
    jobs = three_weeks(60)
    part = GradientQuantiles()
    last = np.array([len(jobs) - 1], np.int32)
    step_by_step(part, jobs)
    got = part.predict_quantiles(last, float(jobs.submit_s[-1]))
    want = GradientQuantiles().replay_quantiles(jobs, trace_timeline(jobs))[-1]
    np.testing.assert_allclose([got[q][0, 0] for q in part.quantiles], want, rtol=1e-9)


@pytest.mark.parametrize(
    "bad",
    [
        {"quantiles": (0.9, 0.5)},
        {"at": 0.7},
        {"own_scores": 0},
    ],
)
def test_options_out_of_range_are_refused_by_name(bad: dict[str, object]) -> None:
    with pytest.raises(PolicyError) as caught:
        GradientQuantiles(**bad)  # type: ignore[arg-type]
    assert next(iter(bad)) in str(caught.value.where)
    assert caught.value.hint
