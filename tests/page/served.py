"""A page served by ``wattqueue live serve`` as a process of its own, and requests to it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.bigview import BigSlurm
from tests.live.drive import lab_machine, make_controller
from tests.live.slurmlab import wait_for
from tests.program import IMPORTED_FROM
from tests.report.chromium import Browser
from wattqueue.live.controller import Controller
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.model.signals import Cap

TOKEN = "a-token-of-forty-two-characters"  # noqa: S105
MACHINE = """
name = "lab"
[[partitions]]
name = "p1"
nodes = {nodes}
idle_w = 100.0
max_w = 300.0
[[partitions]]
name = "p2"
nodes = {nodes}
idle_w = 100.0
max_w = 300.0
"""


def configure(folder: Path, *, token: bool = True, nodes: int = 4, **more: object) -> Path:
    """Write a configuration whose run folder is ``folder/run``; ``more`` are keys of ``[page]``."""
    (folder / "run").mkdir(exist_ok=True)
    (folder / "machine.toml").write_text(MACHINE.format(nodes=nodes))
    if token:
        (folder / "token").write_text(TOKEN + "\n")
        (folder / "token").chmod(0o600)
        more["token_file"] = "token"  # noqa: S105
    keys = "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    (folder / "live.toml").write_text(f'machine = "machine.toml"\ncap = "1400W"\n[page]\nport = 0\n{keys}')
    return folder / "live.toml"


def controller_of(
    slurm: BigSlurm, folder: Path, cap_w: float, nodes: int, clock: list[float] | None = None
) -> Controller:
    """A controller over prepared text, of this process; its clock is the real one unless one is given."""
    return make_controller(
        SlurmCluster(slurm), folder, time.time if clock is None else lambda: clock[0], cap=Cap.constant(cap_w),
        machine=lab_machine(nodes), checked=False,
    )  # fmt: skip


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Served:
    """The process that serves, and its port."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, path: str, *, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180.0)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def events(self, wanted: Sequence[str] = ("now", "queue"), **headers: str) -> dict[str, Any]:
        """The first events of a stream by name, until all that are wanted are there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180.0)
        found: dict[str, Any] = {}
        try:
            connection.request("GET", "/events", headers=headers)
            got = connection.getresponse()
            assert got.status == 200
            while not set(wanted) <= found.keys():
                line = got.readline().decode()
                if line.startswith("event: "):
                    found[line[7:].strip()] = json.loads(got.readline().decode()[6:])
            return found
        finally:
            connection.close()

    def seconds(self) -> float:
        """Processor time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(fields[k]) for k in (11, 12)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(config: Path, *prefix: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """``prefix``: a command line that stands in for this interpreter's ``wattqueue``."""
    with serving(config.with_name("serve.log"), "live", "serve", "--config", str(config), prefix=prefix, env=env) as it:
        yield it


@contextlib.contextmanager
def serving(
    log: Path, *words: str, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """A page that ``wattqueue`` serves with these words."""
    argv = [*(prefix or (sys.executable, "-c", "from wattqueue.cli import main; main()")), *words]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*argv, "--port", "0"], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            text=True, env=env or {**os.environ, "PYTHONPATH": str(IMPORTED_FROM)},
        )  # fmt: skip
    found: list[re.Match[str]] = []

    def there() -> bool:
        if process.poll() is not None:
            raise AssertionError(log.read_text())
        found[:] = re.finditer(r"at http://\S+:(\d+)/", log.read_text())
        return bool(found)

    try:
        wait_for("the page", there)
        yield Served(process, int(found[0][1]))
    finally:
        process.terminate()
        process.wait(180.0)
        assert "Traceback" not in log.read_text(), log.read_text()


def look(browser: Browser, url: str, *, width: int = 1280, dark: bool = False, token: str = TOKEN) -> None:
    """Open a page and wait until it shows the first figures."""
    browser.call("Page.navigate", url="about:blank")  # ends the stream of a page before
    browser.wait("location.href === 'about:blank'")
    browser.events.clear()
    browser.screen(width, 900)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.call("Emulation.setEmulatedMedia", features=scheme)
    browser.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Bearer {token}"} if token else {})
    browser.call("Page.navigate", url=url)
    browser.wait("window.wattqueue && window.wattqueue.ready")


def packed_size(data: bytes) -> int:
    return len(gzip.compress(data, 9))
