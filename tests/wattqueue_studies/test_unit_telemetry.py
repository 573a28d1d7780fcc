"""Unit factors from production telemetry: known factors, intervals that cover, units that were never seen, drifts."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue_studies.unit_telemetry import (
    ONE_APPLICATION,
    ONE_JOB,
    UnitTelemetry,
    find_drifts,
    learn_factors,
    threshold,
)

UNITS = 48


def drawn(seed: int) -> Floats:
    """Factors of units with a spread of 5 %, relative to their mean."""
    factor = 1.0 + 0.05 * np.random.default_rng([seed, 0]).standard_normal(UNITS)
    found: Floats = factor / factor.mean()
    return found


def week(seed: int, factor: Floats, jobs: int = 400, noise: float = 0.01) -> UnitTelemetry:
    """Jobs of three applications with inputs that differ by 5 %: half of them on one unit, the others on 2 to 8."""
    rng = np.random.default_rng([seed, 1])
    rows = []
    for job in range(jobs):
        width = int(rng.choice([1, 2, 4, 8], p=[0.5, 0.2, 0.2, 0.1]))
        app = int(rng.integers(3))
        watts = (80.0, 150.0, 200.0)[app] * np.exp(0.05 * rng.standard_normal())
        for unit in rng.choice(len(factor), width, replace=False):
            seen = watts * factor[unit] * np.exp(noise * rng.standard_normal())
            rows.append((float(job), app if width == 1 else 3 + job, int(width == 1), int(unit), seen))
    time_s, group, kind, unit, power = (np.array(column) for column in zip(*rows, strict=True))
    return UnitTelemetry(time_s, group, kind, unit, power)


def test_factors_without_noise_are_exact() -> None:
    """Jobs over two of three units: whatever their levels, ratios between units are what they show."""
    factor = np.array([0.9, 1.0, 1.1])
    watts = np.concatenate([level * factor[at : at + 2] for level, at in ((100, 0), (300, 1), (200, 0), (50, 1))])
    group, unit = np.repeat(np.arange(4), 2), np.array([0, 1, 1, 2, 0, 1, 1, 2])
    found = learn_factors(UnitTelemetry(np.arange(8.0), group, np.full(8, ONE_JOB), unit, watts), 3)
    np.testing.assert_allclose(found.factor, factor, rtol=1e-4)
    assert found.samples.tolist() == [2, 4, 2]


def test_factors_and_noise_are_found_and_intervals_cover() -> None:
    covered = []
    for seed in range(4):
        factor = drawn(seed)
        found = learn_factors(week(seed, factor), UNITS)
        covered.append(((found.low <= factor) & (factor <= found.high)).mean())
        assert np.abs(found.factor / factor - 1.0).mean() < 0.004
        assert found.noise[ONE_JOB] == pytest.approx(0.01, rel=0.25)
        assert found.noise[ONE_APPLICATION] == pytest.approx(0.05, rel=0.25)
        assert found.spread == pytest.approx(0.05, rel=0.4)
    assert 0.88 <= np.mean(covered) <= 1.0


def test_a_unit_that_was_never_seen_has_the_mean_and_a_wide_interval() -> None:
    factor = drawn(1)
    found = learn_factors(week(1, factor), UNITS + 1)
    assert found.samples[-1] == 0
    assert found.factor[-1] == pytest.approx(1.0, abs=0.01)
    assert found.high[-1] - found.low[-1] > 4 * np.median(found.high[:-1] - found.low[:-1])
    assert found.high[-1] - found.low[-1] == pytest.approx(2 * 1.96 * found.spread, rel=0.1)


def test_a_site_of_small_jobs_is_learned_from_its_applications() -> None:
    factor = drawn(2)
    full = week(2, factor, 4000)
    one = full.kind == ONE_APPLICATION
    small = UnitTelemetry(full.time_s[one], full.group[one], full.kind[one], full.unit[one], full.watts[one])
    found = learn_factors(small, UNITS)
    assert np.corrcoef(found.factor, factor)[0, 1] > 0.95


def test_a_change_is_found_and_nothing_else_is() -> None:
    factor = drawn(3)
    found = learn_factors(week(3, factor, 800), UNITS)
    changed = factor.copy()
    changed[[5, 20]] *= [1.05, 0.95]
    later = week(103, changed, 800)
    drifts = find_drifts(found, later)
    assert sorted(drift.unit for drift in drifts) == [5, 20]
    by_unit = {drift.unit: drift for drift in drifts}
    assert by_unit[5].change == pytest.approx(0.05, abs=0.03)
    assert by_unit[20].change == pytest.approx(-0.05, abs=0.03)
    assert all(drift.since_s <= drift.time_s for drift in drifts)
    assert find_drifts(found, week(104, factor, 800)) == []


def test_the_threshold_is_that_of_the_run_length() -> None:
    """Cumulative sums of standard normal steps: the mean run to the first alarm, by simulation."""
    limit = threshold(200.0)
    rng = np.random.default_rng(5)
    runs = []
    for _ in range(300):
        total, steps = 0.0, 0
        while total <= limit:
            total = max(0.0, total + rng.standard_normal() - 0.5)
            steps += 1
        runs.append(steps)
    assert np.mean(runs) == pytest.approx(200.0, rel=0.25)


def test_factors_become_a_table_for_policies() -> None:
    found = learn_factors(week(4, drawn(4)), UNITS)
    table = found.table(("a", "b"), np.array([80.0, 150.0]), [f"node{k}" for k in range(UNITS)])
    assert table.factor.shape == (2, UNITS)
    np.testing.assert_array_equal(table.factor[0], table.factor[1])
    assert table.factor[0].mean() == pytest.approx(1.0)


def test_what_cannot_be_learned_is_refused() -> None:
    one, ones = np.zeros(1, np.int64), np.ones(2, np.int64)
    with pytest.raises(InputError, match="two units"):
        learn_factors(UnitTelemetry(np.zeros(1), one, one, one, np.full(1, 100.0)), 4)
    with pytest.raises(InputError, match="unit 4"):
        learn_factors(UnitTelemetry(np.zeros(1), one, one, one + 4, np.full(1, 100.0)), 4)
    with pytest.raises(InputError, match="not above 0"):
        UnitTelemetry(np.zeros(1), one, one, one, np.zeros(1))
    with pytest.raises(InputError, match="length"):
        UnitTelemetry(np.zeros(1), one, one, ones, np.full(1, 100.0))
    with pytest.raises(InputError, match="fall"):
        UnitTelemetry(np.array([1.0, 0.0]), ones, ones, ones, np.full(2, 100.0))
    with pytest.raises(InputError, match="no samples"):
        week(1, drawn(1)).between(1e6, 2e6)
