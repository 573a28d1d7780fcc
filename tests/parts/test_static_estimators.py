"""Watts by option of the estimators that are asked once."""

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.parts.contracts import Estimator
from wattqueue.parts.estimator.maximum import Maximum
from wattqueue.parts.estimator.oracle_max import OracleMax
from wattqueue.parts.estimator.oracle_mean import OracleMean

TWO_SPEEDS = Machine(
    "two",
    (
        Partition("fast", 4, frequencies_hz=(2e9, 1e9), idle_w=100.0, max_w=300.0, dvfs_alpha=2.0, dvfs_beta=0.5),
        Partition("plain", 2, idle_w=50.0, max_w=200.0),
    ),
)


def three_jobs() -> Jobs:
    return Jobs.build(
        [0, 1, 2], [1, 1, 2], [10, 10, 10], mean_power_w=[180, np.nan, 60], max_power_w=[200, np.nan, np.nan]
    )


def test_naive_is_the_machines_maximum_scaled_by_frequency() -> None:
    got = Maximum().predict(KnownJobs.of(three_jobs()), TWO_SPEEDS)
    np.testing.assert_allclose(got.power_w, [[300.0, 150.0, 200.0]])
    np.testing.assert_allclose(got.time_factor, [[1.0, 1.5, 1.0]])
    assert got.row is not None
    assert got.row.tolist() == [0, 0, 0]
    assert Maximum().machine_figures
    assert isinstance(Maximum(), Estimator)


def test_an_unknown_maximum_is_nan_not_a_number_made_up() -> None:
    assert np.isnan(Maximum().predict(KnownJobs.of(three_jobs()), plain_machine(4)).power_w).all()


def test_oracles_take_the_traces_figures_and_fall_back_to_mean_then_maximum() -> None:
    mean = OracleMean().predict(KnownJobs.of(three_jobs(), oracle=True), TWO_SPEEDS)
    top = OracleMax().predict(KnownJobs.of(three_jobs(), oracle=True), TWO_SPEEDS)
    np.testing.assert_allclose(mean.power_w, [[180, 120, 180], [300, 150, 200], [60, 60, 60]])
    np.testing.assert_allclose(top.power_w, [[200, 125, 200], [300, 150, 200], [60, 60, 60]])
    assert mean.row is None
    assert mean.time_factor.shape == mean.power_w.shape


def test_a_trace_without_watts_gives_the_maximum() -> None:
    bare = Jobs.build([0], [1], [10])
    for part in (OracleMean(), OracleMax()):
        np.testing.assert_allclose(part.predict(KnownJobs.of(bare, oracle=True), TWO_SPEEDS).power_w, [[300, 150, 200]])


def test_a_figure_below_idle_keeps_its_value_at_every_speed() -> None:
    job = Jobs.build([0], [1], [10], mean_power_w=[0.0])
    np.testing.assert_allclose(
        OracleMean().predict(KnownJobs.of(job, oracle=True), TWO_SPEEDS).power_w, [[0.0, 0.0, 0.0]]
    )


def test_an_empty_table_gives_an_empty_prediction() -> None:
    empty = Jobs.build([], [], [])
    assert OracleMean().predict(KnownJobs.of(empty, oracle=True), TWO_SPEEDS).power_w.shape == (0, 3)
    row = Maximum().predict(KnownJobs.of(empty), TWO_SPEEDS).row
    assert row is not None
    assert row.shape == (0,)
