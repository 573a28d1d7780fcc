"""The study of replayed schedules: measures by hand, the report, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from typer.testing import CliRunner

from wattqueue.cli import _app
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue_studies.replay.study import (
    OWN,
    PLACES,
    REPLAYS,
    SETTING,
    STARTS,
    Experiment,
    by_socket,
    estimates_of,
    machine,
)
from wattqueue_studies.variability.codes import applications
from wattqueue_studies.variability.physics import draw_chips

SINGLE = [name for name, code in applications().items() if code.processes == 1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A traffic with one job of each application; estimates 20 s, 30 s, ..."""
    rows = [f"{k},0,{app},1,{20.0 + 10 * k}" for k, app in enumerate(SINGLE)]
    text = "\n".join(["job_id,submit_s,app,sockets,estimated_s", *rows]) + "\n"
    (tmp_path / "traffic_bursty.csv").write_text(text)
    return tmp_path


def test_a_replay_of_the_own_record_changes_nothing(folder: Path) -> None:
    trial = Experiment(estimates_of(folder)).draw(1)
    found = {name: trial(name) for name in REPLAYS}
    assert found[OWN]["time_change_percent"] == 0.0
    assert found[OWN]["moved_s"] == 0.0
    assert found[OWN]["energy_change_percent"] == pytest.approx(0.0, abs=1e-9)
    for name in (PLACES, STARTS):
        assert 0.0 < found[name]["time_change_percent"] < 1.0, "samples of 100 ms count whole"
        assert 0.0 < abs(found[name]["energy_change_percent"]) < 2.0
    assert found[PLACES]["moved_s"] < 10.0


def test_recordings_have_whole_samples_and_other_watts(folder: Path) -> None:
    case, rng = Experiment(estimates_of(folder)), np.random.default_rng(0)
    jobs = case.jobs(rng)
    assert len(jobs) == 100
    assert np.unique(jobs.submit_s, return_counts=True)[1].tolist() == [10] * 10
    chips = draw_chips(rng, machine().units, tuple(applications()))
    truth, known = case.truth(jobs, chips), case.recorded(rng, jobs, chips)
    assert truth.unit_time_factor is not None
    assert known.unit_time_factor is not None
    alone = np.array([case.estimates_s[app] for app in jobs.app.names])[:, np.newaxis]
    samples = known.unit_time_factor * alone / 0.1
    np.testing.assert_allclose(samples, np.rint(samples), atol=1e-6)
    late = (known.unit_time_factor - truth.unit_time_factor) * alone
    assert (late > -1e-6).all()
    assert (late < 0.1 + 1e-6).all()
    np.testing.assert_allclose(known.power_w, truth.power_w, rtol=0.01)


def test_figures_by_socket_are_means_and_factors() -> None:
    jobs = Jobs.build([0.0], [1], [10.0], app=Labels.of(["cg"]))
    found = by_socket(jobs, np.array([[90.0, 110.0]]), np.array([[1.0, 1.2]]))
    assert found.power_w.tolist() == [[100.0]]
    assert found.unit_factor is not None
    np.testing.assert_allclose(found.unit_factor, [[0.9, 1.1]])


def test_a_traffic_without_an_application_is_refused(folder: Path) -> None:
    file = folder / "traffic_bursty.csv"
    file.write_text("\n".join(file.read_text().splitlines()[:3]) + "\n")
    with pytest.raises(InputError, match="no job of"):
        estimates_of(folder)


def test_the_command_prints_and_writes_the_report(folder: Path) -> None:
    words = [
        "study",
        "replay",
        str(folder),
        "--seeds",
        "2",
        "-o",
        str(folder),
    ]
    done = CliRunner().invoke(_app.build(words), words)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.output.splitlines())) <= 80
    assert "not comparable" in done.output
    data = json.loads((folder / "study.json").read_text())
    assert data["study"] == "replay"
    assert {row["setting"] for row in data["results"]} == {SETTING}
    assert {row["replay"] for row in data["results"]} == set(REPLAYS)
    assert len(data["claims"]) == 3
