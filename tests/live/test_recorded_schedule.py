"""Schedules read from recordings of a live controller, and their replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import InputError
from wattqueue.live.cluster import JobKey
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.recorded_schedule import CUT, read_recording
from wattqueue.model.signals import Cap
from wattqueue.runs.replay import perform_replay, read_source

RULES = Rules(mode="control", write_priority=False)


def record(folder: Path, rounds: int = 80) -> tuple[Path, dict[str, tuple[float, float, tuple[str, ...]]]]:
    """A controller records a fake cluster; with it start, end and nodes of each job as the cluster kept them."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    controller = make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(1600.0), rules=RULES, machine=lab_machine(8), record=True
    )
    kept: dict[str, tuple[float, float, tuple[str, ...]]] = {}
    running: dict[str, tuple[float, tuple[str, ...]]] = {}
    for k in range(rounds):
        if k % 4 == 0 and k < rounds // 2:
            slurm.submit(1 + k % 3, 6.0 + k % 5, watts=200 * (1 + k % 3), partition="p1,p2")
        controller.round()
        slurm.step()
        now = {j.key.name: (j.start_s, j.node_names) for j in slurm.observe().jobs if j.active}
        for name in running.keys() - now.keys():
            kept[name] = (running[name][0], slurm.now_s, running[name][1])
        running = now
    assert not running
    return folder / "views.jsonl", kept


def test_starts_and_places_are_those_of_the_cluster(tmp_path: Path) -> None:
    path, kept = record(tmp_path)
    read = read_recording(path)
    names = [f"n{i}" for i in range(1, 5)] + [f"m{i}" for i in range(1, 5)]
    assert sorted(read.jobs.job_id.tolist()) == sorted(kept)
    for row, name in enumerate(read.jobs.job_id.tolist()):
        start_s, end_s, nodes = kept[name]
        assert read.schedule.start_s[row] == start_s
        assert start_s < read.schedule.end_s[row] <= end_s + 1.0
        assert {names[u] for u in read.units_of(row)} == set(nodes)
        assert read.jobs.nodes[row] == len(nodes)
    assert read.notes == {}


def test_a_recording_is_replayed_exactly(tmp_path: Path) -> None:
    path, _ = record(tmp_path)
    source = read_source(path)
    fixed, notes = perform_replay(source, starts="recorded")
    np.testing.assert_array_equal(fixed.schedule.start_s, source.recorded.schedule.start_s)
    np.testing.assert_array_equal(fixed.schedule.end_s, source.recorded.schedule.end_s)
    assert notes == {}
    assert fixed.metrics["cap_over_s"] == 0.0  # the ledger's watts kept the cap of 1,600 W
    placed, _ = perform_replay(source)
    assert (placed.schedule.start_s <= fixed.schedule.start_s).all()
    above, _ = perform_replay(source, starts="recorded", cap="900W")
    assert float(above.metrics["cap_overshoot_w"] or 0.0) > 0
    np.testing.assert_array_equal(above.schedule.start_s, fixed.schedule.start_s)


def test_jobs_that_still_run_end_with_the_recording(tmp_path: Path) -> None:
    path, _ = record(tmp_path)
    lines = path.read_text().splitlines()
    shown = [k for k, line in enumerate(lines) if json.loads(line).get("view", {}).get("running", {}).get("row")]
    path.write_text("\n".join(lines[: shown[2] + 1]) + "\n")
    read = read_recording(path)
    assert read.notes[CUT] >= 1
    ran = read.schedule.ran
    assert read.schedule.end_s[ran].max() == json.loads(lines[shown[2]])["now_s"]


def changed(path: Path, what: str) -> None:
    """Damage a recording in one of the ways below."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if what == "machine":
        begin = json.loads(json.dumps(lines[0]))
        begin["begin"]["machine"]["name"] = "other"
        lines.append(begin)
    if what == "text":
        lines[1]["now_s"] = "soon"
    if what == "idle":
        lines = lines[:1]
    if what == "unit":
        for line in lines:
            running: dict[str, Any] = line.get("view", {}).get("running", {})
            if running.get("high"):
                running["high"] = [70] * len(running["high"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("machine", "begins with another machine"),
        ("text", "line 2 is no recorded round"),
        ("idle", "shows no job that ran"),
        ("unit", "holds unit 70"),
    ],
)
def test_a_damaged_recording_is_one_line(tmp_path: Path, what: str, words: str) -> None:
    path, _ = record(tmp_path)
    changed(path, what)
    with pytest.raises(InputError) as caught:
        read_source(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_watts_that_were_measured_replace_those_that_were_counted(tmp_path: Path) -> None:
    path, _ = record(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    read = read_recording(path)
    row = int(np.argmax(read.schedule.ran))
    name = read.jobs.job_id[row]
    request = next(one for line in lines for one in line.get("asked", ()) if JobKey(*one[0]).name == name)
    start_s, end_s = float(read.schedule.start_s[row]), float(read.schedule.end_s[row])
    lines[-1]["learned"] = [[request, start_s, end_s, 123.0, 150.0, 200.0]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = read_recording(path)
    assert again.schedule.energy_j[row] == pytest.approx(123.0 * again.jobs.nodes[row] * (end_s - start_s))
    assert again.schedule.energy_j[row] != pytest.approx(read.schedule.energy_j[row])
