"""A run's directory: the columns others know, what a reader gets back, whole or not at all, the same bytes twice."""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.refusal import refused
from wattqueue.errors import InputError, OutputError, WattQueueError
from wattqueue.formats.rundir import intervals
from wattqueue.formats.rundir.folder import RunRecord, read_facts, read_metrics, read_run, write_run
from wattqueue.formats.rundir.tables import BATSIM
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.quantities import quantity
from wattqueue.model.schedule import PowerSeries, Reason, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.version import SCHEMA_VERSION, __version__

NAN = float("nan")
MACHINE = Machine(
    "duo",
    (Partition("a", 8, frequencies_hz=(2.0e9, 1.5e9), idle_w=10, max_w=100), Partition("b", 4, idle_w=5)),
    "dynamic",
)


def example(origin: str = "measured", facts: dict[str, Any] | None = None) -> RunRecord:
    """A job on 0-2 and 5, one killed in partition b, one rejected, one that never started."""
    jobs = Jobs.build(
        [0, 0.25, 3, 4], [4, 1, 99, 2], [100, 50, 7, 8], walltime_s=[120, 20, 7, 9],
        job_id=np.array(["j1", "j,2", "j3", "j4"], object), user=["ann", "", "bob", "bob"], origin=origin,
    )  # fmt: skip
    schedule = Schedule(
        np.array([State.COMPLETED, State.KILLED, State.REJECTED, State.NOT_STARTED], np.int8),
        np.array([0, 0, Reason.TOO_WIDE, Reason.QUEUED], np.int8),
        np.array([0, 1.25, NAN, NAN]),
        np.array([100, 21.25, NAN, NAN]),
        np.array([1, 2, -1, -1], np.int16),
        np.array([20_000.0, 400, 0, 0]),
        np.array([220.0, 30, NAN, NAN]),
        np.array([1, 0, 0, 0]),
        np.array([2, 1, 0, 0], np.int32),
        np.array([9, 0, 5], np.int32),
        np.array([9, 2, 5], np.int32),
    )
    power = PowerSeries(
        np.array([0, 1.25, 21.25, 100]),
        np.array([200.0, 220, 200, 0]),
        np.array([60.0, 55, 60, 100]),
        np.array([40.0, 45, 40, 0]),
        np.array([4, 5, 4, 0], np.int32),
    )
    cap = Cap(np.array([-1.0, 21.25, 60]), np.array([500.0, 150, np.inf]))
    unusable = Unusable(np.array([7]), np.array([12]), Labels.of(["no positive runtime"]))
    found = metrics(jobs, schedule, power, MACHINE, cap, rows_unusable=1)
    return RunRecord(jobs, MACHINE, cap, schedule, power, found, facts or {"seed": 1}, unusable)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_jobs_csv(tmp_path: Path) -> None:
    write_run(tmp_path / "out", example())
    rows = rows_of(tmp_path / "out" / "jobs.csv")
    assert list(rows[0])[: len(BATSIM)] == [column.name for column in BATSIM]
    assert all(quantity(name) for name in rows[0])
    assert rows[0] == {
        "job_id": "j1", "submission_time": "0.0", "requested_number_of_resources": "4", "requested_time": "120",
        "success": "1", "final_state": "COMPLETED_SUCCESSFULLY", "starting_time": "0.0", "execution_time": "100",
        "finish_time": "100.0", "waiting_time": "0", "turnaround_time": "100", "stretch": "1.0",
        "allocated_resources": "0-2 5", "consumed_energy": "20000", "workload_name": "measured",
            "user": "ann", "app": "", "partition": "a",
        "frequency_hz": "1500000000", "predicted_w": "220", "mean_power_w": "50", "runtime_s": "100",
        "bounded_slowdown": "1.0", "reason": "",
    }  # fmt: skip
    killed = rows[1]
    assert (killed["job_id"], killed["success"], killed["final_state"]) == ("j,2", "0", "COMPLETED_WALLTIME_REACHED")
    assert (killed["starting_time"], killed["finish_time"], killed["execution_time"]) == ("1.25", "21.25", "20")
    assert (killed["waiting_time"], killed["stretch"], killed["bounded_slowdown"]) == ("1", "1.05", "1.05")
    assert (killed["partition"], killed["frequency_hz"], killed["allocated_resources"]) == ("b", "", "9")
    assert killed["mean_power_w"] == "20"
    for row, state, why in ((rows[2], "REJECTED", "too wide"), (rows[3], "NOT_STARTED", "still queued at the end")):
        assert (row["success"], row["final_state"], row["reason"]) == ("0", state, why)
        given = {
            "job_id",
            "submission_time",
            "requested_number_of_resources",
            "requested_time",
            "workload_name",
            "user",
        }
        assert {name for name, text in row.items() if text} <= given | {"success", "final_state", "runtime_s", "reason"}


def test_the_other_files(tmp_path: Path) -> None:
    facts = {"seed": 7, "trace": {"path": "a.swf", "sha256": "ab"}, "policy": {"name": "easy", "backfill": "easy"}}
    write_run(tmp_path, example("generated", facts))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "jobs.csv", "metrics.json", "power.parquet", "run.toml", "unusable.csv",
    ]  # fmt: skip
    power = pl.read_parquet(tmp_path / "power.parquet")
    assert power["time_s"].to_list() == [0, 1.25, 21.25, 60, 100]
    assert power["scope_w"].to_list() == [160, 175, 160, 160, 0]
    assert power["machine_w"].to_list() == [260, 275, 260, 260, 100]
    assert power["cap_w"].to_list() == [500, 500, 150, np.inf, np.inf]
    assert power["busy_units"].to_list() == [4, 5, 4, 4, 0]
    assert all(quantity(name) for name in power.columns)
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert (found["schema_version"], found["origin"], found["cap_scope"]) == (SCHEMA_VERSION, "generated", "dynamic")
    assert found["cap_overshoot_w"] == 10
    assert found["machine_energy_j"] == 260 * 1.25 + 275 * 20 + 260 * 78.75
    assert not any(isinstance(value, dict | list) for value in found.values())
    run = tomllib.loads((tmp_path / "run.toml").read_text())
    assert (run["schema_version"], run["wattqueue_version"], run["origin"]) == (
        SCHEMA_VERSION,
        __version__,
        "generated",
    )
    assert {key: run[key] for key in facts} == facts
    assert run["machine"]["partitions"][1]["name"] == "b"
    assert (tmp_path / "unusable.csv").read_text() == "line,job_id,reason\n7,12,no positive runtime\n"
    assert pl.read_parquet_metadata(tmp_path / "power.parquet")["wattqueue.origin"] == "generated"


def test_read_back(tmp_path: Path) -> None:
    record = example("generated", {"seed": 7, "policy": {"controls": ["a"]}})
    write_run(tmp_path, record)
    again = read_run(tmp_path)
    assert again.machine == record.machine
    assert again.cap.time_s.tolist() == record.cap.time_s.tolist()
    assert again.cap.cap_w.tolist() == record.cap.cap_w.tolist()
    assert again.metrics == record.metrics == read_metrics(tmp_path)
    assert again.facts == record.facts
    assert again.jobs.origin == "generated"
    assert list(again.unusable.rows()) == list(record.unusable.rows())
    for name in ("job_id", "submit_s", "nodes", "walltime_s", "runtime_s"):
        assert getattr(again.jobs, name).tolist() == getattr(record.jobs, name).tolist()
    assert again.jobs.user.values().tolist() == ["ann", "", "bob", "bob"]
    assert again.jobs.mean_power_w is not None
    np.testing.assert_array_equal(again.jobs.mean_power_w, [50, 20, NAN, NAN])
    for name in ("state", "reason", "start_s", "end_s", "option", "energy_j", "predicted_w"):
        mine, theirs = getattr(record.schedule, name), getattr(again.schedule, name)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert again.schedule.unit_low.tolist() == [0, 5, 9]
    assert again.schedule.unit_high.tolist() == [2, 5, 9]
    assert again.schedule.unit_start.tolist() == [0, 2, 3, 3]
    # The series has one row more, where the cap changes; every integral is the same.
    assert metrics(again.jobs, again.schedule, again.power, again.machine, again.cap, rows_unusable=1) == record.metrics


def test_names_that_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    record, names = example(), ["007", "1e3", "007", "1e3"]
    record = replace(record, jobs=replace(record.jobs, job_id=np.array(names, object), user=Labels.of(names)))
    write_run(tmp_path, record)
    again = read_run(tmp_path).jobs
    assert again.job_id.tolist() == again.user.values().tolist() == names


@pytest.mark.parametrize(("text", "holds"), [("900 W", True), ("much", False), ("900 W: 7", False)])
def test_a_margin_stands_in_the_reason(tmp_path: Path, text: str, holds: bool) -> None:
    record = example()
    reason, margin = record.schedule.reason.copy(), np.full(4, NAN)
    reason[3], margin[3] = Reason.LEDGER, 900.0
    write_run(tmp_path, replace(record, schedule=replace(record.schedule, reason=reason, margin_w=margin)))
    path, words = tmp_path / "jobs.csv", "cannot start under this ledger: margin "
    assert [row["reason"] for row in rows_of(path)][2:] == ["too wide", f"{words}900 W"]
    path.write_text(path.read_text().replace("900 W", text))
    if not holds:
        with refused(path):
            read_run(tmp_path)
        return
    again = read_run(tmp_path).schedule
    assert again.reason[3] == Reason.LEDGER
    np.testing.assert_array_equal(again.margin_w, margin)


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b", "b"):
        write_run(tmp_path / name, example())
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "jobs.csv").write_text("old")
    write_run(tmp_path, example())
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert len(rows_of(tmp_path / "jobs.csv")) == 4
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("at", ["", "jobs.csv/x", "under/jobs.csv/x"])
def test_what_cannot_be_written_leaves_all_as_it_was(tmp_path: Path, at: str) -> None:
    out = tmp_path / "out"
    if at:
        (out / at).mkdir(parents=True)
    else:
        out.write_text("a file")
    before = sorted(tmp_path.rglob("*"))
    if at.startswith("under"):
        write_run(out, example())
        return
    with pytest.raises(OutputError) as caught:
        write_run(out, example())
    assert str(caught.value).startswith(str(out))
    assert caught.value.hint
    assert sorted(tmp_path.rglob("*")) == before


FULL = """
import resource, sys
from dataclasses import replace
from pathlib import Path
sys.path[:0] = [{root!r}]
from tests.formats.test_rundir import example, write_run
from wattqueue.errors import OutputError
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
try:
    write_run(Path({out!r}), example())
except OutputError as error:
    sys.exit(str(error))
"""


def test_a_mounted_folder_is_written_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    out.mkdir()
    before = out.stat().st_ino
    monkeypatch.setattr(Path, "is_mount", lambda path: path == out)
    write_run(out, example())
    assert out.stat().st_ino == before, "what is mounted cannot be renamed away"
    assert {p.name for p in out.iterdir()} >= {"jobs.csv", "metrics.json", "run.toml"}
    assert not [p for p in tmp_path.rglob("*") if p.suffix == ".part"]


@pytest.mark.parametrize("limit", [0, 100, 900])
@pytest.mark.parametrize("new", [True, False])
def test_a_disk_that_fills(tmp_path: Path, limit: int, new: bool) -> None:
    # A limit on the size of a file stands for a full disk: the system refuses the write in the same place.
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    out = tmp_path / "out"
    if not new:
        out.mkdir()
        (out / "jobs.csv").write_text("old")
    code = FULL.format(root=str(Path(__file__).parents[2]), limit=limit, out=str(out))
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{out}: could not be written: ")
    assert done.stderr.count("\n") == 1
    assert [p.name for p in tmp_path.rglob("*")] == ([] if new else ["out", "jobs.csv"])
    assert new or (out / "jobs.csv").read_text() == "old"


def test_facts_may_not_hide_ours() -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - a defect of the caller, not of an input
        write_run(Path("nowhere"), example(facts={"machine": 1}))
    assert "machine" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("run.toml", None, "run.toml"),
        ("run.toml", "", ""),
        ("run.toml", "[machine]\n", "name"),
        ("run.toml", "schema_version = 99\n", "99"),
        ("run.toml", 'schema_version = "x"\n', "x"),
        ("run.toml", "[", ""),
        ("metrics.json", "{", ""),
        ("metrics.json", "3", ""),
        ("metrics.json", '{"wait_s_mean": []}', "wait_s_mean"),
        ("metrics.json", None, ""),
        ("jobs.csv", "a,b\n1,2\n", ""),
        ("jobs.csv", "", ""),
        ("jobs.csv", None, ""),
        ("power.parquet", "PAR1", ""),
        ("unusable.csv", "line,job_id,reason\nx,1,y\n", ""),
    ],
)
def test_a_broken_directory(tmp_path: Path, name: str, text: str | None, fact: str) -> None:
    write_run(tmp_path, example())
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    where = tmp_path if (name, text) == ("run.toml", None) else tmp_path / name
    with refused(where, fact, kind=WattQueueError):
        read_run(tmp_path)


@pytest.mark.parametrize(("old", "new"), [("REJECTED", "LOST"), ("0-2 5", "2-0"), ("0-2 5", "0-2-5"), (",a,", ",z,")])
def test_words_that_are_not_ours(tmp_path: Path, old: str, new: str) -> None:
    write_run(tmp_path, example())
    path = tmp_path / "jobs.csv"
    path.write_text(path.read_text().replace(old, new))
    with refused(path):
        read_run(tmp_path)


@pytest.mark.parametrize(("old", "new"), [(",100.0,", ",inf,"), (",20,21.25,", ",20,-inf,"), (",20,21.25,", ",20,,")])
def test_times_of_a_run_are_finite_and_complete(tmp_path: Path, old: str, new: str) -> None:
    write_run(tmp_path, example())
    path = tmp_path / "jobs.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_run(tmp_path)
    assert str(caught.value.where).startswith(f"{path}: row ")


def test_a_power_series_is_finite_and_in_order(tmp_path: Path) -> None:
    for column, values in (("time_s", [0.0, np.inf]), ("time_s", [9.0, 0.0]), ("jobs_w", [1.0, None])):
        write_run(tmp_path, example())
        path = tmp_path / "power.parquet"
        frame = pl.read_parquet(path)[:2].with_columns(pl.Series(column, values))
        frame.write_parquet(path)
        with refused(path):
            read_run(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    with refused(tmp_path / "none" / "run.toml"):
        read_facts(tmp_path / "none")


interval = st.tuples(st.integers(0, 200_000), st.integers(0, 300)).map(lambda t: (t[0], t[0] + t[1]))


@given(
    held=st.lists(st.lists(interval, max_size=5), max_size=12),
    order=st.randoms(use_true_random=False),
    chunk=st.integers(1, 5),
)
def test_intervals_both_ways(held: list[list[tuple[int, int]]], order: Any, chunk: int) -> None:
    places = list(range(len(held)))
    order.shuffle(places)
    start, low, high = np.zeros(len(held), np.int64), list[int](), list[int]()
    for job in places:  # as the engine logs them: in order of starts, not of rows
        start[job] = len(low)
        low += [a for a, _ in held[job]]
        high += [b for _, b in held[job]]
    count = np.array([len(h) for h in held], np.int32)
    columns = (start, count, np.array(low, np.int32), np.array(high, np.int32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "CHUNK", chunk)
        texts = intervals.to_text(*columns)
    assert texts == [" ".join(str(a) if a == b else f"{a}-{b}" for a, b in job) for job in held]
    _, again, low_again, high_again = intervals.from_text(texts)
    assert again.tolist() == count.tolist()
    flat = [pair for job in held for pair in job]
    assert list(zip(low_again.tolist(), high_again.tolist(), strict=True)) == flat


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1--2", "1-2-3", "3-1", "1;2", "1\n2", "- 1"])
def test_no_set_of_units(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller adds the place
        intervals.from_text(["5", text])


@given(st.lists(st.text("0123456789- ", max_size=6), max_size=5))
def test_any_text_is_a_set_or_an_error(texts: list[str]) -> None:
    try:
        start, count, low, high = intervals.from_text(texts)
    except (ValueError, OverflowError):
        return
    assert len(start) == len(count) == len(texts)
    assert (low <= high).all()
