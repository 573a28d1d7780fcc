"""Agents and a controller over a real mosquitto with TLS, users and the access list of the guide."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.powercap_tree import PowercapTree
from tests.live.procs import MARKER, end_all
from tests.live.slurmlab import free_ports, wait_for
from wattqueue.live.agent.broker import Connection
from wattqueue.live.agent.config import BrokerSection
from wattqueue.live.agent.link import AgentLink
from wattqueue.live.agent.messages import AgentState, Desired
from wattqueue.live.assemble import sources_of
from wattqueue.live.config import load_config
from wattqueue.live.telemetry.base import Telemetry

GUIDE = Path(__file__).parents[2] / "docs/guide/agent.md"
NEEDED = ("mosquitto", "mosquitto_passwd", "openssl")
SUBJECT = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]


def blocks(kind: str) -> list[str]:
    """The blocks of the guide of one kind."""
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


class Site:
    """A broker as in the guide, and nodes n1 and n2 with an agent each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, MARKER: str(folder)}
        (self.port,) = free_ports(1)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.stopped = threading.Event()
        self.trees = {n: PowercapTree(folder / n / "powercap", [120.0, 100.0]) for n in ("n1", "n2")}
        self.clock = threading.Thread(target=self._tick, daemon=True)
        self.certificate("broker")
        self._passwords()
        acl, conf = blocks("text")
        (folder / "wattqueue.acl").write_text(acl)
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

    def _passwords(self) -> None:
        table = self.folder / "wattqueue.passwords"
        table.touch(0o600)
        for user in ("controller", "n1", "n2"):
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

    def start_agent(self, node: str) -> None:
        """Start an agent with the guide's configuration, for this folder."""
        text = blocks("toml")[0].replace('"n1"', f'"{node}"').replace('"broker"', f'"localhost"\nport = {self.port}')
        text = text.replace('"password"', f'"{self.folder / node}.password"')
        text = text.replace('"ca.crt"', f'"{self.folder}/broker.crt"')
        own = f'state_dir = "{node}/state"\npowercap = "{node}/powercap"\ncpufreq = "{node}/none"\n'
        path = self.folder / f"{node}.toml"
        path.write_text(f"{own}period_s = 0.2\npatience_s = 3.0\n{text}")
        argv = [sys.executable, "-c", "from wattqueue.cli import main; main()", "agent", "run", "-c", str(path)]
        with (self.folder / f"{node}.log").open("ab") as log:
            self.children[node] = subprocess.Popen(argv, stdout=log, stderr=log, env=self.env)

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
        return self.children[name].wait(20)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (tools/system-packages.sh mqtt)")
    here = Site(tmp_path)
    try:
        here.start_broker()
        here.clock.start()
        yield here
    finally:
        here.stopped.set()
        end_all(str(tmp_path))
        for child in here.children.values():
            child.wait(20)


def test_the_controllers_configuration_in_the_guide(site: Site) -> None:
    """The section as printed, for this folder: the controller measures both nodes through it."""
    text = blocks("toml")[1].replace('"broker"', f'"localhost"\nport = {site.port}')
    text = text.replace('"password"', '"controller.password"').replace('"ca.crt"', '"broker.crt"')
    (site.folder / "live.toml").write_text(f'policy = "easy"\nmachine = "edison"\ncap = "1 MW"\n{text}')
    for node in site.trees:
        site.start_agent(node)
    (source,) = sources_of(load_config(site.folder / "live.toml"))
    telemetry = Telemetry([source])
    try:

        def measured() -> bool:
            telemetry.read(time.time())
            return all(telemetry.node(node, 400.0, time.time()).label == "measured" for node in site.trees)

        wait_for("measured nodes", measured, 30.0)
        assert telemetry.problems == ()
    finally:
        telemetry.close()


@pytest.fixture
def link(site: Site) -> Iterator[AgentLink]:
    connection = site.connect("controller", "state/+")
    yield AgentLink(connection, other_w=50.0)
    connection.close()


def wait_limits(site: Site, node: str, *limits_w: float) -> None:
    wait_for(f"limits of {node}: {limits_w}", lambda: site.trees[node].limits_w() == list(limits_w), 30.0)
    time.sleep(0.5)
    assert site.trees[node].limits_w() == list(limits_w), "two steps later too"


def wait_state(link: AgentLink, node: str, number: int = 0) -> AgentState:
    def there() -> bool:
        link.receive()
        return node in link.states and link.states[node].number >= number

    wait_for(f"state of {node}", there, 30.0)
    return link.states[node]


def ask(
    link: AgentLink, first_w: float, second_w: float, hold_s: float = 60.0, nodes: tuple[str, ...] = ("n1",)
) -> None:
    limits = {"package-0": first_w, "package-1": second_w}
    link.ask(dict.fromkeys(nodes, limits), time.time(), hold_s)


def test_limits_go_out_and_watts_come_back(site: Site, link: AgentLink) -> None:
    for node in ("n1", "n2"):
        site.start_agent(node)
    ask(link, 80.0, 70.0, nodes=("n1", "n2"))
    for node in ("n1", "n2"):
        wait_limits(site, node, 80.0, 70.0)
    wait_for("watts", lambda: sorted(link.read(time.time()).samples) == ["n1", "n2"], 30.0)
    time.sleep(1.0)
    reading = link.read(time.time())
    assert reading.problems == ()
    for sample in reading.samples.values():
        assert sample.power_w == pytest.approx(80.0 + 70.0 + 50.0, rel=0.5)
        assert time.time() - sample.taken_s < 5.0
    assert site.kill("n1", signal.SIGTERM) == 143
    assert site.trees["n1"].limits_w() == [150.0, 150.0]


def test_an_agent_that_starts_later_gets_what_is_wanted(site: Site, link: AgentLink) -> None:
    """From the broker, even from one that was killed and started since."""
    ask(link, 90.0, 90.0)
    wait_for("connection", lambda: link.connection.problem == "", 30.0)
    time.sleep(2.5)  # the broker saves each second
    site.kill("broker")
    site.start_broker()
    site.start_agent("n1")
    wait_limits(site, "n1", 90.0, 90.0)


def test_an_agent_that_is_killed_leaves_no_limit(site: Site, link: AgentLink) -> None:
    site.start_agent("n1")
    ask(link, 80.0, 70.0)
    wait_limits(site, "n1", 80.0, 70.0)
    site.kill("n1")
    wait_limits(site, "n1", 150.0, 150.0)
    site.start_agent("n1")
    wait_limits(site, "n1", 80.0, 70.0)


def test_a_broker_that_is_away(site: Site, link: AgentLink) -> None:
    """Limits hold until they expire; then the controller's next word counts."""
    site.start_agent("n1")
    ask(link, 80.0, 70.0, hold_s=8.0)
    wait_limits(site, "n1", 80.0, 70.0)
    site.kill("broker")
    assert site.trees["n1"].limits_w() == [80.0, 70.0]
    wait_limits(site, "n1", 150.0, 150.0)
    site.start_broker()
    ask(link, 75.0, 75.0)
    wait_limits(site, "n1", 75.0, 75.0)


def test_messages_late_doubled_and_out_of_order(site: Site, link: AgentLink) -> None:
    site.start_agent("n1")
    wait_state(link, "n1")
    now = time.time()

    def message(number: int, watts: float) -> bytes:
        limits = {"package-0": watts, "package-1": watts}
        return Desired(node="n1", number=number, expires_s=now + 60.0, limits=limits).text()

    for number, watts in ((1, 140.0), (5, 80.0), (3, 130.0), (5, 80.0), (2, 120.0), (7, 70.0), (6, 110.0), (7, 70.0)):
        link.connection.send("desired/n1", message(number, watts))
    wait_state(link, "n1", 7)
    wait_for("counts", lambda: sum(wait_state(link, "n1").counts.values()) == 3, 30.0)
    assert link.states["n1"].counts == {"message older than the one before": 3}
    assert site.trees["n1"].limits_w() == [70.0, 70.0]


def test_a_node_cannot_speak_for_another_one(site: Site, link: AgentLink) -> None:
    """Neither ask for its limits nor state its watts; a state under its own name about another node is refused."""
    site.start_agent("n1")
    ask(link, 80.0, 70.0)
    wait_limits(site, "n1", 80.0, 70.0)
    state = wait_state(link, "n1")
    intruder = site.connect("n2", "desired/n1", name="intruder")
    try:
        wait_for("connection", lambda: intruder.problem == "", 30.0)
        limits = {"package-0": 140.0, "package-1": 140.0}
        forged = Desired(node="n1", number=2**62, expires_s=time.time() + 60.0, limits=limits)
        intruder.send("desired/n1", forged.text(), retain_s=60)
        lie = state.model_copy(update={"instance": "lie", "power_w": {"package-0": 1.0, "package-1": 1.0}})
        intruder.send("state/n1", lie.text())
        intruder.send("state/n2", lie.text())
        wait_for("count", lambda: link.read(time.time()) is not None and bool(link.counts), 30.0)
        time.sleep(1.0)
        link.receive()
        assert link.counts == {"message under another node's name": 1}
        assert link.states["n1"].instance == state.instance
        assert site.trees["n1"].limits_w() == [80.0, 70.0]
        assert intruder.arrived.empty(), "it may not even read what is wanted of another node"
    finally:
        intruder.close()


@pytest.mark.parametrize("user", ["controller", "nobody"])
def test_a_wrong_password_or_user_is_refused(site: Site, user: str) -> None:
    connection = site.connect(user, "state/+", owner="n1")
    try:
        wait_for("an answer", lambda: "refuses" in connection.problem, 30.0)
        assert "Not authorized" in connection.problem
    finally:
        connection.close()


# paho-mqtt leaves the socket of a handshake that fails to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_with_another_certificate_is_not_trusted(site: Site) -> None:
    site.certificate("other")
    trusting = site.connect("controller", "state/+", name="trusting")
    wait_for("the broker", lambda: trusting.problem == "", 30.0)
    connection = site.connect("controller", "state/+", authority="other")
    try:
        wait_for("an answer", lambda: connection.problem != "not connected yet", 30.0)
        assert "CERTIFICATE_VERIFY_FAILED" in connection.problem
    finally:
        connection.close()
        trusting.close()


def test_two_agents_on_one_node(site: Site, link: AgentLink) -> None:
    site.start_agent("n1")
    wait_state(link, "n1")
    first = site.children["n1"]
    site.start_agent("n1")
    assert site.children["n1"].wait(30) == 2
    assert "another agent limits this node" in (site.folder / "n1.log").read_text()
    assert first.poll() is None
    site.children["n1"] = first
