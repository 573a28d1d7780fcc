"""A pipe at the path of a file that the controller follows is refused: a read of it would stop all rounds."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.drive import lab_machine
from wattqueue.errors import InputError
from wattqueue.formats.tariff import parse_source
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.features.job_energy import Rate
from wattqueue.live.features.target_file import TargetFile
from wattqueue.live.files.followed import refuse_pipe
from wattqueue.live.guard.own_cap import OwnCap
from wattqueue.model.signals import Cap

WHY = "pipe, a socket or a device"


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A pipe that nobody writes to; a test that reads it fails after some seconds instead of waiting for ever."""
    path = tmp_path / "followed.csv"
    os.mkfifo(path)

    def late(_: int, __: object) -> None:
        raise AssertionError("the pipe was read")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_cap(pipe: Path) -> None:
    caps = CapFile(str(pipe), lab_machine())
    assert WHY in caps.problem
    assert caps.closed
    pipe.unlink()
    pipe.write_text("time_s,cap_w\n0,1200\n")
    assert caps.changed()
    assert caps.cap.cap_w.tolist() == [1200.0]
    pipe.unlink()
    os.mkfifo(pipe)
    assert not caps.changed()
    assert WHY in caps.problem
    assert caps.cap.cap_w.tolist() == [1200.0]


def test_the_guards_own_cap(pipe: Path) -> None:
    cap = OwnCap(str(pipe))
    assert cap.in_force_w(0.0) == 0.0
    assert "is no series" in cap.problem
    pipe.unlink()
    pipe.write_text("time_s,cap_w\n0,1200\n")
    assert cap.in_force_w(0.0) == 1200.0


def test_load_targets(pipe: Path) -> None:
    targets = TargetFile(pipe, lab_machine(), Cap.none, pipe.parent)
    assert len(targets.targets()) == 0
    assert WHY in targets.problem


def test_a_price(pipe: Path) -> None:
    with pytest.raises(InputError, match=WHY):
        Rate(parse_source(pipe, "EUR/MWh", "x")).of(0.0, 3600.0, 1.0)


def test_what_is_a_file_or_absent_passes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "absent", tmp_path):  # readers say what a folder lacks
        refuse_pipe(path)
    with pytest.raises(InputError, match=WHY):
        refuse_pipe(Path("/dev/zero"))
