"""Large generated dumps: memory is bounded by the jobs, not by the bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.dumps import write_dump

PROGRAM = """
import json, sys
from pathlib import Path
from wattqueue.formats.slurm.sacct import read_sacct
workload = read_sacct(Path(sys.argv[1]))
# Not ru_maxrss: a process begins with its parent's.
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps({"peak_mb": peak / 1024, **workload.summary()}))
"""


def read(path: Path) -> dict[str, float]:
    """Read a dump in a process of its own: its summary and its memory."""
    import json

    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_generated_dump_with_steps_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "dump.psv"
    jobs = write_dump(path, 40_000, steps=True)
    found = read(path)
    assert (found["jobs"], found["rows"], found["unusable"]) == (jobs, 4 * jobs, 0)
    assert found["with_power"] == jobs
    assert found["alone_yes"] + found["alone_no"] == jobs


@pytest.mark.slow
@pytest.mark.parametrize("steps", [False, True], ids=["jobs only", "with steps"])
def test_half_a_million_rows_stay_below_600_mb(tmp_path: Path, steps: bool) -> None:
    path = tmp_path / "dump.psv"
    jobs = write_dump(path, 500_000, steps=steps)
    found = read(path)
    assert found["jobs"] == jobs
    assert found["peak_mb"] < 600


@pytest.mark.slow
def test_memory_grows_with_jobs_and_not_with_bytes(tmp_path: Path) -> None:
    path = tmp_path / "dump.psv"
    jobs = write_dump(path, 8_000_000, steps=True)
    size_mb = path.stat().st_size / 2**20
    found = read(path)
    assert found["jobs"] == jobs
    assert found["peak_mb"] < 300 + 400 * jobs / 2**20
    assert found["peak_mb"] < size_mb
