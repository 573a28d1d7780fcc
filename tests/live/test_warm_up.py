"""The first compile in ``wattqueue live`` is announced, and answers SIGTERM."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.live.record import FILES, RECORDED
from tests.live.site import MACHINE
from wattqueue.live.warm_up import PATIENCE_S, run_small_pass, warm_up

CONFIG = 'machine = "m.toml"\ncap = "1800W"\n[slurm]\nbin_dir = "bin"\n'


def recorded_commands(folder: Path) -> None:
    """Programs that print what a real Slurm's commands printed."""
    folder.mkdir()
    for program in ("sinfo", "squeue", "scontrol"):
        cases = [
            f'"{" ".join(argv[1:])}") cat {RECORDED / name}.txt ;;'
            for name, argv in FILES.items()
            if argv[0] == program
        ]
        file = folder / program
        file.write_text("\n".join(["#!/bin/sh", 'case "$*" in', *cases, "esac", ""]))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_pass_that_is_there_is_not_announced() -> None:
    said: list[str] = []
    assert warm_up(threading.Event(), said.append, lambda: None)
    assert said == []


def test_a_long_compile_is_announced_and_a_stop_does_not_wait_for_it() -> None:
    said: list[str] = []
    stop, never = threading.Event(), threading.Event()
    threading.Timer(PATIENCE_S * 1.5, stop.set).start()

    def compile_for_long() -> None:
        never.wait()

    assert not warm_up(stop, said.append, compile_for_long)
    never.set()
    assert [line.startswith("compiling") for line in said] == [True]


def test_an_error_is_left_to_the_first_round() -> None:
    def wrong() -> None:
        raise ValueError

    assert warm_up(threading.Event(), lambda _: None, wrong)


def test_the_small_pass_is_one_that_starts_a_job() -> None:
    assert run_small_pass() == 1


@pytest.mark.compiled
@pytest.mark.slow
def test_sigterm_during_the_compile_ends_the_controller(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MACHINE)
    (tmp_path / "live.toml").write_text(CONFIG.replace('"bin"', f'"{tmp_path}/bin"'))
    recorded_commands(tmp_path / "bin")
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    env |= {"WATTQUEUE_CACHE_DIR": str(tmp_path / "cache")}
    argv = [sys.executable, "-c", "from wattqueue.cli import main; main()", "live", "--config", "live.toml"]
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = iter(child.stdout.readline, "")
        assert any("compiling" in line for line in lines)
        child.send_signal(signal.SIGTERM)
        rest = child.stdout.read()
        assert child.wait() == 0
    assert "compiled in" not in rest
    assert not (tmp_path / "run/status.json").exists(), "no round ran"
    assert not (tmp_path / "run/lease").exists()
    shutil.rmtree(tmp_path / "cache")
