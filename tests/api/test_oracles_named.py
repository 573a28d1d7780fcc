"""Every output of a run, a comparison, a study of caps or a campaign names what knows the future."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import wattqueue as wq
from tests.api.conftest import Line

WATTS: dict[str, Any] = {"nodes": 8, "node_watts": "95:190.7"}
OPTIONS = ("--nodes", "8", "--node-watts", "95:190.7")


@pytest.fixture
def known(trace: Path) -> wq.RunResult:
    return wq.simulate(trace, **WATTS, cap="80%", estimator="oracle-mean")


@pytest.fixture
def plain(trace: Path) -> wq.RunResult:
    return wq.simulate(trace, **WATTS, cap="80%")


def test_a_run_and_its_files(known: wq.RunResult, plain: wq.RunResult, tmp_path: Path) -> None:
    assert known.label == "easy, oracle-mean, cap 80% (oracle)"
    assert "oracle" not in plain.label
    for run, expected in ((known, "oracle-mean"), (plain, "")):
        folder = run.save(tmp_path / (expected or "plain"))
        assert json.loads((folder / "metrics.json").read_text())["oracle"] == expected
        assert tomllib.loads((folder / "run.toml").read_text()).get("oracle", "") == expected
        page = run.report(tmp_path / "report.html").read_text(encoding="utf-8")
        heading = page.partition("</h1>")[0].rpartition("<h1>")[2]
        assert heading.endswith("(oracle)") == bool(expected)
        # What was written is read again.
        assert wq.read_run(folder).label == run.label


def test_a_comparison(known: wq.RunResult, plain: wq.RunResult) -> None:
    by_label = wq.compare([plain, known]).frame["group"].unique(maintain_order=True)
    assert by_label.to_list() == ["easy, cap 80%", "easy, oracle-mean, cap 80% (oracle)"]
    by_name = wq.compare({"one": plain, "two": known}).frame["group"].unique(maintain_order=True)
    assert by_name.to_list() == ["one", "two (oracle: oracle-mean)"]


def test_a_study_of_caps(trace: Path) -> None:
    found = wq.whatif(trace, **WATTS, cap="70%,80%", estimator="maximum,oracle-max", workers=1)
    by_estimator = found.frame.group_by("estimator").agg(pl.col("oracle").unique())
    assert dict(by_estimator.iter_rows()) == {"maximum": [""], "oracle-max": ["oracle-max"]}
    assert [c["oracle"] for c in found.conclusions] == ["", "oracle-max"]
    assert "easy, oracle-max (oracle)" in found.files["report.html"]


def test_a_campaign(trace: Path, tmp_path: Path, line: Line) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f'workloads = ["{trace.name}"]\nnodes = 8\nnode_watts = "95:190.7"\npolicies = ["easy"]\n'
        'estimators = ["maximum", "oracle-max"]\ncaps = ["80%"]\n'
    )
    done = line("campaign", grid, "--workers", "1")
    assert done.exception is None
    assert "oracle-max (oracle)" in done.output
    table = pl.read_parquet(grid.with_suffix("") / "results.parquet")
    assert table["oracle"].to_list() == ["", "oracle-max"]
    assert "oracle-max (oracle)" in (grid.with_suffix("") / "report.html").read_text(encoding="utf-8")


def test_the_table_of_a_simulation(trace: Path, line: Line) -> None:
    done = line("simulate", trace, *OPTIONS, "--estimator", "oracle-max")
    assert "easy (oracle: oracle-max)" in " ".join(done.output.split())


def test_scores_of_predictions(trace: Path, tmp_path: Path) -> None:
    jobs = wq.Jobs.build([0.0, 5.0, 90.0], [1, 2, 1], [60.0, 30.0, 20.0], mean_power_w=[120.0, 150.0, 130.0])
    found = wq.predict(jobs, "maximum,oracle-mean", node_watts="95:190.7")
    assert dict(zip(found.frame["name"], found.frame["bound"], strict=True)) == {"maximum": False, "oracle-mean": True}
    assert "oracle-mean (oracle)" in found.report(tmp_path / "page.html").read_text(encoding="utf-8")
