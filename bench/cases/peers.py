"""Side by side with accasim 1.1.3 (PyPI): EASY, one trace, whole processes, in the same run.

The two do not decide alike (accasim lets backfilled jobs delay the head of the queue), so their answers are
not compared: this says what a replay of the trace costs with either.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.cases.process import run
from bench.harness import Measured, Skip, benchmark, timed

ACCASIM = "accasim==1.1.3"
ENVIRONMENT = Path(__file__).parents[1] / ".peers" / "accasim-1.1.3"
DRIVER = Path(__file__).parents[1] / "peers" / "accasim_easy.py"
SHIM = "import collections, collections.abc\ncollections.Mapping = collections.abc.Mapping\n"
"""accasim imports a name that Python 3.10 moved: this puts it back."""


def trace() -> tuple[Path, int]:
    """Return the trace and the nodes of its machine: WATTQUEUE_BENCH_SWF=FILE:NODES, or KTH-SP2 of WATTQUEUE_DATA."""
    named = os.environ.get("WATTQUEUE_BENCH_SWF")
    if named:
        path, _, nodes = named.rpartition(":")
        return Path(path), int(nodes)
    folder = os.environ.get("WATTQUEUE_DATA")
    if folder and (Path(folder) / "swf" / "KTH-SP2.swf.gz").is_file():
        return Path(folder) / "swf" / "KTH-SP2.swf.gz", 100
    raise Skip("needs a trace: WATTQUEUE_BENCH_SWF=FILE.swf:NODES, or WATTQUEUE_DATA")


def accasim_python() -> Path:
    """Return the interpreter of accasim's own environment, made at the first call."""
    python = ENVIRONMENT / "bin" / "python"
    ready = ENVIRONMENT / ".ready"
    if not ready.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, ACCASIM], check=False).returncode:
            raise Skip(f"{ACCASIM} could not be installed")
        ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        found = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True)
        (Path(found.stdout.strip()) / "sitecustomize.py").write_text(SHIM)
        ready.touch()
    return python


@benchmark("times as fast as accasim 1.1.3: EASY, file to outputs", unit="x", at_least=1)
def against_accasim() -> Measured:
    """Measure both from the SWF file to the schedule on disk; WattQueue also writes power, metrics and energy."""
    source, nodes = trace()
    python = accasim_python()
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.swf"
        plain.write_bytes(gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes())
        theirs = [str(python), str(DRIVER), str(plain), str(nodes), folder]
        ours = ["simulate", str(plain), "--nodes", str(nodes), "--policy", "easy", "--out", f"{folder}/ours"]
        run(ours)
        ours_s, _ = timed(lambda: run(ours))
        theirs_s, _ = timed(lambda: subprocess.run(theirs, check=True, capture_output=True))
    return Measured(theirs_s / ours_s, detail={"accasim_s": theirs_s, "wattqueue_s": ours_s, "trace": source.name})
