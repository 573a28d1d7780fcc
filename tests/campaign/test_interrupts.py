"""Ctrl-C and SIGTERM end a campaign at any moment: no worker is left, no half of a file, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.campaign.processes import members
from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.worker import deferred

TRACE = "".join(
    f"{i} {i * 10} -1 {60 + i % 7 * 30} {1 + i % 5} -1 -1 {1 + i % 5} 400 -1 1 1 1 1 -1 -1 -1 -1\n"
    for i in range(1, 60)
)
GRID = 'workloads = ["trace.swf"]\nnodes = 8\nnode_watts = "95:190"\ncaps = ["70%", "80%", "90%", "100%"]\n'
pytestmark = pytest.mark.usefixtures("signals_heard")


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("number", "whole_group", "finished", "times"),
    [
        (signal.SIGINT, True, 0, 1),  # while workers start
        (signal.SIGINT, True, 5, 3),  # while workers end
        (signal.SIGTERM, False, 2, 1),
    ],
)
def test_a_signal_ends_everything(
    tmp_path: Path, number: signal.Signals, whole_group: bool, finished: int, times: int
) -> None:
    (tmp_path / "trace.swf").write_text(TRACE)
    (tmp_path / "grid.toml").write_text(GRID)
    call = [sys.executable, "-c", "from wattqueue.cli import main; main()", "campaign", str(tmp_path / "grid.toml")]
    process = subprocess.Popen(
        [*call, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    store = tmp_path / "grid" / "finished.jsonl"
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if store.exists() and store.read_bytes().count(b"\n") >= finished:
            break
        time.sleep(0.002)
    for _ in range(times):
        if process.poll() is None:
            (os.killpg if whole_group else os.kill)(process.pid, number)
        time.sleep(0.02)
    _, errors = process.communicate(timeout=180)
    assert process.returncode in (128 + number, -number, 0)
    lines = [line for line in errors.splitlines() if not line.startswith(("campaign: ", "Compiling"))]
    assert lines == []
    for _ in range(50):
        if not members(process.pid):
            break
        time.sleep(0.1)
    assert members(process.pid) == []
    assert not list(tmp_path.rglob("*.part"))


@dataclass(frozen=True)
class Mask:
    """A cell that reads which signals its process blocks."""

    number: int

    def identity(self) -> Mapping[str, object]:
        return {"number": self.number}

    def perform(self, _shared: Shared) -> Row:
        return {"blocked": int(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())), "pid": os.getpid()}


def test_workers_block_the_interrupt_of_the_terminal() -> None:
    frame = run_cells([Mask(i) for i in range(8)], workers=2)
    assert set(frame["blocked"].to_list()) == {1}
    assert os.getpid() not in frame["pid"].to_list()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    assert not any(Path(f"/proc/{pid}").exists() for pid in frame["pid"].to_list())


def test_signals_wait_for_the_end_of_a_block() -> None:
    done = []

    def interrupted() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("the block")
        done.append("what follows")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["the block"]


def test_signals_that_are_ignored_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with deferred():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_are_left_alone() -> None:
    entered = []

    def run() -> None:
        with deferred():
            entered.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert entered == [before]
