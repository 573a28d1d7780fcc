"""Policies on measured devices: what they know and what is true, limits by hand, runs with chips of one factor."""

from __future__ import annotations

import numpy as np
import pytest

from tests.wattqueue_studies.test_chips_study import runs
from wattqueue_studies.chips import budgets, limits
from wattqueue_studies.chips.chip_runs import chip_pair
from wattqueue_studies.chips.devices import LIMITED_TIME_EXPONENT, LONGEST_S, SHORTEST_S, Devices, devices, draw_jobs
from wattqueue_studies.chips.limits import simulate_devices
from wattqueue_studies.chips.placement_tables import grouped, tables

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")


def of_one_factor(units: int = 60) -> Devices:
    """Devices with one factor for both applications, which nothing disturbs; speed follows it for ``b``."""
    factor = np.linspace(0.9, 1.1, units)
    watts = np.stack([100.0 * factor, 200.0 * factor])
    time = np.stack([np.ones(units), factor])
    return Devices(("a", "b"), watts, time, watts, time, watts)


def test_policies_know_even_runs_and_odd_runs_are_true() -> None:
    first, second = runs("b", seed=2, noise=0.1), runs("a", seed=3, noise=0.1)
    found = devices(chip_pair(first, second), [first, second])
    assert found.apps == ("a", "b")  # as a job table sorts names
    for row, of in ((0, second), (1, first)):
        own = of.watts[of.chip == 5]
        assert found.known_w[row, 5] == np.median(own[::2])
        assert found.true_w[row, 5] == np.median(own[1::2])
        assert found.highest_w[row, 5] == own.max()


def test_a_limit_slows_what_draws_more() -> None:
    found = of_one_factor().limited(200.0)
    assert found.true_w.max() == 200.0
    np.testing.assert_array_equal(found.true_s[0], 1.0)
    factor = np.linspace(0.9, 1.1, 60)
    np.testing.assert_allclose(found.true_s[1], factor * np.maximum(factor, 1.0) ** LIMITED_TIME_EXPONENT)


def test_the_load_is_what_was_asked_for() -> None:
    jobs = draw_jobs(np.random.default_rng(1), ("a", "b"), 100, 0.5)
    asked = float((jobs.nodes * jobs.runtime_s).sum())
    assert asked / (100 * jobs.submit_s.max()) == pytest.approx(0.5, rel=0.02)
    assert jobs.runtime_s.min() >= SHORTEST_S
    assert jobs.runtime_s.max() <= LONGEST_S
    assert (jobs.walltime_s >= jobs.runtime_s).all()


def test_where_chips_have_one_factor_one_rank_is_the_own_rank() -> None:
    trial = budgets.DeviceBudget(of_one_factor(), "b", "a", 0.7).draw(3)
    own = trial("slurm-vtp")
    for policy in ("slurm-prvp", budgets.ONE_RANK, budgets.ORACLE):
        assert trial(policy) == pytest.approx(own)
    assert own["above"] == 0.0
    assert own["turnaround_s"] < trial(budgets.BASE)["turnaround_s"]
    assert own["energy_j"] < trial(budgets.BASE)["energy_j"]
    assert trial("slurm-pe, best")["over_percent"] > 0.0
    assert trial("slurm-pe, worst")["above"] == 0.0


def test_placement_by_time_takes_the_fast_devices() -> None:
    trial = limits.DeviceLimit(of_one_factor(), "a", 1.0, 0.4).draw(3)
    by_number, own = trial(limits.BY_NUMBER), trial("own time")
    assert own["run_s"] < by_number["run_s"]
    assert own == pytest.approx(trial(limits.ORACLE))
    assert trial("sensitive first")["run_s"] < by_number["run_s"]
    assert trial("one benchmark")["run_s"] < by_number["run_s"]


@pytest.mark.compiled
def test_tables_have_every_setting() -> None:
    found = simulate_devices([of_one_factor(40)], ["a"], 2, 1)
    assert set(grouped(found.budgets)) == {"a by b", "b by a"}
    assert list(grouped(found.limits)["a + b, load 0.4"]) == ["limit 60 %", "limit 80 %", "limit 100 %"]
    shown = list(tables(found))
    assert len(shown) == 2 * 3 + 2 + 2 * 2
    assert max(len(line) for table in shown for line in table.lines()) <= 80
