"""A real Prometheus for tests, on loopback, with what it scrapes; all of it ends with the test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.live.procs import MARKER, end_all
from tests.live.slurmlab import free_ports

PROMETHEUS = "prometheus"


def missing(programs: Sequence[str]) -> str | None:
    """Why a test cannot run here; None where it can."""
    absent = [name for name in programs if shutil.which(name, path="/usr/bin:/bin") is None]
    return (
        f"not installed: {' '.join(absent)} (apt-get install prometheus prometheus-node-exporter)" if absent else None
    )


class PrometheusSite:
    """A folder with Prometheus and its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.other_port = free_ports(2)  # asked for at once: two calls may give the same port
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {"PATH": "/usr/bin:/bin", MARKER: str(folder)}
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        watchdog = Path(__file__).with_name("procs.py")
        self.watchdog = subprocess.Popen([sys.executable, str(watchdog), str(folder)], stdin=subprocess.PIPE)

    def start(self, *argv: str) -> None:
        with (self.folder / f"{argv[0]}.log").open("wb") as log:
            child = subprocess.Popen(argv, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            self.children[argv[0]] = child

    def scrape(self, port: int, labels: str = "{}", rules: Path | None = None) -> None:
        """Start Prometheus: it scrapes a port each half second, and evaluates rules as often."""
        conf = self.folder / "prometheus.yml"
        more = "" if rules is None else f"rule_files: ['{rules}']\n"
        conf.write_text(
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
            f"{more}scrape_configs:\n- job_name: nodes\n  static_configs:\n"
            f"  - targets: ['127.0.0.1:{port}']\n    labels: {labels}\n"
        )
        where = (f"--config.file={conf}", f"--storage.tsdb.path={self.folder}/tsdb")
        self.start(PROMETHEUS, *where, f"--web.listen-address=127.0.0.1:{self.port}")

    def down(self) -> None:
        left = end_all(str(self.folder))
        for child in self.children.values():
            child.wait(60.0)
        assert self.watchdog.stdin is not None
        self.watchdog.stdin.close()
        self.watchdog.wait(60.0)
        assert not left
