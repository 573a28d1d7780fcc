"""campaign as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.program import wattqueue

# Whole runs: long with kernels as plain Python.
pytestmark = pytest.mark.compiled

TRACE = "".join(
    f"{i} {i * 10} -1 {60 + i % 7 * 30} {1 + i % 5} -1 -1 {1 + i % 5} 400 -1 1 1 1 1 -1 -1 -1 -1\n"
    for i in range(1, 80)
)
GRID = """
workloads = ["trace.swf", { trace = "trace.swf", begin = "100s", length = "5min" }]
nodes = 8
node_watts = "95:190.7"
policies = ["easy", "first-fit"]
estimators = ["maximum", "history-mean"]
caps = ["none", "80%"]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    (tmp_path / "trace.swf").write_text(TRACE)
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def test_one_table_whatever_the_workers_and_restarts(grid: Path) -> None:
    done = wattqueue("campaign", grid, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "16 runs done" in done.stdout
    found = grid.with_suffix("") / "results.parquet"
    alone = grid.parent / "alone"
    assert wattqueue("campaign", grid, "--workers", "1", "--out", alone).returncode == 0
    assert (alone / "results.parquet").read_bytes() == found.read_bytes()
    again = wattqueue("campaign", grid)
    assert "0 runs done, 16 kept" in again.stdout
    assert (alone / "results.parquet").read_bytes() == found.read_bytes()


def test_rows_are_the_metrics_of_simulate(grid: Path, tmp_path: Path) -> None:
    assert wattqueue("campaign", grid, "--workers", "1").returncode == 0
    table = pl.read_parquet(grid.with_suffix("") / "results.parquet")
    out = tmp_path / "one"
    plain = ("--nodes", "8", "--node-watts", "95:190.7", "--no-report", "--out", out)
    choice = ("--policy", "first-fit", "--estimator", "history-mean", "--cap", "80%")
    done = wattqueue("simulate", tmp_path / "trace.swf", *plain, *choice)
    assert done.returncode == 0, done.stderr
    figures = json.loads((out / "metrics.json").read_text())
    wanted = (pl.col("workload") == "trace.swf") & (pl.col("policy") == "first-fit")
    row = table.filter(wanted & (pl.col("estimator") == "history-mean") & (pl.col("cap") == "80%")).row(0, named=True)
    for name, value in figures.items():
        if name not in {"schema_version", "origin", "cap_scope"}:
            assert row[name] == value, name


def test_a_grown_grid_does_only_what_is_new(grid: Path) -> None:
    assert wattqueue("campaign", grid, "--workers", "1").returncode == 0
    grid.write_text(GRID.replace('"80%"', '"80%", "90%"'))
    more = wattqueue("campaign", grid, "--workers", "1")
    assert "8 runs done, 16 kept" in more.stdout, more.stderr
    assert len(pl.read_parquet(grid.with_suffix("") / "results.parquet")) == 24


def test_stamps(grid: Path) -> None:
    assert wattqueue("campaign", grid, "--workers", "1").returncode == 0
    stamps = pl.read_parquet_metadata(grid.with_suffix("") / "results.parquet")
    assert stamps["wattqueue.schema_version"] == "1"
    assert stamps["wattqueue.program"].startswith(f"wattqueue {stamps['wattqueue.version']} (sources ")
    assert len(stamps["wattqueue.campaign"]) == 64


@pytest.mark.parametrize(
    ("change", "arguments", "word"),
    [
        ("nonsense = 1\n", (), "unknown key nonsense"),
        ("", ("--cluster", "spark://here:1"), "--cluster"),
        ("", ("--cluster", "dask://127.0.0.1"), "--cluster"),
    ],
)
def test_one_clear_line(grid: Path, change: str, arguments: tuple[str, ...], word: str) -> None:
    grid.write_text(change + GRID)
    done = wattqueue("campaign", grid, *arguments)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Compiling")]
    assert len(lines) == 1, done.stderr
    assert word in lines[0]
    assert not grid.with_suffix("").exists()


def test_a_short_trace_keeps_the_rest(grid: Path) -> None:
    grid.write_text(GRID.replace('begin = "100s"', 'begin = "1d"'))
    done = wattqueue("campaign", grid, "--workers", "1")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Compiling")]
    assert len(lines) == 1
    assert lines[0].count("trace.swf") == 1
    assert "its submissions span" in lines[0]
    assert "Traceback" not in done.stderr
    assert not (grid.with_suffix("") / "results.parquet").exists()
