"""Warm windows of a campaign file: what cells get, what they are known by, and what they give."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wattqueue.campaign.backends import Local
from wattqueue.campaign.campaign import run_campaign
from wattqueue.campaign.cell import Row, key_of
from wattqueue.campaign.plan import CampaignPlan, plan_of
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.task_cell import TaskCell
from wattqueue.errors import CampaignError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.model.jobs import Jobs
from wattqueue.model.metrics import metrics
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.workload.cycle import DAY_S, HOUR_S
from wattqueue.workload.windows import cut, nodes_in_system

FIRST_S = 5.0
GRID = """
nodes = 8
node_watts = "95:190.7"
estimators = ["maximum", "last-job"]
caps = ["none", "95%"]

[[workloads]]
trace = "trace.swf"
windows = {{ {} }}
"""
DRAWN = 'count = {}, length = "6h", warm = "1d", busy = 0.5, apart = "12h", seed = 4'


def plan(folder: Path, windows: str) -> CampaignPlan:
    """A campaign file beside a trace of eight days, a job every half an hour; the last one too wide to run."""
    rows = []
    for i in range(384):
        size = 9 if i == 383 else 1 + i % 5
        rows.append(f"{i} {FIRST_S + i * 1800:.0f} -1 {1800 + i % 7 * 3000} {size} -1 -1 {size} 40000 -1 1 {i % 3} 1 1")
    (folder / "trace.swf").write_text("".join(f"{row} -1 -1 -1 -1\n" for row in rows))
    path = folder / "grid.toml"
    path.write_text(GRID.format(windows))
    return plan_of(path)


def cells(plan: CampaignPlan, folder: Path) -> tuple[list[TaskCell], list[Row], Shared]:
    shared = Shared(folder / "shared")
    rows = [source.perform(shared) for source in plan.sources]
    return plan.cells(rows), rows, shared


def test_a_window_begins_with_the_queue_and_the_past_of_a_replay(tmp_path: Path) -> None:
    """Each run is the one that Python makes of the same trace by hand."""
    found = plan(tmp_path, 'begins = ["3d", "100h"], length = "12h"')
    assert found.runs == 8
    made, _, shared = cells(found, tmp_path)
    assert [c.names["workload"] for c in made[::4]] == ["trace.swf [3d, 12h, warm]", "trace.swf [4.16667d, 12h, warm]"]
    jobs, machine = read_swf(tmp_path / "trace.swf").jobs, found.machines[0][1]
    replay = simulate(jobs, machine, load_policy("easy")).schedule
    jobs, end = jobs.take(replay.ran), replay.end_s[replay.ran]
    for cell in made:
        begin = FIRST_S + (3 * DAY_S if "[3d" in str(cell.names["workload"]) else 100 * HOUR_S)
        window = cut(jobs, end, begin, 0.5)
        assert (window.jobs.submit_s == begin).sum() > 1  # a queue
        policy = load_policy("easy", estimator=str(cell.names["estimator"]))
        cap = parse_cap(str(cell.names["cap"]), machine)
        run = simulate(window.jobs, machine, policy, cap=cap, past=window.past)
        assert cell.rows_unusable == 1
        wanted = metrics(run.jobs, run.schedule, run.power, machine, cap, rows_unusable=1)
        row = cell.perform(shared)
        assert {name: row[name] for name in wanted} == wanted


def test_drawn_windows_are_warm_busy_apart_and_repeatable(tmp_path: Path) -> None:
    made, (row,), shared = cells(plan(tmp_path, DRAWN.format(3)), tmp_path)
    begins = row["begins_s"]
    assert isinstance(begins, list)
    assert len(begins) == 3
    assert min(begins) >= FIRST_S + DAY_S
    assert (np.diff(begins) >= DAY_S / 2).all()
    trace = read_swf(tmp_path / "trace.swf").jobs
    replay = simulate(trace, plan(tmp_path, DRAWN.format(3)).machines[0][1], load_policy("easy")).schedule
    trace, end = trace.take(replay.ran), replay.end_s[replay.ran]
    assert (nodes_in_system(trace, end, np.array(begins)) >= 4).all()
    again, _, _ = cells(plan(tmp_path, DRAWN.format(3)), tmp_path)
    assert [key_of(c) for c in again] == [key_of(c) for c in made]
    for cell in made:
        past = cell.before.past(shared) if cell.before else None
        assert past is not None
        assert cell.before is not None
        assert past.end_s.max() <= cell.before.begin_s
        assert len(past) == (end <= cell.before.begin_s).sum()


def test_more_windows_keep_those_that_are_done(tmp_path: Path) -> None:
    few = {key_of(c) for c in cells(plan(tmp_path, DRAWN.format(2)), tmp_path)[0]}
    more = {key_of(c) for c in cells(plan(tmp_path, DRAWN.format(4)), tmp_path)[0]}
    assert len(few) == 8
    assert len(more) == 16
    assert few < more
    other = {key_of(c) for c in cells(plan(tmp_path, DRAWN.format(2).replace("6h", "7h")), tmp_path)[0]}
    assert not few & other


def test_another_past_is_another_cell_and_another_machine_another_source(tmp_path: Path) -> None:
    found = plan(tmp_path, DRAWN.format(2))
    cell = cells(found, tmp_path)[0][0]
    assert cell.before is not None
    changes: tuple[dict[str, Any], ...] = ({"ended": "x"}, {"ends": "x"}, {"begin_s": 0.0})
    for change in changes:
        assert key_of(replace(cell, before=replace(cell.before, **change))) != key_of(cell)
    assert key_of(replace(cell, before=None)) != key_of(cell)
    elsewhere = plan(tmp_path, DRAWN.format(2) + ', machine = "quartz"')
    assert key_of(elsewhere.sources[0]) != key_of(found.sources[0])


@pytest.mark.parametrize(
    ("windows", "figures"),
    [
        ('count = 2, length = "3d", warm = "7d"', ("7.958 d", "3 d", "7 d", "10 d")),
        ('begins = ["1d", "6d"], length = "2d"', ("7.958 d", "2 d", "6 d", "8 d")),
        ('count = 40, length = "12h"', ("40", "0.5 days")),
    ],
)
def test_a_trace_too_short_for_its_windows_is_one_line(tmp_path: Path, windows: str, figures: tuple[str, ...]) -> None:
    with pytest.raises(CampaignError) as caught:
        run_campaign(plan(tmp_path, windows), tmp_path / "out", Local(1))
    assert caught.value.where == str(tmp_path / "trace.swf")
    assert all(figure in caught.value.what for figure in figures)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "results.parquet").exists()


def test_no_job_that_can_run(tmp_path: Path) -> None:
    found = plan(tmp_path, 'count = 1, length = "1d"')
    (tmp_path / "trace.swf").write_text("1 0 -1 100 9 -1 -1 9 400 -1 1 1 1 1 -1 -1 -1 -1\n")
    with pytest.raises(CampaignError) as caught:
        run_campaign(found, tmp_path / "out", Local(1))
    assert "8-nodes" in caught.value.what


def test_a_finished_campaign_that_grows_cuts_its_windows_again(tmp_path: Path) -> None:
    """The same bytes as in one go, by two workers; only what is new is done."""
    first = run_campaign(plan(tmp_path, DRAWN.format(2)), tmp_path / "out", Local(1))
    assert (first.runs, first.performed) == (8, 8)
    assert run_campaign(plan(tmp_path, DRAWN.format(2)), tmp_path / "out", Local(1)).performed == 0
    grown = run_campaign(plan(tmp_path, DRAWN.format(3)), tmp_path / "out", Local(1))
    assert (grown.runs, grown.performed) == (12, 4)
    path = tmp_path / "grid.toml"
    path.write_text(path.read_text().replace('["maximum", "last-job"]', '["maximum", "last-job", "history-max"]'))
    wider = run_campaign(plan_of(path), tmp_path / "out", Local(1))
    assert (wider.runs, wider.performed) == (18, 6)
    with closing(Local(2)) as two:
        whole = run_campaign(plan_of(path), tmp_path / "whole", two)
    assert (whole.runs, whole.performed) == (18, 18)
    assert whole.path.read_bytes() == wider.path.read_bytes()


def test_a_process_keeps_few_columns_mapped(tmp_path: Path) -> None:
    """Each holds a file descriptor; all columns of many tables would be more than a process may have."""
    shared, one = Shared(tmp_path), np.ones(1)
    tables = [Jobs.build(k * one, np.array([k]), (k + 0.5) * one, walltime_s=(k + 1000) * one) for k in range(1, 160)]
    names = [shared.put_jobs(jobs) for jobs in tables]
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [int(shared.jobs(name).submit_s[0]) for name in names] == list(range(1, 160))
    assert len(list(Path("/proc/self/fd").iterdir())) - before < 400
