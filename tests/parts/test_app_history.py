"""History by application, and quantiles of a history: by hand, and pairs of user and application in a past."""

from statistics import NormalDist

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.model.machine import plain_machine
from wattqueue.parts.contracts import Finished
from wattqueue.parts.estimator._pairs import Pairs
from wattqueue.parts.estimator.app_mean import AppMean
from wattqueue.parts.estimator.history_quantile import HistoryQuantile

MACHINE = plain_machine(8, 0.0, 1000.0)
USERS, APPS = ["a", "a", "a", "b", "a", ""], ["x", "x", "y", "x", "z", "x"]
TABLE = Jobs.build(np.zeros(6), np.ones(6, int), np.full(6, 10.0), user=USERS, app=APPS)


def ended(*rows: tuple[int, float, float]) -> Finished:
    row, end, watts = (np.array(c) for c in zip(*rows, strict=True))
    return Finished(row.astype(np.int32), end.astype(float), watts.astype(float), watts.astype(float))


def test_the_users_jobs_of_the_same_application_count() -> None:
    part = AppMean(alpha=0.0)
    part.predict(KnownJobs.of(TABLE), MACHINE)
    part.learn(ended((0, 10.0, 100.0), (1, 20.0, 200.0), (2, 30.0, 600.0)))
    got = part.predict_rows(np.arange(6, dtype=np.int32), 40.0)[:, 0]
    # (a, x): its two jobs; (a, y): its one; b is new: all jobs; (a, z) is new: all of a's; no user: all jobs.
    assert got.tolist() == [150.0, 150.0, 600.0, 300.0, 300.0, 300.0]


def test_alpha_weighs_the_applications_later_jobs_more() -> None:
    part = AppMean()
    part.predict(KnownJobs.of(TABLE), MACHINE)
    part.learn(ended((0, 10.0, 100.0), (1, 20.0, 200.0), (0, 30.0, 500.0)))
    want = (10.0**2 * 200.0 + 20.0**2 * 500.0) / (10.0**2 + 20.0**2)
    assert part.predict_rows(np.array([1], np.int32), 40.0)[0, 0] == pytest.approx(want)


def test_a_quantile_is_the_mean_and_so_many_deviations() -> None:
    part = HistoryQuantile(at=0.9, alpha=0.0, least=0.0)
    part.predict(KnownJobs.of(TABLE), MACHINE)
    part.learn(ended((0, 10.0, 100.0), (1, 20.0, 200.0)))
    got = part.predict_rows(np.arange(6, dtype=np.int32), 40.0)[:, 0]
    assert got[0] == pytest.approx(150.0 + NormalDist().inv_cdf(0.9) * 50.0)
    assert got[3] == 1000.0  # b is new: the unit's maximum, not the mean of others


def test_two_equal_jobs_do_not_make_a_user_certain() -> None:
    part = HistoryQuantile(at=0.9, least=0.1)
    part.predict(KnownJobs.of(TABLE), MACHINE)
    part.learn(ended((0, 10.0, 100.0), (1, 20.0, 100.0)))
    got = part.predict_rows(np.array([0], np.int32), 40.0)[0, 0]
    assert got == pytest.approx(100.0 + NormalDist().inv_cdf(0.9) * 10.0)


@pytest.mark.parametrize("options", [{"at": 1.0}, {"at": 0.4}, {"least": -1.0}])
def test_wrong_quantiles_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(PolicyError) as caught:
        HistoryQuantile(**options)  # type: ignore[arg-type]
    assert caught.value.where == "at, least"
    assert caught.value.hint


def test_pairs_of_a_past_are_those_of_the_table_by_name() -> None:
    pairs = Pairs.of(KnownJobs.of(TABLE))
    assert pairs.code[0] == pairs.code[1]
    assert len(set(pairs.code.tolist())) == 5
    assert pairs.code[5] == -1
    other = Jobs.build(
        np.zeros(6), np.ones(6, int), np.full(6, 1.0),
        user=["b", "a", "a", "c", "a", ""], app=["x", "y", "w", "x", "", "x"],
    )  # fmt: skip
    got = pairs.of_past(Past(other, np.arange(6.0)))
    assert got.tolist() == [pairs.code[3], pairs.code[2], -1, -1, -1, -1]
    empty = TABLE.take(np.zeros(0, np.int64))
    assert pairs.of_past(Past(empty, np.zeros(0))).tolist() == []
    assert Pairs.of(KnownJobs.of(empty)).of_past(Past(TABLE, np.arange(6.0))).tolist() == [-1] * 6


def test_a_past_with_other_codes_teaches_the_same() -> None:
    shuffled = Jobs.build(
        np.zeros(2), np.ones(2, int), np.full(2, 1.0), user=Labels(np.array([1, 1], np.int32), ("b", "a")),
        app=Labels(np.array([0, 0], np.int32), ("x",)), mean_power_w=[100.0, 200.0],
    )  # fmt: skip
    part = AppMean(alpha=0.0)
    part.predict(KnownJobs.of(TABLE), MACHINE)
    part.remember(Past(shuffled, np.array([1.0, 2.0])))
    assert part.predict_rows(np.array([0, 4], np.int32), 3.0)[:, 0].tolist() == [150.0, 150.0]
