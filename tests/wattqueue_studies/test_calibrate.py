"""Residuals of the past: sums by hand, variances that are recovered, and no look ahead."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.profiles import PowerProfiles
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.workload.cycle import DAY_S, HOUR_S
from wattqueue_studies.powercap.calibrate import Hours, hours_of, predictions_of, spread_of, z_of


def test_hours_by_hand() -> None:
    """Two jobs over full hours: 2 nodes at 300 W (predicted 200), 1 node at 500 W (predicted 600); idle 100 W."""
    profiles = PowerProfiles.from_samples([[300.0], [500.0], [700.0]])
    jobs = Jobs.build([0.0, 0.0, 7300.0], [2, 1, 4], [7000.0, 4000.0, 100.0], profiles=profiles)
    start = np.array([1800.0, 3600.0, 7300.0])
    got = hours_of(jobs, start, start + jobs.runtime_s, np.array([200.0, 600.0, 1.0]), 100.0)
    assert got.time_s.tolist() == [3600.0, 7200.0]
    assert got.y.tolist() == [2 * 200.0 + 400.0] * 2
    assert got.x.tolist() == [2 * 100.0 + 500.0] * 2
    assert got.xx.tolist() == [200.0**2 + 500.0**2] * 2
    assert got.yy.tolist() == [400.0**2 + 400.0**2] * 2
    assert got.xy.tolist() == [200.0 * 400.0 + 500.0 * 400.0] * 2


def test_a_sample_is_the_one_in_force() -> None:
    profiles = PowerProfiles.from_samples([np.arange(400.0)])
    assert profiles.power_at(np.array([0, 0, 0]), np.array([0.0, 39.9, 7200.0])).tolist() == [0.0, 1.0, 360.0]


def drawn(rng: np.random.Generator, share: float, own: float, common: float, hours: int = 4000) -> Hours:
    """Hours of some jobs each, whose errors are normal with these variances."""
    rows = []
    for _ in range(hours):
        x = rng.exponential(100.0, int(rng.integers(3, 40)))
        e = np.sqrt(own) * rng.standard_normal(len(x)) + np.sqrt(common) * rng.standard_normal()
        y = share * x * (1.0 + e)
        rows.append([x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()])
    return Hours(np.arange(hours, dtype=np.float64) * HOUR_S, *np.array(rows, np.float64).T)


def test_variances_are_recovered() -> None:
    hours = drawn(np.random.default_rng(1), 1.04, 0.09, 0.01)
    found = spread_of(hours)
    assert found.share == pytest.approx(1.04, rel=0.01)
    assert found.own == pytest.approx(0.09, rel=0.1)
    assert found.common == pytest.approx(0.01, rel=0.25)
    # Normal errors stay below the normal's own quantile.
    assert z_of(hours, found, 0.01) == pytest.approx(NormalDist().inv_cdf(0.99), rel=0.08)


def test_independent_errors_have_nothing_in_common() -> None:
    found = spread_of(drawn(np.random.default_rng(2), 1.0, 0.2, 0.0))
    assert found.own == pytest.approx(0.2, rel=0.1)
    assert found.common < 0.004


def test_too_few_hours_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        spread_of(drawn(np.random.default_rng(1), 1.0, 0.1, 0.0, hours=20))
    assert caught.value.where == "hours"


def test_only_the_last_days_count() -> None:
    hours = drawn(np.random.default_rng(3), 1.0, 0.1, 0.0, hours=24 * 40)
    kept = hours.before(35 * DAY_S, 30.0)
    assert kept.time_s[0] > 5 * DAY_S
    assert kept.time_s[-1] == 35 * DAY_S


@settings(max_examples=20)
@given(st.integers(0, 2**40))
def test_nothing_of_what_comes_later_counts(seed: int) -> None:
    """Whatever jobs that start later draw, what is known at an instant stays what it was."""
    rng = np.random.default_rng(seed)
    n, now = 200, 5 * DAY_S
    start = np.sort(rng.uniform(0, 8 * DAY_S, n))
    level = rng.uniform(200.0, 900.0, n)
    user = rng.choice(["a", "b", "c"], n)

    def known(watts: np.ndarray) -> tuple[Hours, np.ndarray]:
        profiles = PowerProfiles.from_samples([[w] for w in watts])
        run = np.full(n, 9 * HOUR_S)
        jobs = Jobs.build(start, rng.integers(1, 2, n), run, user=user, mean_power_w=watts, profiles=profiles)
        predicted = predictions_of(HistoryMean(), jobs, start + run, 2100.0)
        return hours_of(jobs, start, start + run, predicted, 100.0).before(now), predicted

    later = start > now
    (a, first), (b, second) = known(level), known(np.where(later, 2000.0, level))
    asked = start <= now
    assert first[asked].tolist() == second[asked].tolist()
    assert spread_of(a) == spread_of(b)


def test_jobs_without_profiles_cannot_calibrate() -> None:
    jobs = Jobs.build([0.0], [1], [10.0])
    with pytest.raises(InputError) as caught:
        hours_of(jobs, jobs.submit_s, jobs.submit_s + 10, np.ones(1), 0.0)
    assert caught.value.where == "profiles"
