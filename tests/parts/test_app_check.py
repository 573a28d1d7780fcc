"""The whole of section 3.4 in a simulation: found, re-clocked, recorded, and what follows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.formats.ear.files import read_apps_csv, read_coefficients_csv
from wattqueue.model.app_check import Consequence, Ladder, behind, without_claims
from wattqueue.model.app_profiles import ear_profiles
from wattqueue.model.ear import Signatures, at_frequency
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.controls.app_check import AppCheck
from wattqueue.parts.estimator.ear import Ear
from wattqueue.parts.order.penalised import Penalised
from wattqueue.parts.order.priority_inc import PriorityInc
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.store.applications import ApplicationDatabase, Misfit

APPS = tuple("12345678")


class Lab:
    """p1 alone; jobs that say one thing and do another. The readings are those of what they do."""

    def __init__(self, folder: Path, claimed: list[str], real: list[str], users: list[str]) -> None:
        self.coefficients = {"p1": read_coefficients_csv(folder / "eamc/eamc_coefficients_tidy.csv")["p1"]}
        self.metrics = {"p1": read_apps_csv(folder / "eamc/eamc_apps.csv")[1][0]}
        profiles = ear_profiles(APPS, self.coefficients, self.metrics)
        hz = tuple(profiles.on("p1").frequency_hz.tolist())
        self.machine = Machine("p1", (Partition("p1", 8, frequencies_hz=hz, max_w=500.0),))
        self.estimator = Ear(profiles=profiles)
        n = len(claimed)
        self.jobs = Jobs.build(np.arange(n) * 10.0, [1] * n, [7200.0] * n, app=claimed, user=users)
        self.real = real
        truth = Jobs.build(np.zeros(n), [1] * n, [7200.0] * n, app=real)
        self.actual: Prediction = self.estimator.predict(KnownJobs.of(truth), self.machine)

    def measure(self, view: View, job: int) -> Signatures:
        table, i = self.coefficients["p1"], APPS.index(self.real[job])
        m = self.metrics["p1"]
        one = Signatures(*(getattr(m, c)[i : i + 1] for c in ("time_s", "power_w", "cpi", "tpi")))
        return at_frequency(table, one, table.nominal_hz, float(self.machine.option_frequency_hz[view.job_option(job)]))

    def run(self, *controls: AppCheck) -> Run:
        policy = load_policy("eamc-priority-inc", estimator=self.estimator, controls=list(controls))
        return simulate(self.jobs, self.machine, policy, actual=self.actual)


def test_a_job_under_a_wrong_name_is_found_slowed_down_and_recorded(data_dir: Path, tmp_path: Path) -> None:
    # eve runs STREAM as ep.D (2.5 GHz); bob's ep.D and STREAM are what they say.
    lab = Lab(data_dir, ["2", "2", "8"], ["8", "2", "8"], ["eve", "bob", "bob"])
    database = ApplicationDatabase.open(tmp_path / "apps.db")

    def record(job: str, user: str, claimed: str, found: str, distance: float, time_s: float) -> None:
        database.record_misfit(Misfit(job, user, time_s, claimed, found, distance))

    check = AppCheck(
        apps=APPS, applications=lab.metrics, coefficients=lab.coefficients, measure=lab.measure, report=record
    )
    with_check, without = lab.run(check), lab.run()
    assert [(m.job_id, m.claimed, m.found) for m in database.misfits("eve")] == [("1", "2", "8")]
    assert database.misfits("bob") == []
    assert 60.0 <= database.misfits("eve")[0].time_s <= 180.0
    # STREAM goes on at 1.2 GHz: three quarters of the watts, hardly longer.
    saved = 1 - with_check.schedule.energy_j / without.schedule.energy_j
    assert saved[0] == pytest.approx(0.25, abs=0.05)
    assert saved[1] == pytest.approx(0.0, abs=1e-9)
    assert saved[2] == pytest.approx(0.0, abs=1e-9)
    database.engine.dispose()


def test_a_first_run_gets_its_frequency_as_soon_as_there_is_data(data_dir: Path) -> None:
    lab = Lab(data_dir, ["new"], ["8"], ["eve"])
    told: list[str] = []
    check = AppCheck(
        apps=APPS,
        applications=lab.metrics,
        coefficients=lab.coefficients,
        measure=lab.measure,
        report=lambda *what: told.append(str(what)),
    )
    with_check, without = lab.run(check), lab.run()
    assert with_check.schedule.energy_j[0] < 0.8 * without.schedule.energy_j[0]
    assert told == []


def test_nothing_is_done_without_coefficients(data_dir: Path) -> None:
    lab = Lab(data_dir, ["2"], ["8"], ["eve"])
    mute = AppCheck(apps=APPS, applications=lab.metrics, measure=lab.measure)
    assert (lab.run(mute).schedule.energy_j == lab.run().schedule.energy_j).all()
    with pytest.raises(PolicyError):
        lab.run(AppCheck(apps=APPS, applications=lab.metrics, coefficients=lab.coefficients))  # nothing measures


def test_what_follows_a_repeated_misfit(data_dir: Path, tmp_path: Path) -> None:
    lab = Lab(data_dir, ["2"] * 3 + ["1"], ["8"] * 3 + ["1"], ["eve"] * 3 + ["bob"])
    database = ApplicationDatabase.open(tmp_path / "apps.db")
    for i in range(3):
        database.record_misfit(Misfit(str(i), "eve", 100.0 * i, "2", "8", 5.0))
    database.record_misfit(Misfit("3", "ann", 150.0, "2", "8", 5.0))
    ladder = Ladder(warning=1, lower_priority=2, no_choice=3, window_s=200.0)
    record = database.consequences(ladder, now_s=199.9)
    assert record == {"eve": Consequence.LOWER_PRIORITY, "ann": Consequence.WARNING}  # the third is not there yet
    assert behind(record) == {"eve"}
    # The window ends with now: what is as old as it is forgotten.
    assert database.consequences(ladder, now_s=300.0) == {"eve": Consequence.WARNING, "ann": Consequence.WARNING}
    assert database.consequences(ladder, now_s=400.0) == {}
    record = database.consequences(replace(ladder, window_s=1e6), now_s=300.0)
    assert record["eve"] == Consequence.NO_CHOICE
    barred = without_claims(lab.jobs, record)
    assert barred.app.values().tolist() == ["", "", "", "1"]
    order = Penalised(inner=PriorityInc(), users=behind(record))
    prediction = lab.estimator.predict(KnownJobs.of(barred), lab.machine)
    entries = order.entries(KnownJobs.of(barred), prediction, lab.machine)
    by_job = dict(zip(entries.job.tolist(), entries.priority.tolist(), strict=True))
    assert max(by_job[j] for j in range(3)) < by_job[3]
    # Without a choice a job is a first run: the highest frequency, and no other.
    assert np.isfinite(prediction.power_w[prediction.row[0]]).sum() == 1  # type: ignore[index]
    assert (
        Penalised(inner=PriorityInc()).entries(KnownJobs.of(barred), prediction, lab.machine).priority.tolist()
        == [0.0] * 4
    )
    database.engine.dispose()
