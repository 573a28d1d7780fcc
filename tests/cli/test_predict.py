"""``wattqueue predict eval`` from the outside."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.formats.table.job_table import write_table
from wattqueue.model.jobs import Jobs

# Whole runs: long with kernels as plain Python.
pytestmark = pytest.mark.compiled

OMNISCIENT = '''
import numpy as np
from wattqueue.parts.contracts import Prediction


class TooGood:
    """Knows what every job draws."""

    asked = "at_submit"
    machine_figures = False
    knows_future = True

    def predict(self, jobs, machine):
        self.jobs, self.options = jobs, len(machine.option_partition)
        shape = (1, self.options)
        return Prediction(np.full(shape, 500.0), np.ones(shape), np.zeros(len(jobs), np.int32))

    def predict_rows(self, rows, now_s):
        return np.repeat(self.jobs.truth.mean_power_w[rows, np.newaxis], self.options, axis=1)

    def learn(self, finished):
        pass
'''


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return wattqueue("predict", "eval", *words)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    n = 300
    user = rng.integers(0, 5, n)
    mean = 400.0 + 100.0 * user + rng.normal(0.0, 20.0, n)
    mean[7] = 0.0
    mean[8] = np.nan
    jobs = Jobs.build(
        np.sort(rng.uniform(0.0, 1e5, n)),
        rng.integers(1, 5, n),
        rng.uniform(60.0, 5e3, n),
        user=[f"u{k}" for k in user],
        mean_power_w=mean,
        max_power_w=mean * 1.2,
    )
    path = tmp_path / "jobs.parquet"
    write_table(path, jobs)
    return path


def test_what_it_writes_and_prints(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(
        trace,
        "--estimator",
        "maximum,history-mean",
        "--estimator",
        "oracle-mean",
        "--node-watts",
        "240:2100",
        "-o",
        out,
    )
    assert (done.returncode, done.stderr) == (0, "")
    heads = done.stdout.splitlines()[0].split()
    assert heads[:2] == ["estimator", "MAPE"]
    rows = table(out / "predictions.csv")
    assert list(rows[0]) == ["job_id", "estimator", "predicted_w", "actual_w"]
    assert len(rows) == 3 * 300
    assert {r["predicted_w"] for r in rows[:300]} == {"2100.0"}
    history = [r for r in rows if r["estimator"] == "history-mean" and r["actual_w"] not in ("", "0.0")]
    error = [abs(float(r["actual_w"]) - float(r["predicted_w"])) / float(r["actual_w"]) for r in history]
    document = json.loads((out / "scores.json").read_text())
    scores = {s["name"]: s for s in document["scores"]}
    assert scores["history-mean"]["mape_percent"] == pytest.approx(100 * sum(error) / len(error))
    assert scores["history-mean"]["mape_percent"] < scores["maximum"]["mape_percent"]
    assert scores["oracle-mean"]["mape_percent"] == 0.0
    assert scores["oracle-mean"]["bound"] is True
    assert "1 of 300 jobs have 0 W" in done.stdout
    assert "1 of 300 jobs have no measured watts" in done.stdout
    page = (out / "report.html").read_text()
    assert "Error by user" in page
    assert "history-mean" in page


def test_the_greatest_watts(trace: Path, tmp_path: Path) -> None:
    done = run(trace, "--target", "max", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert "history-max" in done.stdout
    actual = [r["actual_w"] for r in table(tmp_path / "out" / "predictions.csv")]
    means = run(trace, "-o", tmp_path / "mean")
    assert means.returncode == 0
    mean = [r["actual_w"] for r in table(tmp_path / "mean" / "predictions.csv")]
    assert float(actual[0]) == pytest.approx(1.2 * float(mean[0]))


def test_a_users_oracle_is_named_as_one(trace: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(OMNISCIENT)
    done = run(trace, "--estimator", f"{own}:TooGood", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "TooGood reads the future" in done.stdout
    assert "reads the future" in (tmp_path / "out" / "report.html").read_text()


def test_a_users_estimator_cannot_read_outcomes_unless_it_says_so(trace: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(OMNISCIENT.replace("    knows_future = True\n", "").replace("jobs.truth.", "jobs."))
    done = run(trace, "--estimator", f"{own}:TooGood", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "mean_power_w" in done.stderr
    assert "knows_future = True" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--estimator", "histroy"], "'histroy'"),
        (["--estimator", "maximum"], "--node-watts IDLE:MAX"),
        (["--estimator", "history-mean+margin:factor=0"], "margin"),
        (["--estimator", "history-mean+last-job"], "'last-job'"),
        (["--estimator", "history-mean+unit-factors:table=no.csv"], "no.csv"),
        (["--estimator", "maximum,maximum"], "--estimator"),
        (["--machine", "marconi100", "--node-watts", "1:2"], "--node-watts"),
        (["--node-watts", "many"], "'many'"),
    ],
)
def test_a_mistake_is_one_line(trace: Path, tmp_path: Path, words: list[str], said: str) -> None:
    done = run(trace, *words, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_what_stands_behind_a_plus_corrects(trace: Path, tmp_path: Path) -> None:
    """A margin of 1.25 raises each prediction by as much, up to a unit's maximum.

    Factors of units are for runs, in which jobs have units.
    """
    factors = tmp_path / "units.csv"
    factors.write_text("app,unit,watts\n" + "".join(f"a,{unit},{100 + unit % 2}\n" for unit in range(4_000)))
    specs = ["history-mean", "history-mean+margin:factor=1.25", f"history-mean+unit-factors:table={factors}"]
    named = [word for spec in specs for word in ("--estimator", spec)]
    done = run(trace, *named, "--node-watts", "100:1500", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    rows = table(tmp_path / "out" / "predictions.csv")
    watts = [[float(row["predicted_w"]) for row in rows if row["estimator"] == spec] for spec in specs]
    np.testing.assert_allclose(watts[1], np.minimum(np.array(watts[0]) * 1.25, 1_500.0))
    np.testing.assert_array_equal(watts[2], watts[0])


def test_a_trace_without_watts(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("submit_s,nodes,runtime_s\n0,1,10\n")
    done = run(path, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "no job has measured watts" in done.stderr


def test_negative_watts_are_refused_with_their_row(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("submit_s,nodes,runtime_s,mean_power_w\n0,1,10,300\n5,1,10,-300\n")
    done = run(path, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "mean_power_w" in done.stderr
    assert "-300" in done.stderr


def test_one_job_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("submit_s,nodes,runtime_s,mean_power_w\n0,1,10,300\n")
    done = run(path, "--estimator", "history-mean", "--node-watts", "100:400", "-o", tmp_path / "out")
    assert done.returncode == 0
    row = table(tmp_path / "out" / "predictions.csv")[0]
    assert (row["predicted_w"], row["actual_w"]) == ("400.0", "300.0")
