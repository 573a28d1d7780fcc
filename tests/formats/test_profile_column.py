"""Power profiles in a Parquet job table, both ways."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.formats.refusal import refused
from wattqueue.formats.table import profile_column
from wattqueue.formats.table.job_table import read_table, write_table
from wattqueue.model.jobs import Jobs
from wattqueue.model.profiles import PowerProfiles
from wattqueue.workload.marconi import generate


def recorded(period_s: float = 20.0) -> Jobs:
    profiles = PowerProfiles.from_samples([[100.0, 300.0, 200.0], [], [50.0]], period_s)
    jobs = Jobs.build([0.0, 5.0, 9.0], [1, 2, 1], [50.0, 70.0, 90.0], mean_power_w=[np.nan, 120.0, np.nan])
    return replace(jobs, profiles=profiles)


def table(folder: Path, **columns: object) -> Path:
    path = folder / "jobs.parquet"
    pl.DataFrame({"submit_s": [0.0, 1.0], "nodes": [1, 1], "runtime_s": [40.0, 40.0], **columns}).write_parquet(path)
    return path


@pytest.mark.parametrize("period_s", [20.0, 7.5])
def test_recorded_profiles_come_back(tmp_path: Path, period_s: float) -> None:
    jobs = recorded(period_s)
    write_table(tmp_path / "jobs.parquet", jobs)
    back = read_table(tmp_path / "jobs.parquet")
    assert back.profiles is not None
    assert jobs.profiles is not None
    assert back.profiles.period_s == period_s
    assert back.profiles.pattern.tolist() == [0, -1, 1]
    for job in range(3):
        run_s = float(jobs.runtime_s[job])
        assert back.profiles.samples_w(job, run_s).tolist() == jobs.profiles.samples_w(job, run_s).tolist()
    assert back.mean_power_w is not None
    assert back.mean_power_w[1] == 120.0  # stated, no profile


def test_gaps_are_filled_from_the_profile(tmp_path: Path) -> None:
    path = table(tmp_path, power_profile_w=[[100.0, 300.0], None])
    back = read_table(path)
    assert back.mean_power_w is not None
    assert back.max_power_w is not None
    assert back.mean_power_w[0] == 200.0
    assert back.max_power_w[0] == 300.0
    assert np.isnan(back.mean_power_w[1])


def test_a_generated_week_comes_back_to_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_column, "_SAMPLES_A_PIECE", 5_000)  # many pieces
    jobs = generate(np.random.default_rng(2), days=0.3)
    write_table(tmp_path / "a.parquet", jobs)
    write_table(tmp_path / "b.parquet", jobs)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    back = read_table(tmp_path / "a.parquet")
    assert back.profiles is not None
    assert jobs.profiles is not None
    assert back.mean_power_w is not None
    np.testing.assert_array_equal(back.mean_power_w, jobs.mean_power_w)
    work = np.minimum(jobs.runtime_s, jobs.walltime_s)
    np.testing.assert_allclose(back.profiles.mean_power_w(work), jobs.profiles.mean_power_w(work), rtol=1e-6)
    np.testing.assert_allclose(back.profiles.max_power_w(work), jobs.profiles.max_power_w(work), rtol=1e-6)


def test_the_highest_reading_of_a_single_unit_is_no_contradiction(tmp_path: Path) -> None:
    path = table(tmp_path, power_profile_w=[[100.0], [50.0]], max_power_w=[160.0, 40.0])
    back = read_table(path)
    assert back.max_power_w is not None
    assert back.max_power_w.tolist() == [160.0, 40.0], "the second was read in steps of 20 W"


def test_csv_carries_none(tmp_path: Path) -> None:
    write_table(tmp_path / "jobs.csv", recorded())
    assert read_table(tmp_path / "jobs.csv").profiles is None


@pytest.mark.parametrize(
    ("columns", "row", "facts"),
    [
        ({"power_profile_w": [[1.0, -2.0], [3.0]]}, ": row 1", ("power_profile_w", "-2.0")),
        ({"power_profile_w": [[1.0], [3.0, None]]}, ": row 2", ("power_profile_w", "nan")),
        ({"power_profile_w": [[1.0], [np.inf]]}, ": row 2", ("power_profile_w", "inf")),
        ({"power_profile_w": ["1", "2"]}, "", ("String",)),
        ({"power_profile_w": [["a"], ["b"]]}, "", ("power_profile_w",)),
        ({"power_profile_w": [[100.0], [50.0]], "mean_power_w": [100.0, 60.0]}, ": row 2", ("mean_power_w", "60")),
        ({"power_profile_w": [[100.0], [50.0]], "max_power_w": [89.5, 39.0]}, ": row 2", ("max_power_w", "39")),
    ],
)
def test_what_is_no_profile(tmp_path: Path, columns: dict[str, object], row: str, facts: tuple[str, ...]) -> None:
    path = table(tmp_path, **columns)
    with refused(f"{path}{row}", *facts):
        read_table(path)
