"""`wattqueue settle` from files to files: a run as the meter, a run without the event beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.program import wattqueue

# Whole runs: long with kernels as plain Python.
pytestmark = pytest.mark.compiled

CONTRACT = """
name = "Interruptible load"
currency = "EUR"
time_zone = "Europe/Berlin"
baseline = "caiso-10-in-10"
committed_kw = 1

[payment]
per_mwh = 180.00

[penalty]
per_mwh = 300.00
"""
START = "2023-03-01T00:00+01:00"
# 22 March 2023, 14:00 to 16:00: 21 days and 14 hours after the run's 0
TARGETS = "start_s,end_s,limit,unit,correlation_id\n1864800,1872000,8000,W,event-1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("settle")
    (where / "contract.toml").write_text(CONTRACT, encoding="utf-8")
    (where / "targets.csv").write_text(TARGETS, encoding="utf-8")
    cap = "time_s,cap_w\n0,1000000\n1864800,8000\n1872000,1000000\n"
    (where / "cap.csv").write_text(cap, encoding="utf-8")
    for name, more in (("plain", ()), ("run", ("--cap", where / "cap.csv"))):
        workload = ("simulate", "marconi:days=24,load=0.8,nodes=32", "--nodes", "32", "--node-watts", "100:400")
        done = wattqueue(*workload, *more, "--out", where / name, "--no-report")
        assert done.returncode == 0, done.stderr
    return where


def settle(folder: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    given = ("--contract", folder / "contract.toml", "--meter", folder / "run", "--start", START)
    return wattqueue("settle", folder / "targets.csv", *given, *more)


def test_a_run_is_settled_with_its_counterfactual_beside_and_identically_twice(folder: Path) -> None:
    for out in ("first", "second"):
        done = settle(folder, "--counterfactual", folder / "plain", "--out", folder / out)
        assert done.returncode == 0, done.stderr
        assert "metered power is simulated" in done.stdout
        assert "counterfactual replay" in done.stdout
    for name in ("intervals.csv", "events.csv", "statement.html"):
        assert (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes()
    rows = (folder / "first" / "intervals.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 2 + 8  # a comment line, the names, and 2 h of 15 min
    # Quarters of an hour: the sum of kW over four is the energy in kWh, to the watt-hours that the files show.
    delivered = sum(float(row.split(",")[8]) for row in rows[2:]) / 4
    total = (folder / "first" / "events.csv").read_text(encoding="utf-8").splitlines()[2].split(",")
    assert float(total[7]) == pytest.approx(delivered, abs=0.001)
    assert total[9:12] == [f"{sum(float(r.split(',')[11]) for r in rows[2:]) / 4:.3f}", "8", "0"]


def test_bad_input_is_one_line_with_status_2(folder: Path) -> None:
    wrong = folder / "wrong.toml"
    wrong.write_text(CONTRACT.replace("per_mwh = 180.00", "per_mwh = -1.0"), encoding="utf-8")
    for more in (("--contract", wrong), ("--event", "event-9"), ("--start", "soon")):
        done = settle(folder, *more)
        assert done.returncode == 2, done.stdout
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "payment.per_mwh = -1.0" in settle(folder, "--contract", wrong).stderr


@pytest.mark.parametrize("interval", ["-1", "0", "7", "7200"])
def test_an_interval_that_does_not_divide_an_hour_is_refused(folder: Path, interval: str) -> None:
    done = settle(folder, "--interval", interval)
    assert done.returncode == 2
    assert "--interval: " in done.stderr
    assert "Traceback" not in done.stderr
