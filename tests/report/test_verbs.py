"""report, compare and plot as a user calls them: what they write, an ASCII stdout, a closed one, several runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import wattqueue
from tests.report.cases import generated_record
from wattqueue.formats.rundir.folder import write_run

CALL = [sys.executable, "-c", "from wattqueue.cli import main; main()"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    where = tmp_path_factory.mktemp("runs")
    for policy, used in (("easy", 48), ("fcfs", 40), ("sjf", 36)):
        write_run(where / policy, generated_record(200, 48, 1, policy=policy, used=used))
    return sorted(where.iterdir())


def call(*arguments: object, folder: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*CALL, *map(str, arguments)], cwd=folder, env={**os.environ, **more}, capture_output=True, check=False
    )


def test_compare_without_out_leaves_nothing_behind(runs: list[Path], tmp_path: Path) -> None:
    done = wattqueue("compare", *runs[:2], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Waiting time, mean" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["compare", "plot"])
def test_an_ascii_stdout_gets_every_figure(runs: list[Path], tmp_path: Path, verb: str) -> None:
    more = ("--only", "wait", "--format", "svg", "-o", tmp_path / "figures") if verb == "plot" else ()
    done = call(verb, *runs[:2], *more, folder=tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"?" not in done.stdout


@pytest.mark.parametrize("arguments", [("compare",), ("plot", "--only", "wait", "--format", "svg", "-o", "figures")])
def test_a_closed_stdout_is_no_traceback(runs: list[Path], tmp_path: Path, arguments: tuple[str, ...]) -> None:
    line = " ".join(["exec", *(f"'{part}'" for part in CALL), *arguments, *map(str, runs[:2]), ">&-"])
    done = subprocess.run(["sh", "-c", line.replace("'", '"')], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


def test_plot_overlays_several_runs(runs: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = wattqueue("plot", *runs, "--format", "svg", "-o", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    found = {path.name for path in (tmp_path / "figures").iterdir()}
    names = ("pareto", "power", "queue", "utilization", "wait", "slowdown")
    assert found == {f"{name}.{ending}" for name in names for ending in ("svg", "csv")}
    for name in names:
        text = (tmp_path / "figures" / f"{name}.svg").read_text()
        assert all(f">{run.name}<" in text for run in runs), f"{name} names every run"


def test_the_marks_of_a_distribution_are_named_in_the_figure(runs: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = wattqueue("plot", runs[0], "--only", "wait", "--format", "svg", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "wait.svg").read_text()
    assert all(f">{mark} " in text for mark in ("median", "p95", "p99"))
