"""A Dask scheduler and its workers as processes on loopback, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.program import IMPORTED_FROM

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0


def wait_for(what: str, ready: Callable[[], bool]) -> None:
    """Wait for a state; a machine that is busy may take its time."""
    end = time.monotonic() + PATIENCE_S
    while not ready():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.02)


@dataclass
class Cluster:
    """Processes that this object started, and ends."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the scheduler listens, as ``--cluster`` takes it."""
        told = json.loads((self.folder / "scheduler.json").read_text())
        return str(told["address"]).replace("tcp://", "dask://")

    def scheduler(self) -> None:
        """Start the scheduler on a free port, and wait until it says which."""
        file = self.folder / "scheduler.json"
        self._start("scheduler", ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)])
        wait_for("scheduler", lambda: _is_json(file))

    def worker(self, name: str, source: Path | None = None) -> None:
        """Start a worker of one thread; ``source`` is where it finds another WattQueue."""
        file = str(self.folder / "scheduler.json")
        options = ["--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--name", name, "--memory-limit", "0"]
        self._start("worker", [*options, "--local-directory", str(self.folder)], name, source)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def _start(self, what: str, options: list[str], name: str = "", source: Path | None = None) -> None:
        path = os.pathsep.join([str(source or IMPORTED_FROM), str(ROOT), os.environ.get("PYTHONPATH", "")])
        log = (self.folder / f"{name or what}.log").open("wb")
        with log:
            self.processes[name or what] = subprocess.Popen(
                [sys.executable, "-m", "dask", what, "--no-dashboard", "--dashboard-address", "localhost:0", *options],
                env=os.environ | {"PYTHONPATH": path}, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip

    def end(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


@contextlib.contextmanager
def cluster(folder: Path, *workers: str) -> Iterator[Cluster]:
    """A scheduler and workers of these names."""
    folder.mkdir(exist_ok=True)
    found = Cluster(folder)
    try:
        found.scheduler()
        for name in workers:
            found.worker(name)
        yield found
    finally:
        found.end()


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True
