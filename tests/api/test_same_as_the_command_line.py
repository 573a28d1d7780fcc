"""The Python API and the command line give identical files and identical errors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import wattqueue as wq
from tests.api.conftest import Line
from wattqueue.errors import WattQueueError

FILES = ("jobs.csv", "metrics.json", "power.parquet", "run.toml", "unusable.csv")


def test_simulate(trace: Path, tmp_path: Path, line: Line) -> None:
    options = ("--nodes", "8", "--node-watts", "95:190.7", "--cap", "80%", "--estimator", "history-mean")
    done = line("simulate", trace, *options, "--out", tmp_path / "line")
    assert done.exit_code == 0, done.output
    run = wq.simulate(
        wq.read_jobs(trace), nodes=8, node_watts="95:190.7", policy="easy", cap="80%", estimator="history-mean"
    )
    run.save(tmp_path / "api")
    for name in FILES:
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes(), name
    run.report(tmp_path / "api" / "report.html")
    assert (tmp_path / "api" / "report.html").read_bytes() == (tmp_path / "line" / "report.html").read_bytes()
    assert run.metrics == json.loads((tmp_path / "line" / "metrics.json").read_text())
    assert run.metrics["rows_unusable"] == 1
    written = pl.read_csv(tmp_path / "line" / "jobs.csv", infer_schema_length=None)
    assert run.jobs.columns == written.columns
    assert run.jobs["starting_time"].to_list() == written["starting_time"].to_list()
    assert run.power.equals(pl.read_parquet(tmp_path / "line" / "power.parquet"))
    again = wq.read_run(tmp_path / "line")
    assert again.metrics == run.metrics
    assert again.jobs["starting_time"].equals(run.jobs["starting_time"])
    assert again.label == run.label


def test_a_saved_run_can_be_repeated(trace: Path, tmp_path: Path, line: Line) -> None:
    machine = wq.Machine("two", (wq.Partition("a", 5, idle_w=90.0, max_w=200.0), wq.Partition("b", 6, max_w=150.0)))
    wq.simulate(trace, machine, policy=wq.load_policy("easy", backfill="conservative"), cap="90%").save(
        tmp_path / "run"
    )
    done = line("rerun", tmp_path / "run")
    assert done.exit_code == 0, done.output


def test_generated_workloads(tmp_path: Path, line: Line) -> None:
    call = "marconi:days=1,load=0.02"
    done = line("simulate", call, "--machine", "marconi100", "--seed", "3", "--no-report", "--out", tmp_path / "line")
    assert done.exit_code == 0, done.output
    wq.simulate(wq.generate(call, seed=3), "marconi100").save(tmp_path / "api")
    for name in FILES:
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes(), name


def test_compare(trace: Path, tmp_path: Path, line: Line) -> None:
    folders = [wq.simulate(trace, nodes=8, policy=policy).save(tmp_path / policy) for policy in ("easy", "fcfs")]
    assert line("compare", *folders, "--out", tmp_path / "line").exit_code == 0
    wq.compare(folders).save(tmp_path / "api")
    for name in ("compare.csv", "compare.json", "compare.html"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes(), name


def test_whatif(table: Path, tmp_path: Path, line: Line) -> None:
    options = ("--nodes", "12", "--node-watts", "60:200", "--estimator", "history-max", "--cap", "50%,70%")
    done = line("whatif", table, *options, "--risk", "5%", "--workers", "1", "--out", tmp_path / "line")
    assert done.exit_code == 0, done.output
    found = wq.whatif(
        table, nodes=12, node_watts="60:200", estimator="history-max", cap="50%,70%", risk="5%", workers=1
    )
    found.save(tmp_path / "api")
    for name in ("whatif.csv", "delayed_users.csv", "whatif.json", "report.html"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes(), name
    assert found.frame["cap"].to_list() == ["none", "50%", "70%"]
    assert found.lowest_safe_cap == found.conclusions[0]["lowest_safe_cap"]


def test_predict(table: Path, tmp_path: Path, line: Line) -> None:
    done = line("predict", "eval", table, "--estimator", "last-job,history-mean", "-o", tmp_path / "line")
    assert done.exit_code == 0, done.output
    found = wq.predict(table, ["last-job", "history-mean"])
    found.save(tmp_path / "api")
    name = "predictions.csv"
    assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes()
    scores = [json.loads((tmp_path / where / "scores.json").read_text())["scores"] for where in ("api", "line")]
    for row in (*scores[0], *scores[1]):
        row.pop("prediction_cpu_s")  # the one figure that is measured, not computed
    assert scores[0] == scores[1]
    assert found.frame["name"].to_list() == ["last-job", "history-mean"]
    assert found.predictions.height == 240


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (("--nodes", "8", "--cap", "70%"), {"nodes": 8, "cap": "70%"}),
        (("--nodes", "8", "--cap", "400"), {"nodes": 8, "cap": "400"}),
        (("--nodes", "8", "--node-watts", "95:190", "--cap", "1W"), {"nodes": 8, "node_watts": "95:190", "cap": "1W"}),
        ((), {}),
        (("--nodes", "0"), {"nodes": 0}),
        (("--nodes", "8", "--machine", "quartz"), {"nodes": 8, "machine": "quartz"}),
        (("--nodes", "8", "--node-watts", "9"), {"nodes": 8, "node_watts": "9"}),
        (("--nodes", "8", "--policy", "nonesuch"), {"nodes": 8, "policy": "nonesuch"}),
        (("--nodes", "8", "--estimator", "nonesuch"), {"nodes": 8, "estimator": "nonesuch"}),
        (("--machine", "nonesuch"), {"machine": "nonesuch"}),
    ],
)
def test_the_same_errors(trace: Path, line: Line, words: tuple[str, ...], arguments: dict[str, Any]) -> None:
    done = line("simulate", trace, *words)
    with pytest.raises(WattQueueError) as caught:
        wq.simulate(trace, **arguments)
    assert isinstance(done.exception, WattQueueError)
    assert type(caught.value) is type(done.exception)
    # The command line speaks of flags, the package of arguments.
    flagless = re.sub(r"--([a-z-]+)", lambda flag: flag[1].replace("-", "_"), str(done.exception))
    assert str(caught.value) == flagless
    assert "\n" not in str(caught.value)
