"""A run above a load target: figures and words name the target, in the folder, its report and its repetition."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattqueue.formats.load_target import write_load_targets
from wattqueue.formats.rundir.folder import read_run, write_run
from wattqueue.formats.table.job_table import write_table
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.report.figures import power
from wattqueue.report.load import of_record
from wattqueue.report.run_page import lede, tiles, title
from wattqueue.runs.perform import load, perform
from wattqueue.runs.record import record, recorded_inputs
from wattqueue.runs.task import Task


@pytest.mark.parametrize(
    ("cap", "named", "expected"),
    [
        (None, "load target", (160.0, 300.0, 43_000.0)),
        ("350W", "limit (cap, load target)", (160.0, 295.0, 42_700.0)),  # the second step ends at the cap, after 45 s
    ],
)
def test_what_is_above_a_target_is_named_so(
    tmp_path: Path, cap: str | None, named: str, expected: tuple[float, ...]
) -> None:
    # Three nodes of 100 W run when a target of 160 W begins: 320 W, 160 W too much, for 200 s. The limit rises in steps
    # of 100 W and 50 s, so that power is 160 W above it for 50 s more, and then 60 W.
    jobs, targets = tmp_path / "jobs.csv", tmp_path / "targets.csv"
    write_table(jobs, Jobs.build([0.0, 150.0], [3, 1], [1_000.0, 50.0], walltime_s=[1_000.0, 50.0]))
    write_load_targets(targets, LoadTargets.of(LoadTarget(100.0, 300.0, 160.0, ramp_w_per_s=2.0)))
    task = Task(str(jobs), nodes=4, node_watts="20:100", policy="easy", targets=str(targets), cap=cap)
    outcome = perform(load(task))
    found = outcome.metrics
    assert (found["target_overshoot_w"], found["target_over_s"], found["target_over_j"]) == expected
    assert found["cap_over_s"] == (None if cap is None else 0.0)
    write_run(tmp_path / "run", record(outcome))
    again = read_run(tmp_path / "run")
    assert again.metrics == found
    run = of_record(again)
    assert run.limit_name == named
    assert "by 160\N{NO-BREAK SPACE}W at most" in tiles(run).replace("by 160 W", "by 160\N{NO-BREAK SPACE}W")
    assert "Above load targets" in tiles(run)
    assert "Load targets **were exceeded for" in lede(run)
    assert title(run).startswith("EASY under " + ("load targets, no power cap" if cap is None else "a cap of 350"))
    drawn = power.figure(run)
    assert drawn.title == f"Power against the {named}"
    assert "The limit of load targets, 160 W at the lowest, was exceeded for" in drawn.says.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert ("The cap of 350 W was never exceeded." in drawn.says.replace("\N{NO-BREAK SPACE}", " ")) == bool(cap)
    write_run(tmp_path / "again", record(perform(recorded_inputs(tmp_path / "run"))))
    for name in ("run.toml", "metrics.json", "jobs.csv", "power.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name
