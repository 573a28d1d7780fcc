"""The audit log: each write twice, and no byte of it changed unseen."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update
from sqlalchemy import text as sql
from sqlalchemy.exc import SQLAlchemyError

from tests.live.drive import kept, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.slurmlab import wait_for
from wattqueue.errors import InputError
from wattqueue.live.cluster import ChangeJob, JobFields, JobKey
from wattqueue.live.recordings.recording import Recorder
from wattqueue.live.recordings.replay import replay
from wattqueue.live.state.audit import Audit, open_log, rows_of, verify
from wattqueue.live.state.database import AUDIT, open_state
from wattqueue.live.state.memory import ControllerState, Refused, ReleasedJob
from wattqueue.model.signals import Cap
from wattqueue.store.database import open_database


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


WRITE = ChangeJob("12", "watts=9", "watts=5", JobFields(watts=5), why="measured 310 W", key=JobKey("12", 5.0))


def filled(path: Path, key: bytes = b"", head: Path | None = None) -> Audit:
    times = iter(range(1000, 2000))
    audit = Audit(open_state(path), "controller", lambda: float(next(times)), key, head)
    for _ in range(4):
        audit.record_outcomes([(number, "done") for number in audit.intend([WRITE])])
    return audit


def test_each_write_says_who_why_before_after_and_what_came_of_it(tmp_path: Path) -> None:
    audit = filled(tmp_path / "a.db")
    rows = list(rows_of(audit.engine))
    assert len(rows) == 8
    assert [rows[0][n] for n in ("who", "event", "target", "before", "after", "why")] == [
        "controller", "intend", "12", "watts=9", "watts=5", "measured 310 W",
    ]  # fmt: skip
    assert (rows[1]["event"], rows[1]["about"], rows[1]["after"]) == ("settle", 1, "done")
    assert verify(audit.engine).broken == 0
    assert len(list(rows_of(audit.engine, target="12"))) == 8
    assert [r["number"] for r in rows_of(audit.engine, last=2)] == [7, 8]


@pytest.mark.parametrize("column", [c.name for c in AUDIT.columns])
@pytest.mark.parametrize("key", [b"", b"secret"])
def test_any_column_of_any_row_changed_is_found(tmp_path: Path, column: str, key: bytes) -> None:
    for number in (1, 4, 8):
        path = tmp_path / f"{number}.db"
        audit = filled(path, key)
        with audit.engine.begin() as connection:
            old = connection.execute(select(AUDIT.c[column]).where(AUDIT.c.number == number)).scalar()
            new = old + 100 if isinstance(old, int) else (chr(ord(old[0]) ^ 1) + old[1:] if old else "x")
            connection.execute(update(AUDIT).where(AUDIT.c.number == number).values({column: new}))
        assert verify(audit.engine, key).broken > 0


@pytest.mark.parametrize("number", [1, 4, 8])
def test_a_missing_row_is_found_even_the_last(tmp_path: Path, number: int) -> None:
    head = tmp_path / "head"
    audit = filled(tmp_path / "a.db", head=head)
    assert verify(audit.engine, head=head) == (8, 0, "")
    with audit.engine.begin() as connection:
        connection.execute(delete(AUDIT).where(AUDIT.c.number == number))
    assert verify(audit.engine, head=head).broken > 0


def test_resealed_without_the_key_is_found(tmp_path: Path) -> None:
    audit = filled(tmp_path / "a.db", key=b"secret")
    assert verify(audit.engine, b"secret").broken == 0
    assert verify(audit.engine, b"other").broken == 1


def test_every_byte_of_the_stored_rows_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    audit = filled(path, b"secret")
    audit.engine.dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = path.read_bytes()
    at = whole.find(b"measured 310 W")
    assert at > 0
    for i in range(at - 40, at + 40):
        copy = tmp_path / "copy.db"
        copy.write_bytes(whole[:i] + bytes([whole[i] ^ 0x01]) + whole[i + 1 :])
        engine = open_state(copy)
        try:
            found = verify(engine, b"secret").broken > 0
        except (SQLAlchemyError, UnicodeError, InputError):  # a file that the database itself refuses
            found = True
        assert found, f"byte {i}"
        engine.dispose()
        for part in tmp_path.glob("copy.db*"):
            part.unlink()


def test_killed_between_the_row_and_its_head_is_no_tampering(tmp_path: Path) -> None:
    head = tmp_path / "head"
    audit = filled(tmp_path / "a.db", head=head)
    before = head.read_text()
    audit.note("stop", "told to")
    head.write_text(before)
    assert verify(audit.engine, head=head).broken == 0


def test_goes_on_after_a_restart(tmp_path: Path) -> None:
    filled(tmp_path / "a.db")
    again = filled(tmp_path / "a.db")
    assert verify(again.engine).rows == 16


def test_the_database_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    filled(tmp_path / "deep" / "a.db")
    for file in (tmp_path / "deep").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense://", "sqlite:////proc/no/such/file.db"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(InputError):
        open_database(url)


def test_a_log_is_not_made_by_reading_it(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        open_log(str(tmp_path / "none.db"))
    assert "none.db" in str(caught.value.where)
    assert not (tmp_path / "none.db").exists()
    open_database(tmp_path / "bare.db").dispose()
    with pytest.raises(InputError) as caught:
        open_log(str(tmp_path / "bare.db"))
    assert "bare.db" in str(caught.value.where)
    assert caught.value.hint, "a database, but without a log"


def test_memory_survives_a_restart(tmp_path: Path) -> None:
    memory = ControllerState(open_state(tmp_path / "m.db"))
    key, other = JobKey("1", 5.0), JobKey("1", 9.0)
    memory.place(
        [ReleasedJob(key, 6.0, "p1", 2, 300, 420.0, 600.0, "n1"), ReleasedJob(other, 9.0, "p1", 0, 1, 1.0, 1.0)]
    )
    memory.refuse(Refused(other, 99.0, 2, "Licenses"))
    memory.requeued(key, 3.0)
    again = ControllerState(open_state(tmp_path / "m.db"))
    assert again.placed == {key: ReleasedJob(key, 6.0, "p1", 2, 300, 420.0, 600.0, "n1")}
    assert again.refused == {other: Refused(other, 99.0, 2, "Licenses")}
    assert again.origin == {key: 3.0}
    again.forget([key, other])
    empty = ControllerState(open_state(tmp_path / "m.db"))
    assert (empty.placed, empty.refused, empty.origin) == ({}, {}, {})


def test_a_deleted_log_is_noticed_at_the_next_start(tmp_path: Path) -> None:
    """The head lies outside the database: whoever deletes the log, or its last rows, leaves it behind."""
    slurm, head = make_slurm(), tmp_path / "audit.head"
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0))
    slurm.submit(1, 50.0, watts=200)
    controller.round()
    named = head.read_text()
    for file in tmp_path.glob("live.db*"):
        file.unlink()
    again = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0))
    report = again.round()
    assert report is not None
    assert any("rows were deleted" in text for text in report.problems)
    first = next(iter(rows_of(again.audit.engine)))
    assert (first["event"], first["kind"]) == ("note", "lost")
    (kept,) = tmp_path.glob("audit.head.*")
    assert kept.read_text() == named
    assert verify(again.audit.engine, head=head).broken == 0
    for _ in range(2):
        lost = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0)).audit.lost
        assert (kept.name in lost) == kept.exists(), "reported until a person has seen to it"
        kept.unlink(missing_ok=True)


@pytest.mark.parametrize("key", [b"", b"secret"])
def test_old_rows_are_removed_and_the_chain_of_the_rest_holds(tmp_path: Path, key: bytes) -> None:
    now = [1e6]
    engine, head = open_state(tmp_path / "a.db"), tmp_path / "audit.head"
    audit = Audit(engine, "controller", lambda: now[0], key, head)
    for day in range(10):
        now[0] = 1e6 + day * 86400.0
        audit.note("start", str(day))
    assert audit.prune(30.0) == 0
    assert audit.prune(3.5) == 6
    assert [row["why"] for row in rows_of(engine)] == ["6", "7", "8", "9"]
    assert verify(engine, key, head) == (10, 0, "")
    again = Audit(engine, "controller", lambda: now[0], key, head)
    assert again.lost == ""
    again.note("start", "10")
    now[0] += 1000 * 86400.0
    assert again.prune(1.0) == 4, "the last row stays"
    assert verify(engine, key, head).broken == 0
    with engine.begin() as connection:
        connection.execute(sql("UPDATE live_audit_begin SET number = number - 1"))
    assert verify(engine, key, head).broken > 0


# Without a kernel: one of the two in the coverage run, too.
@pytest.mark.parametrize("batch", [1, pytest.param(100, marks=pytest.mark.compiled)])
def test_verifying_beside_a_working_controller_finds_no_change(tmp_path: Path, batch: int) -> None:
    """Rows and head are read at two moments, and a controller writes both, and removes old rows, all the time."""
    path, head = tmp_path / "a.db", tmp_path / "head"
    filled(path, head=head)
    stop = multiprocessing.get_context("spawn").Event()
    writer = multiprocessing.get_context("spawn").Process(target=_write_rows, args=(path, head, batch, stop))
    writer.start()
    engine = open_state(path)
    try:
        wait_for("the writer", lambda: verify(engine).rows > 20)
        found = [verify(engine, head=head) for _ in range(150 if batch == 1 else 40)]  # each reads all rows
    finally:
        stop.set()
        writer.join(180)
    assert [one for one in found if one.broken] == []
    assert len({one.rows for one in found}) > 10, "rows came all the time"
    assert verify(engine, head=head).broken == 0
    with engine.begin() as connection:
        connection.execute(delete(AUDIT).where(AUDIT.c.number == verify(engine).rows))
    assert verify(engine, head=head).broken > 0


def _write_rows(path: Path, head: Path, batch: int, stop: Any) -> None:
    """Write and remove rows until told to stop."""
    audit = Audit(open_state(path), "controller", time.time, b"", head)
    while not stop.is_set():
        audit.record_outcomes([(number, "done") for number in audit.intend([WRITE] * batch)])
        audit.prune(0.3 / 86400.0)
        time.sleep(0.001)


def test_a_log_whose_end_was_replaced_is_found(tmp_path: Path) -> None:
    """The chain is whole where the last row was written once more; the head names another one."""
    head = tmp_path / "head"
    audit = filled(tmp_path / "a.db", head=head)
    with audit.engine.begin() as connection:
        connection.execute(delete(AUDIT).where(AUDIT.c.number == 8))
    Audit(audit.engine, "another", lambda: 5.0).note("start", "")
    assert verify(audit.engine).broken == 0
    assert verify(audit.engine, head=head).broken == 8


def test_a_long_recording_begins_again(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0), record=True)
    recorder = kept(controller, Recorder)
    assert recorder is not None
    recorder.most_bytes = 20_000
    for _ in range(60):
        slurm.submit(1, 5.0, watts=200)
        controller.round()
        slurm.step()
    both = [tmp_path / "views.jsonl", tmp_path / "views.jsonl.1"]
    assert all(20_000 * 2 > file.stat().st_size > 0 for file in both)
    for file in both:
        lines = list(replay(file))
        assert lines
        assert all(recorded == decided for _, recorded, decided in lines)
