"""Beyond paper 2: telemetry, moving budgets, long jobs, joint choice by hand, real nodes, tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.wattqueue_studies.test_chips_study import runs
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.policy.policy import load_policy
from wattqueue_studies.chips.chip_runs import chip_pair
from wattqueue_studies.chips.devices import Devices
from wattqueue_studies.chips.extensions import policies, sites
from wattqueue_studies.chips.extensions.joint import joint_figures
from wattqueue_studies.chips.extensions.learning import node_figures
from wattqueue_studies.chips.extensions.tables import GENERATED, compare_extensions, document, tables
from wattqueue_studies.clustercockpit import NodeSeries
from wattqueue_studies.unit_telemetry import ONE_APPLICATION, learn_factors


def two_devices() -> Devices:
    """Device 0 is better for both applications, for ``a`` by 1 W and for ``b`` by 50 W."""
    watts = np.array([[100.0, 101.0], [100.0, 150.0]])
    return Devices(("a", "b"), watts, np.ones((2, 2)), watts, np.ones((2, 2)), watts)


def test_a_joint_choice_swaps_what_one_after_the_other_got_wrong() -> None:
    """At 0 s a takes device 0 and b what is left; jointly b would have it: 251 W less 201 W, for 10 s of 30 s."""
    jobs = Jobs.build([0.0, 0.0, 20.0], [1, 1, 1], [10.0, 10.0, 10.0], app=np.array(["a", "b", "a"]))
    found = two_devices()
    estimator = UnitWatts(table=found.table(found.known_w))
    run = policies.run_on(found, jobs, load_policy("slurm-vtp", estimator=estimator), Cap.none(), split=False)
    figures = joint_figures(run, found)
    used_w = 100.0 + 150.0 + 100.0
    assert figures["joint_saved_percent"] == pytest.approx(100.0 * 49.0 / used_w)
    assert figures["together_percent"] == pytest.approx(200.0 / 3)
    assert figures["bound_saved_percent"] > 0.0


def test_a_moving_budget_has_the_mean_of_one_that_stands_still() -> None:
    moving = policies.budget(policies.MOVING, 700.0, 5_000.0)
    day = moving.cap_w[:24]
    assert day.mean() == pytest.approx(700.0)
    assert day.max() == pytest.approx(900.0, rel=0.01)
    assert day.min() == pytest.approx(500.0, rel=0.01)
    assert policies.budget(policies.STILL, 700.0, 0.0).cap_w.tolist() == [700.0]


def test_long_jobs_are_applications_of_their_own_name() -> None:
    jobs = Jobs.build([0.0, 0.0], [1, 1], [10.0, 100.0], app=np.array(["b", "b"]))
    assert policies.split_jobs(jobs).app.values().tolist() == ["b", "b, long"]
    doubled = policies.split_devices(two_devices())
    assert doubled.apps == ("a, long", "b, long", "a", "b")
    np.testing.assert_array_equal(doubled.known_w[1], doubled.known_w[3])


def test_telemetry_of_a_week_shows_the_factors() -> None:
    factor = np.linspace(0.9, 1.1, 40)
    found = sites.telemetry(np.random.default_rng(1), np.outer([100.0, 200.0], factor), 0.2)
    one = found.kind == ONE_APPLICATION
    assert set(found.group[one]) <= {0, 1}
    assert found.group[~one].min() > 1
    learned = learn_factors(found, 40)
    assert np.abs(learned.factor / factor - 1.0).mean() < 0.01


def test_factors_of_real_nodes_carry_over_to_the_second_half() -> None:
    rng = np.random.default_rng(2)
    factor = 1.0 + 0.04 * rng.standard_normal(12)
    time_s = np.arange(0.0, 72_000.0, 60.0)
    series = [
        NodeSeries("7", f"n{k}", time_s, np.zeros((len(time_s), 5)), 200.0 * f * rng.normal(1.0, 0.02, len(time_s)), 0)
        for k, f in enumerate(factor)
    ]
    figures = node_figures(series)["7"]
    assert figures["nodes"] == 12.0
    assert figures["error_percent"] < 0.3
    assert figures["error_without_percent"] > 1.0
    assert figures["drifts"] == 0.0


@pytest.mark.compiled
def test_all_tables_of_a_small_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "DAY_JOBS", 200)
    monkeypatch.setattr(sites, "SOCKETS", 64)
    monkeypatch.setattr(policies, "JOBS", 200)
    both = runs("a", seed=2, noise=0.02), runs("b", seed=3, noise=0.02)
    measured = {"a + b": sites.MeasuredPair(chip_pair(*both), both, "a")}
    found = compare_extensions(measured, {"7": {"nodes": 2.0, "spread_percent": 1.0, "error_without_percent": 1.0,
        "error_percent": 0.5, "covered_percent": 90.0, "drifts": 0.0}}, 2, 1)  # fmt: skip
    shown = list(tables(found))
    assert len(shown) == 9
    assert max(len(line) for table in shown for line in table.lines()) <= 80
    assert all("Extensions" in table.html() for table in shown)
    own, none = (found.learning.of(GENERATED, name, "error_percent") for name in ("telemetry, a week", "no factors"))
    assert (own < none / 2).all()
    for setting in found.policies.settings:
        number, oracle = (found.policies.of(setting, p, "energy_j") for p in (policies.BY_NUMBER, policies.ORACLE))
        assert (oracle < number).all()
        saved, bound = (
            found.policies.of(setting, policies.OWN, f"{name}_saved_percent") for name in ("joint", "bound")
        )
        assert (np.abs(saved) < 2.0).all()
        assert (bound > 0.0).all()
    text = json.dumps(document(found), allow_nan=False)
    assert '"bound_saved_percent"' in text
