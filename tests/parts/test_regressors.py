"""The predictors as scikit-learn estimators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'wattqueue[ml]'")

from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.reference import history as twin
from wattqueue.model.jobs import Jobs
from wattqueue.parts.estimator._weekly import one_thread
from wattqueue.parts.features import FEATURES, job_features
from wattqueue.parts.regressors import (
    ForestPower,
    HistoryPower,
    LinearPower,
    PowerRegressor,
    QuantilePower,
    SgdPower,
    SvrPower,
)

SMALL: list[Any] = [
    LinearPower(),
    SvrPower(),
    SgdPower(),
    HistoryPower(),
    ForestPower(trees=3, selection_rows=40, tree_rows=50),
    QuantilePower(trees=20),
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that spin beside other work make these small fits ten times slower."""
    with one_thread():
        yield


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(SMALL)  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def table(n: int = 400, seed: int = 3) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Watts that hang on columns 0 and 2 alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, 900.0 + 150.0 * X[:, 0] - 80.0 * X[:, 2] + rng.normal(0.0, 5.0, n)


@pytest.mark.parametrize("make", [LinearPower, SvrPower, SgdPower])
def test_elimination_keeps_what_matters_and_the_fit_is_close(make: type[PowerRegressor]) -> None:
    X, y = table()
    model = make().fit(X, y)
    assert model.support_[[0, 2]].all()
    unseen, watts = table(seed=4)
    inside = (watts > y.min()) & (watts < y.max())
    assert np.abs(model.predict(unseen) - watts)[inside].mean() < 8.0


def test_a_forest_beats_the_mean_and_bounds_its_trees() -> None:
    X, y = table(800)
    model = ForestPower(trees=10, selection_rows=200, tree_rows=300).fit(X, y)
    unseen, watts = table(seed=4)
    assert np.abs(model.predict(unseen) - watts).mean() < 0.4 * np.abs(watts - y.mean()).mean()
    assert model._fitted.max_samples == 300


def test_a_prediction_stays_within_the_watts_seen() -> None:
    X, y = table()
    far = np.full((1, 5), 100.0)
    assert y.min() <= LinearPower().fit(X, y).predict(far)[0] <= y.max()


def test_one_row_is_enough_to_fit() -> None:
    for make in (LinearPower, SvrPower, SgdPower):
        assert make().fit([[1.0, 2.0]], [700.0]).predict([[3.0, 4.0]])[0] == pytest.approx(700.0)


def test_quantiles_rise_and_cover() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 1.0, (3_000, 2))
    y = 500.0 + 300.0 * X[:, 0] + rng.normal(0.0, 20.0 + 60.0 * X[:, 1])
    got = QuantilePower(trees=40).fit(X[:2_000], y[:2_000]).predict_quantiles(X[2_000:])
    assert (np.diff(got, axis=1) >= 0).all()
    covered = (y[2_000:, np.newaxis] <= got).mean(axis=0)
    assert covered == pytest.approx([0.5, 0.9, 0.99], abs=0.04)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.5, 1\.0"):
        QuantilePower(quantiles=(0.5, 1.0)).fit(*table())
    with pytest.raises(ValueError, match="window_s"):
        HistoryPower(window_s=0.0).fit([[0.0, 1.0]], [1.0])


def test_history_as_an_estimator_equals_the_printed_equations() -> None:
    rng = np.random.default_rng(6)
    user, end, watts = rng.integers(0, 4, 200), rng.integers(0, 5_000, 200), rng.uniform(300.0, 900.0, 200)
    model = HistoryPower().fit(np.column_stack((user, end)), watts)
    done = sorted((twin.Done(*row) for row in zip(user, end, watts, strict=True)), key=lambda d: d.end_s)
    for who, now in ((0, 5_000.0), (3, 2_500.0), (9, 4_000.0), (1, 10.0)):
        want = twin.history_predict(done, who, now)
        got = model.predict([[who, now]])[0]
        assert got == pytest.approx(watts.mean() if math.isnan(want) else want, rel=1e-9)


def test_features_are_those_of_table_1_and_known_at_submission() -> None:
    jobs = Jobs.build(
        [3_600.0, 3_700.0, 90_000.0],
        [2, 4, 8],
        [50.0, 50.0, 50.0],
        user=["a", "a", "b"],
        walltime_s=[100.0, 200.0, 300.0],
        mean_power_w=[400.0, 600.0, 1.0],
        extra={"processors": np.array([64, 128, 0])},
    )
    X, y = job_features(jobs)
    assert X.shape == (3, len(FEATURES))
    np.testing.assert_array_equal(X[0], [1.0, 64.0, 2.0, 100.0, np.nan, 0.0, np.nan])
    np.testing.assert_array_equal(X[1], [1.0, 128.0, 4.0, 200.0, 400.0, 0.0, 400.0])
    np.testing.assert_array_equal(X[2], [1.0, 8.0, 8.0, 300.0, 500.0, 0.0, 500.0])
    np.testing.assert_array_equal(y, [400.0, 600.0, 1.0])
