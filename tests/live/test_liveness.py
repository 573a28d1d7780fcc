"""Whether a controller works, starts, is blind, hangs or has ended, by the files of its run folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattqueue.live.files.lease import write_beat
from wattqueue.live.files.liveness import ProcessId, State, liveness_of, note_blind
from wattqueue.live.files.status import RunDir

NOW_S = 1_800_000_000.0


def state(folder: Path, age_s: float | None, process: ProcessId | None) -> State:
    status = None if age_s is None else {"time_s": NOW_S - age_s, "mode": "control"}
    return liveness_of(folder, folder, status, process, NOW_S, 120.0).state


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def id_of(pid: int) -> ProcessId:
    own = ProcessId.own()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return ProcessId(own.host, pid, int(fields[19]))


def test_a_controller_that_writes_works(tmp_path: Path) -> None:
    assert state(tmp_path, 3.0, ProcessId.own()) == "works"
    assert state(tmp_path, 3.0, None) == "works", "a controller of an earlier version names no process"


def test_nothing_has_been_written(tmp_path: Path) -> None:
    assert state(tmp_path, None, None) == "none"


def test_a_process_that_is_there_and_writes_nothing_hangs(tmp_path: Path) -> None:
    write_beat(tmp_path, "control", NOW_S - 90.0)
    found = liveness_of(tmp_path, tmp_path, {"time_s": NOW_S - 90.0, "mode": "control"}, ProcessId.own(), NOW_S, 120.0)
    assert found.state == "hung"
    assert "heartbeat is 90 s old" in found.text


def test_a_process_that_has_ended_is_dead_at_once(tmp_path: Path, child: subprocess.Popen[str]) -> None:
    process = id_of(child.pid)
    assert state(tmp_path, 2.0, process) == "works"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # nobody has waited for it yet: a zombie
    assert state(tmp_path, 2.0, process) == "dead"
    child.wait()
    assert state(tmp_path, 2.0, process) == "dead"


def test_a_number_that_was_given_out_again_is_another_process(tmp_path: Path) -> None:
    own = ProcessId.own()
    assert state(tmp_path, 2.0, own._replace(started=own.started + 1)) == "dead"


def test_a_stopped_process_is_named_so(tmp_path: Path, child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert state(tmp_path, 60.0, id_of(child.pid)) == "stopped"
    child.send_signal(signal.SIGCONT)


def test_of_another_host_only_the_age_is_known(tmp_path: Path) -> None:
    elsewhere = ProcessId("elsewhere.example", 1, 5)
    assert state(tmp_path, 3.0, elsewhere) == "works"
    assert state(tmp_path, 60.0, elsewhere) == "stale"
    assert state(tmp_path, 60.0, None) == "stale"


def test_a_controller_that_cannot_observe_the_cluster_is_blind(tmp_path: Path) -> None:
    note_blind(tmp_path, "Slurm does not\nanswer", NOW_S - 5.0)
    status = {"time_s": NOW_S - 60.0, "mode": "control"}
    found = liveness_of(tmp_path, tmp_path, status, ProcessId.own(), NOW_S, 120.0)
    assert (found.state, found.detail) == ("blind", "Slurm does not answer")
    assert "Slurm" not in found.text.replace("Slurm schedules", ""), "words of others stand in the detail alone"
    assert state(tmp_path, 3.0, ProcessId.own()) == "works", "it has seen the cluster since"
    assert liveness_of(tmp_path, tmp_path, status, ProcessId.own(), NOW_S + 300.0, 120.0).state == "hung"


def test_a_clock_in_the_future_is_named(tmp_path: Path) -> None:
    assert state(tmp_path, -60.0, ProcessId.own()) == "ahead"


def test_one_that_compiles_starts_whatever_an_earlier_one_wrote(tmp_path: Path) -> None:
    RunDir(tmp_path).compiling(NOW_S - 20.0, NOW_S - 1.0)
    assert state(tmp_path, 500.0, None) == "starting"
    assert state(tmp_path, None, None) == "starting"
