"""Whole processes, as a user starts them: warm caches, start of Python included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.harness import Measured, benchmark, best_of, timed

COMMAND = [sys.executable, "-c", "from wattqueue.cli import main; main()"]


def run(arguments: Sequence[str], **environment: str) -> str:
    """Run ``wattqueue`` once; what it printed."""
    env = {**os.environ, **environment}
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True, env=env)
    return done.stdout


@benchmark("wattqueue --help", unit="s", at_most=0.15)
def help_text() -> Measured:
    """From the shell to the last line."""
    seconds, text = best_of(5, lambda: run(["--help"]))
    return Measured(seconds, detail={"lines": len(text.splitlines())})


@benchmark("import wattqueue", unit="s", at_most=0.1)
def import_of_the_package() -> Measured:
    """A Python that imports the package, start of Python included; no name of it is used."""
    code = "import sys, wattqueue; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    call = [sys.executable, "-c", code]
    seconds, done = best_of(5, lambda: subprocess.run(call, capture_output=True, text=True, check=True))
    heavy = sorted({"numpy", "numba", "polars"}.intersection(done.stdout.split()))
    return Measured(seconds, detail={"heavy_packages": heavy})


@benchmark("first compile of all kernels", unit="s", at_most=60)
def first_compile() -> Measured:
    """An empty cache, the stock policies run on a few jobs."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "WATTQUEUE_CACHE_DIR": folder}
        warm = [sys.executable, "-m", "wattqueue.sim.warm"]
        cold_s, _ = timed(lambda: subprocess.run(warm, check=True, env=env))
        warm_s, _ = timed(lambda: subprocess.run(warm, check=True, env=env))
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    return Measured(cold_s - warm_s, detail={"cold_s": cold_s, "warm_s": warm_s, "cache_bytes": size})
