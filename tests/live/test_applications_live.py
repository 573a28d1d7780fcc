"""EAR's profiles come from the configured database, and what telemetry measures goes back into it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import ACCEPTS_ALL, lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_controller import Meter
from wattqueue.errors import InputError
from wattqueue.formats.ear.files import write_coefficients_csv
from wattqueue.live.cluster import JobKey
from wattqueue.live.config import load_config
from wattqueue.live.features.applications import Applications
from wattqueue.live.planner import Rules
from wattqueue.live.requests import JobRequest, MeasuredJob
from wattqueue.model.ear import Coefficients
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.store.applications import AppRun

GHZ = 1e9
HIGH, LOW = 2 * GHZ, 1 * GHZ


def table() -> Coefficients:
    """2 GHz and 1 GHz: at 1 GHz half the watts and 40 W, CPI 0.9 times (so 1.8 times the run time)."""
    down, up = [0.5, 0.0, 40.0, 0.9, 0.0, 0.0], [2.0, 0.0, -80.0, 1 / 0.9, 0.0, 0.0]
    one = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    ref, target = np.array([HIGH, HIGH, LOW, LOW]), np.array([HIGH, LOW, HIGH, LOW])
    return Coefficients.of_pairs(ref, target, [1, 1, 1, 1], [one, down, up, one])


@pytest.fixture
def site(tmp_path: Path) -> Applications:
    write_coefficients_csv(tmp_path / "ear.csv", {"p1": table(), "p2": table()})
    found = Applications.open(str(tmp_path / "apps.db"), tmp_path / "ear.csv", "estimate")
    found.database.learn([AppRun("lu", "p1", HIGH, 100.0, 260.0, 0.5, 20.0)])
    return found


def measured(watts: float, hertz: float, seconds: float, app: str = "lu", hardware: str = "p1") -> MeasuredJob:
    request = JobRequest(JobKey("1", 10.0), "u1", app, "p1", 1, 600.0)
    return MeasuredJob(request, 20.0, 20.0 + seconds, watts, watts, 260.0, hardware, hertz)


def test_a_measured_job_moves_its_entry_at_the_nominal_frequency(site: Applications) -> None:
    assert site.learn([measured(280.0, HIGH, 100.0)]) == 1
    assert site.learn([measured(0.5 * 270.0 + 40.0, LOW, 180.0)]) == 1, "a slow run, projected back"
    entry = site.database.entry("lu", "p1")
    assert entry is not None
    assert (entry.runs, entry.frequency_hz) == (3, HIGH)
    assert [entry.power_w, entry.time_s] == pytest.approx([270.0, 100.0])
    assert [entry.cpi, entry.tpi] == pytest.approx([0.5, 20.0]), "nobody measured instructions"


@pytest.mark.parametrize(
    "job",
    [
        measured(280.0, HIGH, 100.0, app="new"),
        measured(280.0, HIGH, 100.0, hardware="p2"),
        measured(280.0, HIGH, 100.0, hardware=""),
        measured(280.0, 1.5 * GHZ, 100.0),
        measured(0.0, HIGH, 100.0),
        measured(math.nan, HIGH, 100.0),
        measured(280.0, HIGH, 0.0),
    ],
)
def test_what_cannot_be_compared_is_left_out(site: Applications, job: MeasuredJob) -> None:
    assert site.learn([job]) == 0


def test_a_site_that_runs_predicts_better(site: Applications, tmp_path: Path) -> None:
    """A job of 180 W was expected to draw 260 W: the next one's licence is what the database has learned."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    policy = site.into(load_policy("easy+estimator=ear+order=best-only"))
    rules = Rules(
        mode="control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL, warm_up_s=1e9, margin=0.0
    )
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0), policy=policy, rules=rules,
        machine=lab_machine(8, (HIGH, LOW)), sources=(Meter(slurm),), applications=site,
    )  # fmt: skip
    jobs = []
    for _ in range(2):
        jobs.append(slurm.submit(1, 100.0, watts=200, app="lu", partition="p1"))
        for _ in range(130):
            controller.round()
            slurm.step()
    assert [job.state for job in jobs] == ["COMPLETED"] * 2
    entry = site.database.entry("lu", "p1")
    assert entry is not None
    assert entry.runs == 3
    assert entry.power_w == pytest.approx((260.0 + 180.0 + 180.0) / 3, abs=1.0)
    assert [job.licences["watts"] for job in jobs] == [160, 120], "260 W, then the mean of 260 and 180, above idle"


def test_a_policy_that_asks_no_applications_is_told(site: Applications) -> None:
    with pytest.raises(InputError) as caught:
        site.into(load_policy("easy"))
    assert caught.value.where == "applications"
    assert caught.value.hint


def test_the_section_names_its_files_from_the_configurations_folder(tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    file.write_text('machine = "m"\n[applications]\ndatabase = "apps.db"\ncoefficients = "ear.csv"\n')
    section = load_config(file).applications
    assert section is not None
    assert section.database == str(tmp_path / "apps.db")
    assert section.coefficients == tmp_path / "ear.csv"
    file.write_text('machine = "m"\n[applications]\ndatabase = "apps.db"\n')
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert caught.value.where == file
    assert "applications.coefficients" in caught.value.what
