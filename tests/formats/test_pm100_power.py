"""PM100's lists of watts as power profiles: against a loop over each job, and replayed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from wattqueue.cli import _app
from wattqueue.formats.pm100.jobs import read_pm100
from wattqueue.formats.pm100.power import Recorded, recorded_power
from wattqueue.formats.table.job_table import read_table
from wattqueue.model.machine import plain_machine
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.sim.profiles import with_profiles

Samples = list[float | None] | None


def power(samples: list[Samples], nodes: list[int], runtime: list[float], work: list[float] | None = None) -> Recorded:
    column = pl.Series(samples, dtype=pl.List(pl.Float32))
    return recorded_power(column, np.array(nodes, float), np.array(runtime), np.array(work or runtime))


def naive(samples: Samples, nodes: int, runtime: float, work: float) -> tuple[float, float, list[float]]:
    """Mean, maximum and mended samples of one job, by the rules of the guide; none of the last without a profile."""
    watts = [np.float32(np.nan if w is None else w) / np.float32(nodes) for w in samples or []]
    readings = [float(w) for w in watts if w > 0]
    if not readings or np.mean(readings) < 10 or max(readings) > 20_000:
        return np.nan, np.nan, []
    periods = int(np.ceil(runtime / 20))
    spare = max(0.1 * periods, 1)
    if len(readings) < periods - spare or len(watts) > periods + spare:
        return float(np.mean(readings)), max(readings), []
    mended: list[float] = []
    for w in watts:
        mended.append(float(w) if w > 0 else mended[-1] if mended else readings[0])
    drawn = [mended[min(k, len(mended) - 1)] for k in range(int(np.ceil(work / 20)))]
    seconds = [min(20.0, work - 20 * k) for k in range(len(drawn))]
    return float(np.dot(drawn, seconds) / work), max(drawn), mended


@st.composite
def jobs_with_samples(draw: st.DrawFn) -> tuple[Samples, int, float, float]:
    runtime = draw(st.integers(1, 700))
    count = max(0, -(-runtime // 20) + draw(st.integers(-3, 3)))
    reading = st.sampled_from([None, 0.0, -40.0, 90.0, 800.0, 840.0, 1210.0, 1e5])
    odd = draw(st.integers(0, 4))
    samples: Samples = draw(st.lists(reading if odd == 0 else st.floats(400, 2000), min_size=count, max_size=count))
    return (
        (None if odd == 4 else samples),
        draw(st.integers(1, 4)),
        float(runtime),
        float(draw(st.integers(1, runtime))),
    )


@given(st.lists(jobs_with_samples(), min_size=1, max_size=8))
def test_every_list_is_what_a_loop_makes_of_it(jobs: list[tuple[Samples, int, float, float]]) -> None:
    got = power([j[0] for j in jobs], [j[1] for j in jobs], [j[2] for j in jobs], [j[3] for j in jobs])
    want = [naive(*job) for job in jobs]
    np.testing.assert_allclose(got.mean_w, [w[0] for w in want], rtol=1e-6)
    np.testing.assert_allclose(got.max_w, [w[1] for w in want], rtol=1e-6)
    have = [i for i, w in enumerate(want) if w[2]]
    assert (got.profiles is not None) == bool(have)
    assert got.uncovered == sum(np.isfinite(w[0]) and not w[2] for w in want)
    if got.profiles is not None:
        assert np.flatnonzero(got.profiles.pattern >= 0).tolist() == have
        for i in have:
            assert got.profiles.samples_w(i, 20.0 * len(want[i][2])).tolist() == pytest.approx(want[i][2])


def test_watts_of_a_node_weighted_by_time() -> None:
    got = power([[200, 400, 600]], [2], [50.0])
    assert got.mean_w.tolist() == [(20 * 100 + 20 * 200 + 10 * 300) / 50]
    assert got.max_w.tolist() == [300.0]
    assert power([[200, 400, 600]], [2], [50.0], [30.0]).max_w.tolist() == [200.0]  # its limit ends it


@pytest.mark.parametrize(
    ("runtime_s", "samples", "covered"),
    [(400, 18, True), (400, 17, False), (400, 22, True), (400, 23, False), (3, 1, True), (25, 1, True), (41, 1, False)],
)
def test_a_list_may_be_a_tenth_short_or_long(runtime_s: float, samples: int, covered: bool) -> None:
    got = power([[500.0] * samples], [1], [runtime_s])
    assert (got.profiles is not None) == covered
    assert got.uncovered == (not covered)
    assert got.mean_w.tolist() == [500.0]


def test_failed_readings_stay_within_their_list() -> None:
    got = power([[100, 0, None, 130], [None, 90, 80], None, []], [1, 1, 1, 1], [79.0, 60.0, 60.0, 60.0])
    assert got.broken == 2
    assert got.uncovered == 1  # 2 readings of 4
    assert got.profiles is not None
    assert got.profiles.pattern.tolist() == [-1, 0, -1, -1]
    assert got.profiles.level.tolist() == [90.0, 90.0, 80.0]
    assert got.mean_w[:2].tolist() == [115.0, pytest.approx(260 / 3)]


def pm100(path: Path, jobs: int = 40) -> Path:
    """A generated PM100 table: jobs of 1 to 4 nodes with a sample every 20 s, some lists odd."""
    rng = np.random.default_rng(5)
    nodes = rng.integers(1, 5, jobs)
    run_s = rng.integers(5, 2000, jobs)
    samples: list[Samples] = [
        (10.0 * rng.integers(40, 150, -(-r // 20)) * n).tolist() for r, n in zip(run_s.tolist(), nodes, strict=True)
    ]
    samples[3], samples[4] = None, [900.0]
    submit = datetime(2020, 5, 4, tzinfo=UTC).timestamp() + np.sort(rng.integers(0, 3000, jobs))[::-1]
    frame = pl.DataFrame(
        {
            "job_id": np.arange(jobs) + 100,
            "submit_time": pl.Series((submit * 1000).astype(np.int64)).cast(pl.Datetime("ms", "UTC")),
            "run_time": run_s,
            "time_limit": np.maximum(1, run_s // 30),
            "num_nodes_alloc": nodes,
            "node_power_consumption": samples,
        },
        strict=False,
    )
    frame.write_parquet(path)
    return path


def test_an_import_replays_every_sample(tmp_path: Path) -> None:
    path = pm100(tmp_path / "job_table.parquet")
    words = ["import", str(path), "-o", str(tmp_path / "jobs.parquet")]
    said = CliRunner().invoke(_app.build(words), words).output
    assert "power profiles of 38 jobs (95 %)" in said
    assert "1 jobs have samples that do not cover their run" in said
    assert "left out" not in said
    direct, table = read_pm100(path).jobs, read_table(tmp_path / "jobs.parquet")
    runs = [with_profiles(simulate(jobs, plain_machine(8, 100.0), load_policy("easy"))) for jobs in (direct, table)]
    assert all((getattr(runs[0].power, n) == getattr(runs[1].power, n)).all() for n in ("time_s", "jobs_w", "other_w"))
    by_id = {row["job_id"]: row for row in pl.read_parquet(path).iter_rows(named=True)}
    for job, energy in zip(table.job_id.tolist(), runs[1].schedule.energy_j.tolist(), strict=True):
        row = by_id[job]
        samples, run_s = row["node_power_consumption"], min(row["run_time"], 60.0 * row["time_limit"])
        if samples and len(samples) > 1:
            seconds = np.clip(run_s - 20.0 * np.arange(len(samples)), 0, 20)
            assert energy == pytest.approx(float(np.dot(samples, seconds)), rel=1e-6)


def test_a_csv_says_what_it_leaves_out(tmp_path: Path) -> None:
    words = ["import", str(pm100(tmp_path / "job_table.parquet")), "-o", str(tmp_path / "jobs.csv")]
    assert (
        "the power profiles are left out: only a .parquet holds them"
        in CliRunner().invoke(_app.build(words), words).output
    )
