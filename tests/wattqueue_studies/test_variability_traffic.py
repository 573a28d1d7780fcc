"""The paper's traffic: names, generated profiles, true watts by socket, the verb."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wattqueue.errors import InputError
from wattqueue.formats.read import read_workload
from wattqueue.formats.unit_factors import read_unit_factors
from wattqueue.formats.workloads.cwm import read_cwm
from wattqueue.model.jobs import Jobs
from wattqueue_studies.cli.pmc import app
from wattqueue_studies.variability.codes import applications
from wattqueue_studies.variability.physics import LIMIT_W, Chips, draw_chips
from wattqueue_studies.variability.traffic import unit_truth, with_sp_mz, with_watts

ROWS = """job_id,submit_s,app,sockets,estimated_s
1,0,ferret,1,50.0
2,0,bt-mz_D.8,8,120.0
3,10,bt-mz_D.8,8,240.0
4,10,bt-mz_D.16,16,200.0
5,20,bt-mz_D.16,16,200.0
6,20,lu-mz_C.16,16,50.0
7,30,facesim,1,350.0
8,30,,1,350.0
9,40,ferret,0,10.0
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "traffic.csv"
    file.write_text(ROWS)
    return file


def test_a_traffic_is_recognised_and_read(path: Path) -> None:
    read = read_workload(path)
    assert read.format == "cwm"
    assert read.jobs.job_id.tolist() == ["1", "2", "3", "4", "5", "6", "7"]
    assert read.jobs.runtime_s.tolist() == read.jobs.walltime_s.tolist()
    assert [line for line, *_ in read.unusable.rows()] == [9, 10]
    assert any("not published" in note for note in read.notes)


def test_the_assumed_names(path: Path) -> None:
    named = with_sp_mz(read_cwm(path).jobs).app.values().tolist()
    assert named[1:5] == ["sp-mz_D.8", "bt-mz_D.8", "bt-mz_D.16", "sp-mz_D.16"]
    with pytest.raises(InputError):
        with_sp_mz(Jobs.build([0.0], [1], [1.0], app=["namd"]))


def test_generated_profiles(path: Path) -> None:
    jobs = with_watts(read_cwm(path).jobs)
    assert jobs.origin == "generated"
    assert jobs.extra["cores"].tolist() == [16, 128, 128, 256, 256, 16, 8]
    assert jobs.profiles is not None
    assert jobs.profiles.period_s == 0.1
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    samples = jobs.profiles.samples_w(6, 350.0)
    assert len(samples) == 3_500
    assert samples.mean() == pytest.approx(jobs.mean_power_w[6])
    assert samples.max() == pytest.approx(jobs.max_power_w[6])
    assert jobs.max_power_w[6] < 60.0
    assert jobs.max_power_w.max() <= LIMIT_W
    assert jobs.mean_power_w[5] < 40.0
    # A phase lasts 1 s at most, so a second holds different watts.
    assert np.ptp(samples[200:220]) > 1.0


def test_the_truth_of_equal_chips_is_the_profile(path: Path) -> None:
    names = tuple(applications())
    equal = Chips(np.ones(2), np.ones((16, 2)), np.ones(2), np.full(2, 40.0), names)
    truth = unit_truth(equal)
    np.testing.assert_allclose(truth.mean.factor, 1.0)
    jobs = with_watts(read_cwm(path).jobs)
    assert jobs.profiles is not None
    for row, name in ((0, "ferret"), (1, "sp-mz_D.8")):
        base = truth.mean.base_w[names.index(name)]
        assert jobs.profiles.samples_w(row, 60.0).mean() == pytest.approx(base, rel=1e-6)


def test_whole_machine_draws_what_the_paper_says(data_dir: Path) -> None:
    """Section 4.4: 25 kW for 256 sockets, read as the sum of peaks of the heavy traffic's mix, 97.7 W a socket."""
    heavy = with_watts(read_cwm(data_dir / "variability/traffic_heavy.csv").jobs)
    bursty = with_watts(read_cwm(data_dir / "variability/traffic_bursty.csv").jobs)
    assert (len(bursty), len(heavy)) == (763, 2_286)
    assert len(heavy.app.names) == 16
    assert heavy.max_power_w is not None
    mix = np.average(heavy.max_power_w, weights=heavy.nodes * heavy.runtime_s)
    assert mix == pytest.approx(97.7, abs=1.0)


def test_the_verb(path: Path, tmp_path: Path) -> None:
    out, factors = tmp_path / "jobs.parquet", tmp_path / "factors.csv"
    done = CliRunner().invoke(
        app, ["traffic", str(path), "-o", str(out), "--factors", str(factors), "--sockets", "8", "--seed", "3"]
    )
    assert done.exit_code == 0, done.output
    jobs = read_workload(out).jobs
    assert jobs.origin == "generated"
    assert jobs.profiles is not None
    table = read_unit_factors(factors)
    assert (len(table.apps), len(table.units), table.origin) == (16, 8, "generated")


def test_draws_differ_by_seed_alone() -> None:
    names = tuple(applications())
    one, two = (unit_truth(draw_chips(np.random.default_rng(s), 4, names)).mean.factor for s in (1, 2))
    assert np.abs(one - two).max() > 0.01
