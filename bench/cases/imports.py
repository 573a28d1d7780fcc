"""A site's dump to a job table, whole processes, on generated dumps."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.cases.process import COMMAND
from bench.dumps import write_dump
from bench.harness import Measured, benchmark, best_of, digest
from wattqueue.formats.table.job_table import read_table

ROWS = 500_000
MEASURE = "import resource,subprocess,sys; subprocess.run(sys.argv[1:],check=True); "
PEAK = "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


def peak_mb(arguments: list[str]) -> float:
    """Peak resident memory of a process, in MB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE + PEAK, *arguments], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1]) * resource.getpagesize() / 4096 / 1024


def measured(*, steps: bool) -> tuple[float, float, str]:
    """Seconds and MB of one import, and a digest of the table."""
    with tempfile.TemporaryDirectory() as folder:
        dump, out = Path(folder) / "dump.psv", Path(folder) / "jobs.parquet"
        write_dump(dump, ROWS, steps=steps)
        arguments = [*COMMAND, "import", str(dump), "-o", str(out)]
        seconds, _ = best_of(3, lambda: subprocess.run(arguments, check=True, capture_output=True))
        memory = peak_mb(arguments)
        jobs = read_table(out)
        power = np.zeros(len(jobs)) if jobs.mean_power_w is None else jobs.mean_power_w
        alone = (jobs.extra["alone"] == "yes").astype(float)
        return seconds, memory, digest(jobs.submit_s, jobs.runtime_s, power.round(6), alone)


@benchmark("import 500,000 sacct rows, one a job, to Parquet", unit="s", at_most=3)
def jobs_only() -> Measured:
    """As sacct -X writes it; energy on every row, half of the jobs share nodes."""
    seconds, memory, found = measured(steps=False)
    return Measured(seconds, found, {"peak_mb": memory})


@benchmark("import 500,000 sacct rows with steps, to Parquet", unit="s", at_most=3)
def with_steps() -> Measured:
    """Four rows a job; energy on the numbered steps alone."""
    seconds, memory, found = measured(steps=True)
    return Measured(seconds, found, {"peak_mb": memory})
