"""simulate, rerun and demo as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.program import wattqueue

# Whole runs: long with kernels as plain Python.
pytestmark = pytest.mark.compiled

TRACE = "".join(
    f"{i} {i * 10} -1 {60 + i % 7 * 30} {1 + i % 5} -1 -1 {1 + i % 5} 400 -1 1 1 1 1 -1 -1 -1 -1\n"
    for i in range(1, 80)
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.swf"
    path.write_text(TRACE + "80 900 -1 -1 4 -1 -1 4 400 -1 1 1 1 1 -1 -1 -1 -1\n")
    return path


def test_a_run_and_its_repetition(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plain = ("--nodes", "8", "--node-watts", "95:190.7", "--no-report")
    done = wattqueue("simulate", trace, *plain, "--cap", "90%", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "1 rows of the trace are unusable" in done.stdout
    figures = json.loads((out / "metrics.json").read_text())
    assert figures["jobs_completed"] + figures["jobs_killed"] == 79
    assert figures["cap_over_s"] == 0
    again = wattqueue("rerun", out)
    assert again.returncode == 0, again.stderr
    assert "reproduced" in again.stdout


def test_single_choices_of_a_row_are_changed(trace: Path, tmp_path: Path) -> None:
    """The run has the name of the composed row, is the same as that of a row in a file, and can be repeated."""
    plain = ("--nodes", "8", "--node-watts", "95:190.7", "--cap", "90%", "--no-report")
    settings = ("--set", "estimator=history-mean", "--set", "backfill=conservative", "--set", "order=fcfs")
    done = wattqueue("simulate", trace, *plain, *settings, "--out", tmp_path / "composed")
    assert done.returncode == 0, done.stderr
    recorded = (tmp_path / "composed/run.toml").read_text()
    assert 'policy = "easy+estimator=history-mean+backfill=conservative"' in recorded
    assert wattqueue("rerun", tmp_path / "composed").returncode == 0
    file = tmp_path / "my.toml"
    file.write_text('[mine]\nestimator = "history-mean"\nbackfill = "conservative"\n')
    assert wattqueue("simulate", trace, *plain, "--policy", file, "--out", tmp_path / "stated").returncode == 0
    composed, stated = ((tmp_path / name / "jobs.csv").read_bytes() for name in ("composed", "stated"))
    assert composed == stated
    wrong = wattqueue("simulate", trace, *plain, "--set", "backfil=none")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no choice 'backfil'" in wrong.stderr


def test_a_changed_trace_is_not_repeated(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert wattqueue("simulate", trace, "--nodes", "8", "--out", out, "--no-report").returncode == 0
    trace.write_text(TRACE)
    again = wattqueue("rerun", out)
    assert again.returncode == 2
    assert "SHA-256" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--nodes", "8", "--cap", "70%"), "maximum"),
        (("--nodes", "8", "--cap", "400"), "unit"),
        (("--nodes", "8", "--node-watts", "95:190", "--cap", "100W"), "idle"),
        (("--nodes", "8", "--cap", "1kW"), "watts of every job"),
        ((), "--nodes"),
        (("--nodes", "0"), "at least 1"),
        (("--nodes", "99999999999"), "99,999,999,999"),
        (("--nodes", "8", "--machine", "quartz"), "not both"),
        (("--nodes", "8", "--node-watts", "200:100"), "IDLE:MAX"),
        (("--nodes", "8", "--policy", "nonesuch"), "no policy"),
        (("--machine", "nonesuch"), "nonesuch"),
        (("--nodes", "8", "--estimator", "nonesuch"), "nonesuch"),
    ],
)
def test_one_clear_line(trace: Path, tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    out = tmp_path / "out"
    done = wattqueue("simulate", trace, *arguments, "--out", out)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Compiling")]
    assert len(lines) == 1, done.stderr
    assert word in lines[0]
    assert not out.exists()


PARTS = """
class Raises:
    def schedule(self, view):
        raise ValueError("a defect")

class Answers:
    def schedule(self, view):
        return 5

class Bare:
    def predict(self, jobs, machine):
        return []
"""
ROWS = """
[figure]
estimator = 5
[option]
backfill = { part = "easy", queue_dept = 500 }
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "own.py:Raises"), ("own.py:4: ValueError: a defect", "wattqueue check")),
        (("--policy", "own.py:Answers"), ("Answers", "schedule()", "5")),
        (("--estimator", "own.py:Bare"), ("own.py", "AttributeError", "wattqueue check")),
        (("--policy", "own.toml"), ("2 rows in one file", "own.toml:figure|option")),
        (("--policy", "own.toml:figure"), ("own.toml:figure", "estimator = 5")),
        (("--policy", "own.toml:option"), ("has no option 'queue_dept'", "it takes queue_depth")),
    ],
)
def test_parts_and_rows_of_ones_own_fail_in_one_line(
    trace: Path, tmp_path: Path, arguments: tuple[str, str], words: tuple[str, ...]
) -> None:
    (tmp_path / "own.py").write_text(PARTS)
    (tmp_path / "own.toml").write_text(ROWS)
    option, value = arguments
    done = wattqueue("simulate", trace, "--nodes", "8", option, tmp_path / value, "--out", tmp_path / "out")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Compiling")]
    assert len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines
    assert not (tmp_path / "out").exists()


def test_a_machine_that_no_job_fits_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "wide.csv"
    table.write_text("job_id,submit_s,nodes,runtime_s\n1,0,9,60\n2,5,12,60\n")
    done = wattqueue("simulate", table, "--nodes", "8", "--out", tmp_path / "out")
    assert done.returncode == 2
    for figure in ("2 jobs", "9 nodes", "has 8"):
        assert figure in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_generator_that_is_not_there_is_no_missing_file() -> None:
    done = wattqueue("simulate", "cirno:days=1", "--nodes", "8")
    assert done.returncode == 2
    assert "no generator 'cirno' (one of marconi, fugaku, lightesp" in done.stderr


def test_a_wide_job_is_rejected_and_listed(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = wattqueue("simulate", trace, "--nodes", "4", "--out", out, "--no-report")
    assert done.returncode == 0
    rows = (out / "jobs.csv").read_text().splitlines()
    rejected = [row for row in rows if "REJECTED" in row]
    assert len(rejected) == json.loads((out / "metrics.json").read_text())["jobs_never_ran"] > 0
