"""Recordings are decided again byte for byte: controls, re-ranking, chance ledgers, estimators that learn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.drive import ACCEPTS_ALL, lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.python_policies import POLICIES
from tests.live.test_controller import Meter
from tests.profiles import sampled
from wattqueue.errors import InputError
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.replay import replay
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

RULES = Rules(
    mode="control",
    write_priority=False,
    power_nodes=True,
    track_running=True,
    overshoot=ACCEPTS_ALL,
    warm_up_s=3.0,
    margin=0.0,
    start_timeout_s=10.0,
)


def record(folder: Path, policy: Policy, rounds: int = 60, cap: Cap | None = None) -> Path:
    """A controller records while jobs come and go; in the middle it is started again."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    meter = Meter(slurm)
    for part in range(2):
        controller = make_controller(
            slurm, folder, lambda: slurm.now_s, cap=cap or Cap.constant(800.0 + 900.0), policy=policy, rules=RULES,
            machine=lab_machine(8, (2e9, 1e9)), sources=(meter,), record=True,
        )  # fmt: skip
        for k in range(rounds // 2):
            if k % 2 == 0:
                slurm.submit(1 + k % 3, 6.0 + k % 5, watts=200 * (1 + k % 3), partition="p1,p2", most_nodes=1 + k % 4)
            meter.busy_w = 150.0 + 10.0 * (k % 6)
            controller.round()
            slurm.step()
        assert not controller.troubles, (part, controller.troubles)
    return folder / "views.jsonl"


@pytest.mark.parametrize("name", sampled(POLICIES, {"controls", "learning estimator", "all"}))
def test_a_recording_is_decided_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = record(tmp_path, POLICIES[name]())
    decisions = list(replay(path, POLICIES[name]()))
    assert [number for number, recorded, again in decisions if recorded != again] == []
    kinds = {
        kind for _, recorded, _ in decisions for kind in ("actions", "starts", "refusals") if json.loads(recorded)[kind]
    }
    assert "starts" in kinds
    assert {"actions", "refusals"} <= kinds or name not in ("controls", "all")
    if name in ("learning estimator", "all"):
        rounds = [json.loads(line) for line in path.read_text().splitlines()]
        assert sum(len(one.get("learned", ())) for one in rounds) > 3


def test_a_start_that_was_not_carried_out_is_part_of_the_recording(tmp_path: Path) -> None:
    """Parts are told of it; a fight on a real Slurm found a replay that was not."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    slurm.start_delay_s = 100.0
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1700.0), record=True)
    slurm.submit(1, 5.0, watts=200)
    for _ in range(60):
        controller.round()
        slurm.step()
    decisions = list(replay(tmp_path / "views.jsonl"))
    assert any(json.loads(recorded)["refusals"] for _, recorded, _ in decisions)
    assert all(recorded == again for _, recorded, again in decisions)


def test_another_policy_decides_otherwise_and_that_is_seen(tmp_path: Path) -> None:
    path = record(tmp_path, POLICIES["re-ranking"]())
    assert any(recorded != again for _, recorded, again in replay(path, POLICIES["plain"]()))


@pytest.mark.parametrize("row", ["easy+pc-chance-1", "easy+pc-adaptive-1"])
def test_a_published_row_needs_nothing_but_the_recording(tmp_path: Path, row: str) -> None:
    path = record(tmp_path, load_policy(row))
    decisions = list(replay(path))
    assert len(decisions) > 10
    assert all(recorded == again for _, recorded, again in decisions)


def test_an_idle_cluster_does_not_fill_the_disk(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    for name in ("plain", "controls"):
        folder = tmp_path / name
        folder.mkdir()
        controller = make_controller(
            slurm, folder, lambda: slurm.now_s, cap=Cap.constant(1800.0), policy=POLICIES[name](), record=True
        )
        for _ in range(20):
            controller.round()
            slurm.now_s += 1.0
        lines = [json.loads(line) for line in (folder / "views.jsonl").read_text().splitlines()]
        assert sum("view" in line for line in lines) == 1
        assert len(lines) == (2 if name == "plain" else 21), "a part was asked in each round"


@pytest.mark.parametrize("line", ['{"now_s": 1.0, "decided": {}}', '{"begin": {}}', "[]", '{"begin": 3}'])
def test_a_file_that_is_no_recording_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "views.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError) as caught:
        list(replay(path))
    assert caught.value.where == path
    assert "line 1" in caught.value.what


def test_nothing_is_appended_behind_a_gap(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), record=True)
    controller.round()
    path = tmp_path / "views.jsonl"
    text = path.read_text()
    path.unlink()
    path.mkdir()
    slurm.submit(1, 5.0, watts=200)
    controller.round()
    path.rmdir()
    path.write_text(text)
    slurm.submit(1, 5.0, watts=200)
    controller.round()
    assert path.read_text() == text
    assert any("recording" in trouble for trouble in controller.troubles)
