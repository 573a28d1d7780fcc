"""Piped input: every reader accepts a pipe or FIFO, and refuses a device with the right reason."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.formats.refusal import refused
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.read import read_workload
from wattqueue.formats.series import read_steps
from wattqueue.formats.source import sha256_of
from wattqueue.formats.table.job_table import read_table, write_table
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition

TABLE = b"submit_s,nodes,runtime_s\n0,2,60\n5,1,30\n"
SWF = b"; Version: 2.2\n" + b"1 0 0 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1\n" * 2
SACCT = b"JobID|Submit|Elapsed|NNodes\n" + b"".join(b"%d|2026-09-01T09:00:00|01:00:00|2\n" % i for i in (1, 2))
BATSIM = json.dumps(
    {
        "jobs": [{"id": str(i), "subtime": i, "res": 1, "profile": "p"} for i in (1, 2)],
        "profiles": {"p": {"type": "delay", "delay": 5}},
    }
).encode()


def parquet(folder: Path) -> bytes:
    path = folder / "jobs.parquet"
    write_table(path, Jobs.build([0, 5], [2, 1], [60, 30]))
    return path.read_bytes()


def through_a_fifo(path: Path, data: bytes, read: Callable[[Path], None]) -> None:
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    read(path)
    writer.join(180)
    assert not writer.is_alive()


@pytest.mark.parametrize("name", ["table", "table.gz", "parquet", "swf", "sacct", "batsim"])
def test_a_workload_through_a_fifo(tmp_path: Path, name: str) -> None:
    data = {
        "table": TABLE,
        "table.gz": gzip.compress(TABLE),
        "parquet": parquet(tmp_path),
        "swf": SWF,
        "sacct": SACCT,
        "batsim": BATSIM,
    }[name]

    def read(path: Path) -> None:
        assert len(read_workload(path).jobs) == 2
        assert len(sha256_of(path)) == 64
        assert len(read_workload(path).jobs) == 2, "the copy is read as often as needed"

    through_a_fifo(tmp_path / "fifo", data, read)


def test_errors_of_a_pipe_name_the_pipe_and_its_line(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        with refused(f"{path}:3"):
            read_table(path)

    through_a_fifo(tmp_path / "fifo", b"submit_s,nodes,runtime_s\n0,2,60\n5,one,30\n", read)


def test_a_series_a_cap_and_a_machine_through_fifos(tmp_path: Path) -> None:
    machine = Machine("m", (Partition("a", 4),))
    found: list[object] = []
    through_a_fifo(tmp_path / "a.csv", b"t,v\n0,5\n9,6\n", lambda p: found.append(read_steps(p).time_s.tolist()))
    cap = b"time_s,cap_w\n0,500\n"
    through_a_fifo(tmp_path / "c.csv", cap, lambda p: found.append(parse_cap(str(p), machine).cap_w.tolist()))
    toml = b'name = "m"\n[[partitions]]\nname = "a"\nnodes = 4\n'
    through_a_fifo(tmp_path / "m.toml", toml, lambda p: found.append(load_machine(p) == machine))
    assert found == [[0.0, 9.0], [500.0], True]


def test_a_pipe_as_a_shell_passes_it(tmp_path: Path) -> None:
    """Process substitution gives /dev/fd/N, a pipe without a name."""
    end, begin = os.pipe()
    try:
        os.write(begin, TABLE)
        os.close(begin)
        assert len(read_workload(Path(f"/dev/fd/{end}")).jobs) == 2
    finally:
        os.close(end)


def test_devices_are_refused() -> None:
    with refused("/dev/zero"):
        read_workload(Path("/dev/zero"))
    with refused("/dev/null"):
        read_workload(Path("/dev/null"))
