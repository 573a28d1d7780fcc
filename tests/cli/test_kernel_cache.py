"""A cache of compiled kernels that cannot be written is named once, with a hint, and replaced by one that is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
from wattqueue.terminal import say_if_compiling
from wattqueue.kernels import cache
say_if_compiling()
print(cache.CACHE_DIR)
"""


def looked(cache: Path, temporary: Path) -> tuple[Path, str]:
    """The cache folder that a new process uses, and what it prints about it."""
    environment = {**os.environ, "WATTQUEUE_CACHE_DIR": str(cache), "TMPDIR": str(temporary), "NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True, timeout=180
    )
    return Path(done.stdout.strip()), done.stderr


def test_a_folder_that_can_be_written_needs_no_words(tmp_path: Path) -> None:
    """It is made where it does not exist."""
    folder, said = looked(tmp_path / "cache", tmp_path)
    assert folder.parent == tmp_path / "cache"
    assert "WATTQUEUE_CACHE_DIR" not in said


def test_one_that_cannot_is_named_and_replaced_by_the_same_one_each_time(tmp_path: Path) -> None:
    """Below a file no folder can be made, whoever asks (permissions do not stop root)."""
    (tmp_path / "file").write_text("")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    first, said = looked(tmp_path / "file" / "cache", scratch)
    again, _ = looked(tmp_path / "file" / "cache", scratch)
    assert str(tmp_path / "file" / "cache") in said
    assert said.count("WATTQUEUE_CACHE_DIR") == 1
    assert first == again
    assert list(scratch.iterdir()) == [first]
    assert first.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    """Machine code is loaded from it."""
    (tmp_path / "file").write_text("")
    first, _ = looked(tmp_path / "file" / "cache", tmp_path)
    first.chmod(0o777)
    again, said = looked(tmp_path / "file" / "cache", tmp_path)
    assert again != first
    assert list(tmp_path.glob("wattqueue-kernels-*")) == [first]
    assert "WATTQUEUE_CACHE_DIR" in said


@pytest.mark.parametrize("inside", [False, True])
def test_a_named_folder_that_others_can_write_is_not_trusted_either(tmp_path: Path, inside: bool) -> None:
    folder, _ = looked(tmp_path / "cache", tmp_path)
    (folder / "kernel.nbi").write_text("")
    (folder / "kernel.nbi" if inside else folder).chmod(0o777)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    again, printed = looked(tmp_path / "cache", scratch)
    assert again.parent == scratch
    assert str(tmp_path / "cache") in printed


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_named_folder_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    folder, _ = looked(tmp_path / "cache", tmp_path)
    (folder / "kernel.nbi").write_text("")
    os.chown(folder, 65_534, 65_534)
    again, _ = looked(tmp_path / "cache", tmp_path)
    assert again != folder


def test_a_link_to_a_folder_is_not_trusted(tmp_path: Path) -> None:
    """Who made the link may have it lead elsewhere later."""
    folder, _ = looked(tmp_path / "cache", tmp_path)
    folder.rename(tmp_path / "elsewhere").chmod(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    again, printed = looked(tmp_path / "cache", tmp_path)
    assert again != folder
    assert str(tmp_path / "cache") in printed


def test_modes_inside_a_folder_that_is_closed_to_others_do_not_matter(tmp_path: Path) -> None:
    """With a umask of 002 the compiler's files are writable by the group."""
    folder, _ = looked(tmp_path / "cache", tmp_path)
    (folder / "kernel.nbi").write_text("")
    (folder / "kernel.nbi").chmod(0o664)
    folder.chmod(0o700)
    again, printed = looked(tmp_path / "cache", tmp_path)
    assert again == folder
    assert "WATTQUEUE_CACHE_DIR" not in printed


@pytest.mark.compiled
def test_a_disk_that_fills_up_does_not_end_a_run(tmp_path: Path) -> None:
    """Saving fails; the compiled kernel is used all the same."""
    code = (
        "import wattqueue.kernels._numba\n"
        "def refuse(*_): raise OSError(28, 'No space left on device')\n"
        "import numba.core.caching as c\nc.IndexDataCacheFile.save = refuse\n"
        "from wattqueue.kernels._numba import entry\n"
        "@entry\ndef twice(x):\n    return 2 * x\n"
        "print(twice(21))\n"
    )
    source = tmp_path / "kernel.py"
    source.write_text(code)
    environment = {**os.environ, "WATTQUEUE_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, source], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "42\n"
