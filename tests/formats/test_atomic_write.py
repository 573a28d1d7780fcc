"""Atomic writes: the target is whole or untouched, and links, permissions, groups and devices survive."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_folder import atomic_folder, written
from wattqueue.formats.atomic_write import atomic_text, atomic_write


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def left_over(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob("*.part")]


KILLED = """
import os, signal, sys
from pathlib import Path
from wattqueue.formats.atomic_folder import atomic_folder
from wattqueue.formats.atomic_write import atomic_write

with atomic_write(Path(sys.argv[1], "out.csv")) as file, atomic_folder(Path(sys.argv[1], "run")) as folder:
    file.write_text("half")
    (folder / "half.csv").write_text("half")
    if sys.argv[2] == "wait":
        print("writing", flush=True)
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "now"], check=False, timeout=180)
    assert killed.returncode == -signal.SIGKILL
    assert len(left_over(tmp_path)) == 2
    other = tmp_path / ".other.csv.abcdefgh.part"
    other.write_text("of another target")
    atomic_text(tmp_path / "out.csv", "whole")
    with atomic_folder(tmp_path / "run") as folder:
        (folder / "whole.csv").write_text("whole")
    assert left_over(tmp_path) == [other.name]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        atomic_text(tmp_path / "out.csv", "whole")
        with atomic_folder(tmp_path / "run") as folder:
            (folder / "whole.csv").write_text("whole")
        assert len(left_over(tmp_path)) == 2
        writer.kill()


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "real.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    for text in ("first", "second"):  # the link leads to nothing at first
        atomic_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert left_over(tmp_path) == []


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OutputError) as caught:
        atomic_text(link, "text")
    assert caught.value.where == link
    assert link.is_symlink()


def test_a_new_file_has_the_mode_of_a_plain_open_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    saved = os.umask(0o027)
    try:
        atomic_text(tmp_path / "new", "text")
        (tmp_path / "old").write_text("old")
        (tmp_path / "old").chmod(0o664)
        atomic_text(tmp_path / "old", "text")
        atomic_text(tmp_path / "state", "text", mode=0o600, sync=False)
    finally:
        os.umask(saved)
    assert [mode_of(tmp_path / name) for name in ("new", "old", "state")] == [0o640, 0o664, 0o600]


def test_a_device_and_a_fifo_are_written_to_and_stay(tmp_path: Path) -> None:
    atomic_text(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    fifo, got = tmp_path / "fifo", list[str]()
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: got.append(fifo.read_text()))
    reader.start()
    atomic_text(fifo, "text")
    reader.join(180)
    assert got == ["text"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_failed_block_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), atomic_write(target) as part:
        part.write_bytes(b"new" + "\ud800".encode())
    with pytest.raises(OutputError) as caught, atomic_write(target):
        raise OSError(28, "No space left on device")
    assert (caught.value.where, caught.value.hint is not None) == (target, True)
    assert target.read_text() == "old"
    assert left_over(tmp_path) == []


def test_a_directory_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        atomic_text(tmp_path, "text")
    assert caught.value.where == tmp_path


def test_an_existing_folder_keeps_mode_and_other_files(tmp_path: Path) -> None:
    for name, others in (("empty", ()), ("full", ("notes.txt",))):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o2770)
        for other in others:
            (folder / other).write_text("kept")
        inode = folder.stat().st_ino
        for _ in range(2):
            with atomic_folder(folder) as part:
                (part / "jobs.csv").write_text("rows")
        assert mode_of(folder) == 0o2770
        assert folder.stat().st_ino == inode
        assert sorted(p.name for p in folder.iterdir()) == sorted(["jobs.csv", *others])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_that_root_replaces_keeps_its_owner_and_group(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("old")
    os.chown(tmp_path / "conf", 12345, 23456)
    atomic_text(tmp_path / "conf", "new", mode=0o640)
    found = (tmp_path / "conf").stat()
    assert (found.st_uid, found.st_gid, mode_of(tmp_path / "conf")) == (12345, 23456, 0o640)


def test_a_new_folder_inherits_the_group_of_a_setgid_parent(tmp_path: Path) -> None:
    group = next((g for g in os.getgroups() if g != tmp_path.stat().st_gid), None)
    if group is None and os.geteuid() == 0:
        group = 12345
    if group is not None:
        os.chown(tmp_path, -1, group)
    tmp_path.chmod(0o2775)
    with atomic_folder(tmp_path / "run") as part:
        (part / "jobs.csv").write_text("rows")
    atomic_text(tmp_path / "file", "text")
    assert mode_of(tmp_path / "run") & stat.S_ISGID
    held = {p.stat().st_gid for p in (tmp_path / "run", tmp_path / "run" / "jobs.csv", tmp_path / "file")}
    assert held == {tmp_path.stat().st_gid}


def test_links_of_a_folder_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere.csv").write_text("old")
    (tmp_path / "real" / "jobs.csv").symlink_to(tmp_path / "elsewhere.csv")
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link") as part:
        (part / "jobs.csv").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere.csv").read_text() == "new"
    assert left_over(tmp_path) == []


def test_a_failed_folder_leaves_the_old_files(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "jobs.csv").write_text("old")
    (tmp_path / "run" / "power").mkdir()

    def write_two() -> None:
        with atomic_folder(tmp_path / "run") as part:
            (part / "jobs.csv").write_text("new")
            (part / "power").write_text("a directory stands there")

    with pytest.raises(OutputError):
        write_two()
    assert (tmp_path / "run" / "jobs.csv").read_text() == "old"
    assert left_over(tmp_path) == []


def test_an_overwrite_is_told_from_a_write(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("")
    assert written(new) == f"wrote {new}"
    assert written(old) == f"overwrote {old}"
    assert written(new, old) == f"wrote {new}; overwrote {old}"
    assert written(Path("/dev/null")) == "wrote /dev/null"
