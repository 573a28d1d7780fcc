"""Weights by least squares, refusal of low rank, both models, and the choice of components."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.activity import ActivityTrace
from wattqueue_studies.pmc.models import (
    choose_components,
    mape_percent,
    power_ratio,
    variability_trained,
)
from wattqueue_studies.pmc.weights import ALL, SUBSETS, SeparateTraining, TrainingSet

RNG = np.random.default_rng(4)
LEVEL: Floats = np.column_stack([RNG.uniform(1, 16, 40), RNG.random((40, 8))])
TRUE = RNG.uniform(0.5, 6.0, (9, 3))
"""Weights of three sockets that obey eq. 1 exactly."""


def trace(name: str = "app", rows: int = 5, process: int = 0) -> ActivityTrace:
    rng = np.random.default_rng(process)
    return ActivityTrace(
        name, np.arange(float(rows)), np.column_stack([rng.uniform(1, 16, rows), rng.random((rows, 8))]), process
    )


def test_weights_that_obey_eq_1_are_found() -> None:
    exact = TrainingSet.of(LEVEL, LEVEL @ TRUE)
    np.testing.assert_allclose(exact.weights()[:9], TRUE, rtol=1e-9)
    assert (exact.weights()[9] == 0).all()
    shifted = TrainingSet.of(LEVEL, LEVEL @ TRUE + 20.0, constant=True)
    np.testing.assert_allclose(shifted.weights()[:9], TRUE, rtol=1e-9)
    np.testing.assert_allclose(shifted.weights()[9], 20.0)


def test_a_subset_is_the_least_squares_fit_of_its_columns_alone() -> None:
    watts = LEVEL @ TRUE + RNG.normal(0, 1, (40, 3))
    found = TrainingSet.of(LEVEL, watts).weights((1, 4))
    direct = np.linalg.lstsq(LEVEL[:, [0, 2, 5]], watts, rcond=None)[0]
    np.testing.assert_allclose(found[[0, 2, 5]], direct, rtol=1e-9)
    assert (np.delete(found, [0, 2, 5], axis=0) == 0).all()


def test_training_of_low_rank_is_refused_with_its_rank() -> None:
    doubled = LEVEL.copy()
    doubled[:, 3] = 2 * doubled[:, 2]
    with pytest.raises(InputError) as caught:
        TrainingSet.of(doubled, doubled @ TRUE)
    assert "rank 8" in str(caught.value)
    assert "9 weights" in str(caught.value)
    assert "branch, alu" in str(caught.value)
    assert "memory" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        TrainingSet.of(LEVEL[:7], LEVEL[:7] @ TRUE)
    assert "rank 7" in str(caught.value)
    same_cores = LEVEL.copy()
    same_cores[:, 0] = 16.0
    TrainingSet.of(same_cores, same_cores @ TRUE)
    with pytest.raises(InputError) as caught:  # active cores that never change are a constant
        TrainingSet.of(same_cores, same_cores @ TRUE, constant=True)
    assert "active_cores, constant" in str(caught.value)


@pytest.mark.parametrize("watts", [np.zeros((40, 1)), np.full((40, 1), np.nan), np.ones((39, 1))])
def test_watts_that_cannot_be_used_are_refused(watts: Floats) -> None:
    with pytest.raises(InputError):
        TrainingSet.of(LEVEL, watts)


def test_vt_predicts_each_socket_by_its_own_weights() -> None:
    training = TrainingSet.of(LEVEL, LEVEL @ TRUE)
    app = trace()
    found = variability_trained(training, [app, trace("other", 3, 1)])
    np.testing.assert_allclose(found.mean_w[0], app.mean @ TRUE)
    np.testing.assert_allclose(found.peak_w[0], (app.level @ TRUE).max(axis=0))
    assert found.mean_w.shape == (2, 3)
    separate = SeparateTraining([training.on([k]) for k in range(3)])
    # To a last bit: a product of another shape sums in another order on some processors.
    np.testing.assert_allclose(variability_trained(separate, [app]).peak_w, found.peak_w[:1], rtol=1e-14)


def test_pr_scales_the_profile_socket_by_one_benchmark() -> None:
    training = TrainingSet.of(LEVEL, LEVEL @ TRUE)
    app, cholesky = trace(), np.array([100.0, 80.0, 120.0])
    found = power_ratio(training.on([1]), cholesky, 1, [app])
    np.testing.assert_allclose(found.mean_w[0], (app.mean @ TRUE[:, 1]) * cholesky / 80.0)
    with pytest.raises(InputError) as caught:
        power_ratio(training.on([1]), np.array([100.0, 80.0, 0.0]), 1, [app])
    assert caught.value.where == "socket 2"


def test_components_are_chosen_on_the_profile_socket_by_mape() -> None:
    # fp misleads on this application: trained with weight 5, it draws nothing there.
    weights = np.zeros(9)
    weights[[0, 1, 4]] = 4.0, 10.0, 5.0
    training = TrainingSet.of(LEVEL, LEVEL @ weights)
    app = trace(rows=30)
    watts = app.level[:, [0, 1]] @ np.array([4.0, 10.0])
    (chosen,) = choose_components(training, [(app, watts)], [ALL, (0,), (3,), (0, 3)])
    assert chosen == (0,)
    assert choose_components(training, [(app, app.level @ weights)])[0] == ALL
    best = choose_components(training, [(app, watts)])[0]
    errors = [mape_percent(watts, variability_trained_series(training, app, s)) for s in (best, ALL)]
    assert errors[0] < errors[1]
    with pytest.raises(InputError):
        choose_components(TrainingSet.of(LEVEL, LEVEL @ TRUE), [(app, watts)])
    with pytest.raises(InputError):
        choose_components(training, [(app, watts[:-1])])


def variability_trained_series(training: TrainingSet, app: ActivityTrace, subset: tuple[int, ...]) -> Floats:
    series: Floats = app.level @ training.weights(subset)[:9, 0]
    return series


def test_all_subsets_of_eight_components_are_candidates() -> None:
    assert len(SUBSETS) == len(set(SUBSETS)) == 256
    assert (SUBSETS[0], SUBSETS[-1]) == (ALL, ())


def test_mape_by_hand() -> None:
    assert mape_percent(np.array([100.0, 50.0]), np.array([90.0, 60.0])) == pytest.approx(15.0)
    with pytest.raises(InputError):
        mape_percent(np.array([0.0]), np.array([1.0]))
