"""A real mosquitto with TLS, users and the access list of the guide, and agents over powercap trees."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.procs import MARKER, end_all
from tests.live.slurmlab import free_ports
from tests.wattqueue_agent.powercap_tree import PowercapTree
from wattqueue.live.agents import BrokerSection
from wattqueue_agent.broker import Connection

GUIDE = Path(__file__).parents[2] / "docs/guide/agent.md"
NEEDED = ("mosquitto", "mosquitto_passwd", "openssl")
ABSENT = ("numba", "llvmlite", "polars", "sqlalchemy")
"""What compute nodes need not have."""
LIGHT = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from wattqueue.cli import main
main()
"""
"""The program in a process that cannot import these."""
SUBJECT = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]


def blocks(kind: str) -> list[str]:
    """The blocks of the guide of one kind."""
    return re.findall(rf" *```{kind}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


class BrokerSite:
    """A broker as in the guide, and nodes with an agent each, over trees whose power follows the limits."""

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[str] = ("n1", "n2"),
        *,
        limit_w: float = 150.0,
        period_s: float = 0.2,
        top_hz: float = 0.0,
        access: str = "",
    ) -> None:
        self.folder, self.period_s, self.top_hz = folder, period_s, top_hz
        self.env = {**os.environ, MARKER: str(folder)}
        (self.port,) = free_ports(1)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.stopped = threading.Event()
        self.trees = {n: PowercapTree(folder / n / "powercap", [120.0, 100.0], limit_w, top_hz=top_hz) for n in nodes}
        self.clock = threading.Thread(target=self._tick, daemon=True)
        self.certificate("broker")
        acl, conf = blocks("text")
        access = access or acl
        self._passwords(re.findall(r"^user (\w+)$", access, re.MULTILINE))
        (folder / "wattqueue.acl").write_text(access)
        (folder / "store").mkdir()
        for old, new in (
            ("listener 8883", f"listener {self.port} localhost"),
            ("/etc/mosquitto/certs", str(folder)),
            ("/etc/mosquitto", str(folder)),
            ("/var/lib/mosquitto/", f"{folder}/store/"),
        ):
            assert old in conf
            conf = conf.replace(old, new)
        (folder / "broker.conf").write_text(f"{conf}user root\nautosave_on_changes true\nautosave_interval 1\n")

    def certificate(self, name: str) -> None:
        """Make a certificate that signs itself, and its key."""
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *SUBJECT]
        files = ["-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt"]
        subprocess.run([*map(str, (*make, *files))], check=True, capture_output=True)

    def _passwords(self, users: Sequence[str]) -> None:
        table = self.folder / "wattqueue.passwords"
        table.touch(0o600)
        for user in (*users, *self.trees):
            subprocess.run(["mosquitto_passwd", "-b", table, user, f"of-{user}"], check=True, capture_output=True)
            secret = self.folder / f"{user}.password"
            secret.touch(0o600)
            secret.write_text(f"of-{user}\n")

    def _tick(self) -> None:
        last = time.monotonic()
        while not self.stopped.wait(0.1):
            now = time.monotonic()
            for tree in self.trees.values():
                tree.run(now - last)
            last = now

    def start_broker(self) -> None:
        argv = ["mosquitto", "-c", str(self.folder / "broker.conf")]
        with (self.folder / "broker.log").open("ab") as log:
            self.children["broker"] = subprocess.Popen(argv, stdout=log, stderr=log, env=self.env)

    def start_agent(self, node: str, *changes: tuple[str, str]) -> None:
        """Start an agent with the guide's configuration, for this folder, with ``changes`` of its text."""
        text = blocks("toml")[3].replace('"n1"', f'"{node}"').replace('"broker"', f'"localhost"\nport = {self.port}')
        text = text.replace('"password"', f'"{self.folder / node}.password"')
        text = text.replace('"ca.crt"', f'"{self.folder}/broker.crt"')
        own = f'state_dir = "{node}/state"\npowercap = "{node}/powercap"\ncpufreq = "{node}/cpufreq"\n'
        if self.top_hz:
            more = f'[[allow]]\nlimit = "policy*"\nlow = {self.top_hz / 2}\nhigh = {self.top_hz}\n\n[[allow]]'
            text = text.replace("[[allow]]", more, 1)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = self.folder / f"{node}.toml"
        path.write_text(f"{own}period_s = {self.period_s}\ntimeout_s = 3.0\n{text}")
        argv = [sys.executable, "-c", LIGHT, "agent", "run", "-c", str(path)]
        with (self.folder / f"{node}.log").open("ab") as log:
            self.children[node] = subprocess.Popen(argv, stdout=log, stderr=log, env=self.env)

    def add_cpufreq(self, node: str, khz: Sequence[int]) -> Path:
        """Give a node a processor whose frequency can be limited; returns the file that holds the limit in kHz."""
        policy = self.folder / node / "cpufreq/policy0"
        policy.mkdir(parents=True)
        for name, value in (("cpuinfo_min_freq", khz[0]), ("cpuinfo_max_freq", khz[-1]), ("scaling_max_freq", khz[-1])):
            (policy / name).write_text(f"{value}\n")
        return policy / "scaling_max_freq"

    def connect(
        self, user: str, listen: str, *, name: str = "", owner: str = "", authority: str = "broker"
    ) -> Connection:
        """Open a connection as a user, with the password of ``owner`` (the user by default)."""
        section = BrokerSection(
            host="localhost",
            port=self.port,
            user=user,
            password_file=self.folder / f"{owner or user}.password",
            ca_file=self.folder / f"{authority}.crt",
        )
        connection = Connection(section, name or user, listen)
        connection.open()
        return connection

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to a process and wait for its end; returns its status."""
        self.children[name].send_signal(number)
        return self.children[name].wait(180)


@contextmanager
def broker_site(folder: Path, nodes: Sequence[str] = ("n1", "n2"), **options: Any) -> Iterator[BrokerSite]:
    """Yield a site whose broker runs, and end all of its processes; skips, with the reason, without mosquitto."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (tools/system-packages.sh mqtt)")
    here = BrokerSite(folder, nodes, **options)
    try:
        here.start_broker()
        here.clock.start()
        yield here
    finally:
        here.stopped.set()
        end_all(str(folder))
        for child in here.children.values():
            child.wait(180)
