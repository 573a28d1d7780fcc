"""Kernels for the account of the planner: compiled by the installation, in a folder that may be mounted noexec."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from wattqueue.kernels import library
from wattqueue.kernels.library import find_library
from wattqueue.kernels.mode import COMPILES
from wattqueue.live.config import LiveConfig
from wattqueue.live.warm_up import prepare_cache, prepared_for

SOURCES = Path(library.__file__).parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, and be another account")


@pytest.fixture
def noexec() -> Iterator[Path]:
    """A folder on a real file system from which nothing may be executed."""
    place = Path(tempfile.mkdtemp(prefix="wattqueue-noexec-", dir="/var/lib"))
    place.chmod(0o755)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,mode=0755", "tmpfs", place], check=False)
    if mounted.returncode != 0:
        place.rmdir()
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)
    place.rmdir()


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Python that any account can run, with these sources, which belong to root: no other account can write them."""
    found = Path("/usr/bin/python3")
    packages = Path(np.__file__).parents[1]
    place = Path(tempfile.mkdtemp(prefix="wattqueue-python-", dir="/var/lib"))
    place.chmod(0o755)
    program = place / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCES}:{packages} exec {found} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    ask = [str(program), "-c", "import numba, sys; print(sys.version_info[:2])"]
    said = subprocess.run(ask, capture_output=True, text=True, check=False, user="nobody", cwd="/")
    if said.stdout.strip() != str(sys.version_info[:2]):
        shutil.rmtree(place)
        pytest.skip("no Python of this version that other accounts can run")
    yield
    shutil.rmtree(place)


def files_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_uid for path in folder.rglob("*.nb?")}


@as_root
@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not COMPILES, reason="this mode compiles nothing")
@pytest.mark.usefixtures("python")
def test_another_account_compiles_from_sources_it_cannot_write_into_a_noexec_folder(noexec: Path) -> None:
    folder = noexec / "wattqueue/cache"
    assert prepare_cache("nobody", folder) == f"compiled the scheduling pass for nobody into {folder}"
    made = files_of(folder)
    assert any(name.startswith("schedule.schedule_once") for name in made)
    assert set(made.values()) == {pwd.getpwnam("nobody").pw_uid}
    prepare_cache("nobody", folder)
    assert files_of(folder) == made, "the second time all of it is found"


@pytest.mark.parametrize(("user", "uid", "why"), [("wq-nobody", 0, "no account"), ("root", 4711, "only root and root")])
def test_what_cannot_be_prepared_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: str, uid: int, why: str
) -> None:
    monkeypatch.setattr("wattqueue.live.warm_up.COMPILES", True)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    said = prepare_cache(user, tmp_path / "cache")
    assert why in said
    assert "the first start of the controller compiles" in said


def test_a_folder_that_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("wattqueue.live.warm_up.COMPILES", True)
    (tmp_path / "file").touch()
    said = prepare_cache(pwd.getpwuid(os.geteuid()).pw_name, tmp_path / "file/cache")
    assert "Not a directory" in said
    assert "the first start" in said


def test_only_units_that_systemd_reads_have_their_account_prepared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("wattqueue.live.warm_up.prepare_cache", lambda user: f"prepared {user}")
    config = LiveConfig.model_validate({"machine": "quartz", "user": "planner"})
    assert prepared_for(tmp_path, config) == []
    assert prepared_for(Path("/etc/systemd/system"), config) == ["prepared planner"]


def test_a_library_needs_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("wattqueue.live.warm_up.COMPILES", False)
    assert prepare_cache("nobody", tmp_path / "cache") == "this installation compiles no kernels"
    assert list(tmp_path.iterdir()) == []


@as_root
def test_a_library_on_a_noexec_file_system_is_refused(noexec: Path, tmp_path: Path) -> None:
    import hashlib
    import json

    levels = library.levels_of_this_processor()
    if not levels:
        pytest.skip("no level of x86-64")
    row = {"file": "k.so", "sha256": hashlib.sha256(b"code").hexdigest()}
    manifest = json.dumps({"sources": library.sources_digest(), "levels": {levels[0]: row}, "entries": []})
    for folder in (tmp_path, noexec):
        (folder / "k.so").write_bytes(b"code")
        (folder / library.MANIFEST).write_text(manifest)
    assert find_library(tmp_path)[0] is not None
    assert find_library(noexec) == (
        None,
        f"{noexec / 'k.so'} is on a file system from which nothing may be executed (noexec)",
    )
