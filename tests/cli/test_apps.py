"""`wattqueue apps`: from eacct files to coefficients and entries, and back to EAR's binary file."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.formats.ear.files import read_coefficients_binary, read_coefficients_csv
from wattqueue.model.ear import Coefficients, Signatures, project
from wattqueue.store.applications import ApplicationDatabase

# Whole runs: long with kernels as plain Python.
pytestmark = pytest.mark.compiled

HEADER = "JOBID;USERID;JOBNAME;NODENAME;AVG_CPUFREQ_KHZ;TIME_SEC;CPI;TPI;MEM_GBS;DC_NODE_POWER_W"
TRUTH = Coefficients.of_pairs(
    [2.4e9, 2.4e9], [2.4e9, 1.2e9], [1, 1], [[1.0, 0, 0, 1, 0, 0], [0.6, -0.1, 20.0, 0.9, 0.001, 0.01]]
)


def apps(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return wattqueue("apps", *arguments)


@pytest.fixture
def eacct(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    k = 6
    seen = Signatures(np.full(k, 60.0), rng.uniform(250, 450, k), rng.uniform(0.4, 4, k), rng.uniform(0, 50, k))
    found = project(TRUTH, seen, 2.4e9)
    rows = [HEADER]
    for i in range(k):
        for j, khz in enumerate((2_380_000, 1_195_000)):
            figures = f"{found.time_s[i, j]};{found.cpi[i, j]};{seen.tpi[i]};10;{found.power_w[i, j]}"
            rows.append(f"{i};eve;bench{i};n1;{khz};{figures}")
    rows.append("99;eve;broken;n1;2400000;60;0;0;0;300")
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_learning_phase_reports_rank_and_residuals(eacct: Path, tmp_path: Path) -> None:
    done = apps("learn", eacct, "-o", tmp_path / "c.csv", "--module", "node")
    assert done.returncode == 0, done.stderr
    assert "12 of 12 runs used (1 rows without a measurement left out)" in done.stdout
    assert "4 of 4 pairs of frequencies fitted, 6 benchmarks or more" in done.stdout
    assert "rank 3 of 3" in done.stdout
    table = read_coefficients_csv(tmp_path / "c.csv")["node"]
    np.testing.assert_allclose(table.values[0, 1], TRUTH.values[0, 1], atol=1e-6)
    binary, back = tmp_path / "coeffs", tmp_path / "back.csv"
    assert apps("convert", tmp_path / "c.csv", "-o", binary, "--module", "node").returncode == 0
    assert (read_coefficients_binary(binary).values == table.values).all()
    assert apps("convert", binary, "-o", back, "--module", "node").returncode == 0
    assert back.read_text() == (tmp_path / "c.csv").read_text()


def test_collinear_benchmarks_end_in_one_line(eacct: Path, tmp_path: Path) -> None:
    lines = eacct.read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text(
        "\n".join([lines[0], *(line.replace(";eve;bench", f";eve;copy{i}") for i, line in enumerate(lines[1:3] * 3))])
    )
    done = apps("learn", few, "-o", tmp_path / "c.csv", "--module", "node")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "collinear benchmarks" in done.stderr
    assert not (tmp_path / "c.csv").exists()


def test_finished_jobs_become_entries(eacct: Path, tmp_path: Path) -> None:
    assert apps("learn", eacct, "-o", tmp_path / "c.csv", "--module", "node").returncode == 0
    base = str(tmp_path / "apps.db")
    done = apps("import", eacct, "--hardware", "node", "--database", base, "--coefficients", tmp_path / "c.csv")
    assert done.returncode == 0, done.stderr
    assert "12 of 12 runs used, 1 rows without a measurement left out" in done.stdout
    database = ApplicationDatabase.open(base)
    entries = database.entries()
    assert [(e.app, e.runs) for e in entries] == [(f"bench{i}", 2) for i in range(6)]
    # The run at 1.2 GHz was projected to 2.4: both say the same.
    assert entries[0].time_s == pytest.approx(60.0, rel=1e-6)
    database.engine.dispose()
    listed = apps("list", "--database", base)
    assert listed.stdout.count("2 runs") == 6
    assert apps("misfits", "eve", "--database", base).stdout == f"{base}: no misfits of eve\n"


@pytest.mark.parametrize("verb", [("list",), ("misfits", "eve")])
def test_looking_makes_no_database(tmp_path: Path, verb: tuple[str, ...]) -> None:
    done = apps(*verb, "--database", tmp_path / "none.db")
    assert done.returncode == 2
    assert "no such database" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_module_that_is_not_there_is_named(eacct: Path, tmp_path: Path) -> None:
    assert apps("learn", eacct, "-o", tmp_path / "c.csv", "--module", "node").returncode == 0
    done = apps("convert", tmp_path / "c.csv", "-o", tmp_path / "x", "--module", "other")
    assert done.returncode == 2
    assert "no module 'other' (it has node)" in done.stderr


def test_a_database_that_cannot_be_written_is_one_line(eacct: Path) -> None:
    """SQLite opens a device and fails at the commit."""
    done = apps("import", eacct, "--hardware", "node", "--database", "/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("wattqueue: the database fails: ")
    assert done.stderr.count("\n") == 1
