"""Tables of unit factors that cannot be used, as a user meets them: one line each, or a stated fall-back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from wattqueue.cli import _app
from wattqueue.errors import WattQueueError
from wattqueue.sim.engine import NO_FACTORS

JOBS = """# wattqueue jobs schema_version=1 origin=generated
submit_s,nodes,runtime_s,walltime_s,app,mean_power_w
0,1,60,60,cg,100
1,2,60,60,cg,100
2,1,60,60,new,100
"""
MACHINE = """name = "three"
cap_scope = "jobs"
[[partitions]]
name = "p"
nodes = 3
max_w = 200.0
"""
POLICY = """[ours]
estimator = { part = "unit-watts", table = "factors.csv" }
placement = "least-watts"
"""
WHOLE = "app,unit,watts\ncg,0,90\ncg,1,60\ncg,2,75\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("jobs.csv", JOBS), ("machine.toml", MACHINE), ("policy.toml", POLICY), ("factors.csv", WHOLE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulate(*more: str) -> Result:
    words = ["simulate", "jobs.csv", "--machine", "machine.toml", "--policy", "policy.toml:ours", *more]
    return CliRunner().invoke(_app.build(words), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("app,unit,watts\ncg,0,90\ncg,1,60\n", "unit 2 of 3 is missing"),
        ("app,unit,watts\ncg,0,90\ncg,1,-60\ncg,2,75\n", "watts are missing, 0 or outside"),
        ("app,unit,watts\ncg,0,90\ncg,1,0\ncg,2,75\n", "watts are missing, 0 or outside"),
        ("app,unit,watts\ncg,0,90\ncg,1,\ncg,2,75\n", "watts are missing, 0 or outside"),
        ("app,unit,watts\ncg,0,90\ncg,a,60\ncg,2,75\n", "has no number of its own"),
        (WHOLE + "ft,0,90\nft,1,60\nnew,0,80\nnew,1,80\n", "a unit has no factor"),
        ("app,unit,watts\n", "no rows"),
        ("app,unit\ncg,0\n", "watts"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(folder: Path, text: str, words: str) -> None:
    (folder / "factors.csv").write_text(text)
    done = simulate()
    assert isinstance(done.exception, WattQueueError), done.output
    line = str(done.exception)
    assert words in f"{line} {done.exception.where}"
    assert "\n" not in line


def test_an_application_that_was_never_profiled_counts_the_maximum_and_is_counted(folder: Path) -> None:
    done = simulate("--cap", "500W", "--no-report", "--out", "run")
    assert done.exit_code == 0, done.output
    assert f"{NO_FACTORS}: 1." in done.output
    assert json.loads((folder / "run/metrics.json").read_text())["jobs_completed"] == 3
    rows = (folder / "run/jobs.csv").read_text().splitlines()
    column = rows[0].split(",").index("predicted_w")
    assert [float(row.split(",")[column]) for row in rows[1:]] == [60.0, 165.0, 200.0]
