"""``wq.replay`` and ``wattqueue replay``: runs and recordings once more, without a policy."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import Result

import wattqueue as wq
from tests.api.conftest import Line

FILES = ("jobs.csv", "metrics.json", "power.parquet", "run.toml", "unusable.csv")
PLAIN = ("--nodes", "8", "--node-watts", "95:190.7")


def error_of(result: Result) -> str:
    """The line that a refused command prints."""
    assert isinstance(result.exception, wq.WattQueueError), result.output
    text = f"{result.exception} {result.exception.where} {result.exception.hint}"
    assert "\n" not in text
    return text


def test_a_run_of_the_command_line_is_replayed_to_the_last_digit(trace: Path, tmp_path: Path, line: Line) -> None:
    done = line("simulate", trace, *PLAIN, "--cap", "80%", "--no-report", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    done = line("replay", tmp_path / "run", "--starts", "recorded", "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    old, new = (pl.read_csv(tmp_path / name / "jobs.csv", infer_schema_length=None) for name in ("run", "again"))
    assert new.equals(old)
    one, other = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("run", "again"))
    assert other.pop("rows_unusable") == 0
    assert one.pop("rows_unusable") == 1
    assert other == pytest.approx(one, rel=1e-12)
    assert "<html" in (tmp_path / "again" / "report.html").read_text()


def test_the_api_gives_the_files_of_the_command_line(trace: Path, tmp_path: Path, line: Line) -> None:
    wq.simulate(trace, nodes=8, node_watts="95:190.7", policy="fcfs", cap="95%").save(tmp_path / "run")
    done = line("replay", tmp_path / "run", "--cap", "60%", "--out", tmp_path / "line")
    assert done.exit_code == 0, done.output
    assert "start earlier than recorded" in done.output
    again = wq.replay(tmp_path / "run", cap="60%")
    again.save(tmp_path / "api")
    again.report(tmp_path / "api" / "report.html")
    for name in (*FILES, "report.html"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes(), name
    assert again.metrics["cap_overshoot_w"] > 0
    assert again.label == "replay of fcfs, cap 60%"
    assert wq.read_run(tmp_path / "api").label == again.label


def test_a_workload_gives_the_truth_in_place_of_the_record(trace: Path, tmp_path: Path, line: Line) -> None:
    run = wq.simulate(trace, nodes=8, node_watts="95:190.7")
    run.save(tmp_path / "run")
    done = line("replay", tmp_path / "run", "--jobs", trace, "--starts", "recorded", "--out", tmp_path / "line")
    assert done.exit_code == 0, done.output
    again = wq.replay(run, trace, starts="recorded")
    assert again.jobs.equals(run.jobs)
    assert again.metrics["makespan_s"] == run.metrics["makespan_s"]
    written = (tmp_path / "line" / "jobs.csv").read_bytes()
    assert written == (tmp_path / "run" / "jobs.csv").read_bytes()


def test_a_replay_is_not_decided_again(trace: Path, tmp_path: Path, line: Line) -> None:
    wq.replay(wq.simulate(trace, nodes=8)).save(tmp_path / "run")
    done = line("rerun", tmp_path / "run")
    assert "wattqueue replay" in error_of(done)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("allocated_resources", 99, "unit 99 is not on the machine of 8 units"),
        ("starting_time", 0.0, "starting_time is before submission_time"),
        ("finish_time", 1e6, "execution_time does not follow"),
    ],
)
def test_an_edited_schedule_is_one_line(
    trace: Path, tmp_path: Path, line: Line, old: str, new: float, words: str
) -> None:
    folder = tmp_path / "run"
    wq.simulate(trace, nodes=8).save(folder)
    table = pl.read_csv(folder / "jobs.csv", infer_schema=False)
    table.with_columns(pl.lit(str(new)).alias(old)).write_csv(folder / "jobs.csv")
    done = line("replay", folder)
    assert words in error_of(done)
    assert str(folder) in error_of(done)


def test_files_that_are_no_schedule_are_refused(trace: Path, tmp_path: Path, line: Line) -> None:
    run = tmp_path / "run"
    wq.simulate(trace, nodes=8).save(run)
    for path, words in (
        (run / "jobs.csv", "name the folder"),
        (trace, "no recorded round"),
        (tmp_path / "absent", "No such file"),
        (tmp_path, "holds no run.toml"),
    ):
        assert words in error_of(line("replay", path))
    assert "itself" in error_of(line("replay", run, "--out", run))
    with pytest.raises(wq.InputError, match="cannot be used"):
        wq.replay(7)  # type: ignore[arg-type]
