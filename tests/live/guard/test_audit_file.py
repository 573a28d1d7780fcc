"""The guard's record: a chain of lines through restarts, files that are put aside, and whatever a planner writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.live.guard.test_checks import guard_of, pool, write
from tests.live.guard.world import NaiveSlurm
from wattqueue.errors import OutputError
from wattqueue.live.guard.audit import AUDIT, OLDER, AuditFile
from wattqueue.live.guard.audit_check import check_audit


def lines_of(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def noted(folder: Path, count: int, most_bytes: int = 10**9) -> AuditFile:
    found = AuditFile(folder, lambda: 1e6, most_bytes)
    for number in range(count):
        found.note("start", f"note {number}")
    return found


def test_the_audit_is_a_chain(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=100)
    write(guard_of(slurm, tmp_path), pool(200), pool(100))
    write(guard_of(slurm, tmp_path), pool(300))
    path = tmp_path / AUDIT
    lines = lines_of(path)
    assert [json.loads(line).get("outcome") for line in lines].count("done") == 3
    assert check_audit(tmp_path) == (len(lines), "")
    for k, line in enumerate(lines):
        path.write_text("\n".join([*lines[:k], line.replace("done", "none").replace("pool", "hold"), *lines[k + 1 :]]))
        assert f"line {k + 1} of {AUDIT} " in check_audit(tmp_path).problem
        path.write_text("\n".join([*lines[:k], *lines[k + 1 :]]))
        assert bool(check_audit(tmp_path).problem) == (k + 1 < len(lines))


WORDS = ["\u2028", "\x85\x0b\x1c", "\ud800", "\x00", "é\U0001f600", '"\\', "\n{}"]


@pytest.mark.parametrize("why", WORDS, ids=ascii)
def test_whatever_a_planner_writes_is_one_line_and_keeps_the_chain(why: str, tmp_path: Path) -> None:
    for open_w in (200, 150):
        write(guard_of(NaiveSlurm(open_w=100), tmp_path), {**pool(open_w), "why": why})
    found = [json.loads(line) for line in lines_of(tmp_path / AUDIT)]
    assert [line["number"] for line in found] == [1, 2, 3, 4]
    assert found[0]["why"] == why
    assert check_audit(tmp_path) == (4, "")


def test_a_file_that_is_too_large_is_put_aside_and_the_chain_goes_on(tmp_path: Path) -> None:
    for _ in range(3):  # a guard that is started again in between
        noted(tmp_path, 40, 2_000)
    sizes = [(tmp_path / name).stat().st_size for name in (AUDIT, OLDER)]
    assert max(sizes) < 2_500
    assert sorted(path.name for path in tmp_path.iterdir()) == [AUDIT, OLDER]
    begins = json.loads(lines_of(tmp_path / AUDIT)[0])
    last = json.loads(lines_of(tmp_path / OLDER)[-1])
    assert (begins["kind"], begins["why"], begins["number"]) == ("begin", last["hash"], last["number"] + 1)
    assert check_audit(tmp_path).problem == ""
    older = (tmp_path / OLDER).read_text()
    (tmp_path / OLDER).write_text(older.replace("note 3", "note 9", 1))
    assert OLDER in check_audit(tmp_path).problem
    (tmp_path / OLDER).write_text("\n".join(older.split("\n")[:-2]) + "\n")
    assert check_audit(tmp_path).problem == f"line 1 of {AUDIT} does not follow from those before"
    (tmp_path / OLDER).unlink()
    assert check_audit(tmp_path).problem == "", "it may be put aside elsewhere"


def test_a_file_that_an_administrator_moves_away_is_followed_by_the_next_one(tmp_path: Path) -> None:
    journal = noted(tmp_path, 3)
    (tmp_path / AUDIT).rename(tmp_path / OLDER)
    journal.note("end", "")
    assert check_audit(tmp_path) == (5, "")
    (tmp_path / AUDIT).replace(tmp_path / OLDER)
    noted(tmp_path, 1)
    assert check_audit(tmp_path) == (4, ""), "a guard that was killed between the two files"


def test_a_line_that_was_cut_short_is_named_and_takes_no_other_with_it(tmp_path: Path) -> None:
    noted(tmp_path, 3)
    path = tmp_path / AUDIT
    path.write_text(path.read_text()[:-20])
    noted(tmp_path, 2)
    assert [text[:1] == "{" and text[-1:] == "}" for text in lines_of(path)] == [True, True, False, True, True]
    assert "line 3" in check_audit(tmp_path).problem


def test_what_a_full_disk_took_of_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, whole = noted(tmp_path, 3), os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, text: whole(handle, text[:10]))
        with pytest.raises(OutputError, match="the disk is full"):
            journal.note("end", "")
    journal.note("end", "")
    assert check_audit(tmp_path) == (4, "")
