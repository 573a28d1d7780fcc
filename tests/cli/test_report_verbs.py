"""wattqueue report, plot and compare from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.program import wattqueue
from tests.report.cases import generated_record
from wattqueue.formats.rundir.folder import write_run

# Whole runs: long with kernels as plain Python.
pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("out")
    for policy, used in (("easy", 36), ("fcfs", 28)):
        for seed in (1, 2):
            write_run(where / f"{policy}-{seed}", generated_record(120, 48, seed, policy=policy, used=used))
    return where


def test_report_writes_one_page_beside_the_run(out: Path) -> None:
    done = wattqueue("report", out / "easy-1")
    assert (done.returncode, done.stderr) == (0, "")
    page = (out / "easy-1" / "report.html").read_text(encoding="utf-8")
    assert "<h1>EASY under a cap of" in page
    assert "generated workload" in page
    again = wattqueue("report", out / "easy-1", "--out", out / "again.html")
    assert again.returncode == 0
    assert (out / "again.html").read_text(encoding="utf-8") == page


def test_plot_writes_figures_and_their_data(out: Path) -> None:
    done = wattqueue("plot", out / "easy-1", "--only", "power,wait", "--format", "svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(p.name for p in (out / "easy-1" / "figures").iterdir()) == [
        *("power.csv", "power.svg", "wait.csv", "wait.svg")
    ]


def test_compare_prints_a_table_and_writes_three_files(out: Path) -> None:
    runs = [out / f"{policy}-{seed}" for policy in ("easy", "fcfs") for seed in (1, 2)]
    done = wattqueue("compare", *runs, "--out", out / "both")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Waiting time, mean" in done.stdout
    assert "2 seeds" in done.stdout
    assert sorted(p.name for p in (out / "both").iterdir()) == ["compare.csv", "compare.html", "compare.json"]
    groups = json.loads((out / "both" / "compare.json").read_text(encoding="utf-8"))["groups"]
    assert [g["label"] for g in groups] == ["easy", "fcfs"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "nowhere"), "no such file"),
        (("plot", "{out}/easy-1", "--only", "pie"), "'pie'"),
        (("plot", "{out}/easy-1", "--format", "gif"), "'gif'"),
        (("compare", "{out}/easy-1"), "two"),
        (("compare", "{out}/easy-1", "{out}/easy-1"), "easy-1: "),
        (("compare", "{out}/easy-1", "{out}"), "run.toml"),
    ],
)
def test_mistakes_are_one_line_and_status_2(out: Path, arguments: tuple[str, ...], said: str) -> None:
    done = wattqueue(*(a.format(out=out) for a in arguments))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert done.stdout == ""
