"""Misnamed jobs of paper 1's study: drawn as stated, measured as stated, and what the check finds of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue_studies.eamc.cirne import DAY_S, CirneModel
from wattqueue_studies.eamc.misnamed import CHECKED, MISNAMED, NAMED, NOISES, CounterNoise, Misnamed, misname, misnamed
from wattqueue_studies.eamc.workloads import profiles_from, systems, tables_from, workload

SMALL = CirneModel(jobs=120, span_s=0.2 * DAY_S)


def case(data_dir: Path, **more: object) -> Misnamed:
    files = data_dir / "eamc/eamc_coefficients_tidy.csv", data_dir / "eamc/eamc_apps.csv"
    tables = tables_from(*files)
    assert tables is not None
    return Misnamed(systems(profiles_from(*files))["p1/p2"], tables, model=SMALL, **more)  # type: ignore[arg-type]


def test_a_misnamed_job_claims_another_application() -> None:
    jobs = workload(13, 1, CirneModel(jobs=4_000, span_s=DAY_S))
    claimed, wrong = misname(jobs, 5.0, np.random.default_rng(1))
    np.testing.assert_array_equal(claimed.app.values() != jobs.app.values(), wrong)
    assert wrong.mean() == pytest.approx(0.05, abs=0.01)
    assert set(claimed.app.values()[wrong]) == set(jobs.app.names)


def test_without_misnamed_jobs_nothing_is_found_or_changed(data_dir: Path) -> None:
    trial = case(data_dir, noise=CounterNoise(0.0, 0.0, 0.0), percent=0.0).draw(1)
    named, checked = trial(NAMED), trial(CHECKED)
    assert checked["false_alarm_percent"] == 0.0
    assert np.isnan(checked["found_percent"])
    assert {k: checked[k] for k in named} == named


def test_exact_counters_find_every_job_that_is_measured_and_save_energy(data_dir: Path) -> None:
    trial = case(data_dir, noise=CounterNoise(0.0, 0.0, 0.0), percent=30.0).draw(1)
    checked, misnamed_run = trial(CHECKED), trial(MISNAMED)
    assert checked["found_percent"] > 90.0
    assert checked["identified_percent"] == 100.0
    assert checked["misnamed_energy_j"] < misnamed_run["misnamed_energy_j"]


def test_counters_that_say_nothing_raise_false_alarms(data_dir: Path) -> None:
    wild = CounterNoise(2.0, 2.0, 2.0)
    assert case(data_dir, noise=wild).draw(1)(CHECKED)["false_alarm_percent"] > 20.0


def test_the_tables_have_every_noise(data_dir: Path) -> None:
    of = case(data_dir)
    found = misnamed(of.system, of.tables, range(2), model=SMALL)
    assert found.found.heads == ("app-check", *NOISES)
    assert len(found.comparisons.rows) == 3 * len(NOISES)
    assert {row["run"] for row in found.document()["samples"]} == {NAMED, MISNAMED, CHECKED}


def test_a_negative_noise_is_refused() -> None:
    with pytest.raises(InputError, match="0 or more"):
        CounterNoise(power=-0.1)
