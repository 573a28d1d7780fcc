"""Agents and a controller over a real mosquitto with TLS, users and the access list of the guide."""

from __future__ import annotations

import signal
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.fakeslurm import FakeSlurm
from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.broker_site import BrokerSite, blocks, broker_site
from wattqueue.live.agents import AgentLink, AgentState, Desired
from wattqueue.live.assemble import assemble
from wattqueue.live.config import load_config
from wattqueue.live.features.configured import sources_of
from wattqueue.live.telemetry.base import Telemetry


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BrokerSite]:
    with broker_site(tmp_path) as here:
        yield here


def test_the_controllers_configuration_in_the_guide(site: BrokerSite) -> None:
    """The section as printed, for this folder: the controller measures both nodes through it."""
    text = blocks("toml")[4].replace('"broker"', f'"localhost"\nport = {site.port}')
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


def test_the_walk_of_e_pas_in_the_guide(site: BrokerSite) -> None:
    """Its three files as printed, for this folder: a controller limits both nodes, over a Slurm that is a fake."""
    limits, policy, settings = (textwrap.dedent(text) for text in blocks("toml")[:3])
    broker = blocks("toml")[4].replace('"broker"', f'"localhost"\nport = {site.port}')
    broker = broker.replace("[telemetry]\n", "[telemetry]\ntrack_running = true\n", 1)  # as the text says
    broker = broker.replace('"password"', '"controller.password"').replace('"ca.crt"', '"broker.crt"')
    (site.folder / "epas.toml").write_text(policy)
    machine = 'name = "m"\n[[partitions]]\nname = "p1"\nnodes = 2\nidle_w = 100.0\nmax_w = 360.0\n'
    (site.folder / "machine.toml").write_text(machine)
    settings = settings.replace("/etc/wattqueue", str(site.folder))
    (site.folder / "live.toml").write_text(f'machine = "machine.toml"\n{settings}\n{broker}\n{limits}')
    for node in site.trees:
        site.start_agent(node)
    slurm = FakeSlurm({"p1": ["n1", "n2"]}, 1000)
    controller = assemble(load_config(site.folder / "live.toml"), slurm, time.time)
    try:

        def limited() -> bool:
            slurm.now_s = time.time()
            report = controller.round()
            assert report is not None
            return (
                report.plan.limit_figures["limited_nodes"] == 2
                and report.plan.limit_figures["possible_w"] <= 0.7 * 720.0 + 1e-3
            )

        wait_for("limits on both nodes", limited, 30.0, 0.3)
        assert sum(sum(tree.limits_w()) + 60.0 for tree in site.trees.values()) <= 0.7 * 720.0 + 1e-3
    finally:
        controller.telemetry.close()
        controller.run_dir.release()


@pytest.fixture
def link(site: BrokerSite) -> Iterator[AgentLink]:
    connection = site.connect("controller", "state/+")
    yield AgentLink(connection, other_w=50.0)
    connection.close()


def wait_limits(site: BrokerSite, node: str, *limits_w: float) -> None:
    wait_for(f"limits of {node}: {limits_w}", lambda: site.trees[node].limits_w() == list(limits_w), 30.0)
    time.sleep(0.5)
    assert site.trees[node].limits_w() == list(limits_w), "two steps later too"


def wait_state(link: AgentLink, node: str, number: int = 0) -> AgentState:
    def there() -> bool:
        link.receive(time.time())
        return node in link.states and link.states[node].number >= number

    wait_for(f"state of {node}", there, 30.0)
    return link.states[node]


def ask(
    link: AgentLink, first_w: float, second_w: float, hold_s: float = 60.0, nodes: tuple[str, ...] = ("n1",)
) -> None:
    limits = {"package-0": first_w, "package-1": second_w}
    link.ask(dict.fromkeys(nodes, limits), time.time(), hold_s)


def test_limits_go_out_and_watts_come_back(site: BrokerSite, link: AgentLink) -> None:
    for node in ("n1", "n2"):
        site.start_agent(node)
    ask(link, 80.0, 70.0, nodes=("n1", "n2"))
    for node in ("n1", "n2"):
        wait_limits(site, node, 80.0, 70.0)
    wait_for("watts", lambda: sorted(link.read(time.time()).samples) == ["n1", "n2"], 30.0)
    asked_s = time.time()

    def newer() -> bool:
        return all(sample.taken_s > asked_s for sample in link.read(time.time()).samples.values())

    wait_for("samples of the limits", newer, 30.0)
    reading = link.read(time.time())
    assert reading.problems == ()
    for sample in reading.samples.values():
        assert sample.power_w == pytest.approx(80.0 + 70.0 + 50.0, rel=0.5)
    assert site.kill("n1", signal.SIGTERM) == 143
    assert site.trees["n1"].limits_w() == [150.0, 150.0]


def test_an_agent_that_starts_later_gets_what_is_wanted(site: BrokerSite, link: AgentLink) -> None:
    """From the broker, even from one that was killed and started since."""
    ask(link, 90.0, 90.0)
    wait_for("connection", lambda: link.connection.problem == "", 30.0)
    time.sleep(2.5)  # the broker saves each second
    site.kill("broker")
    site.start_broker()
    site.start_agent("n1")
    wait_limits(site, "n1", 90.0, 90.0)


def test_the_limits_of_an_agent_that_is_killed_hold_until_they_expire(site: BrokerSite, link: AgentLink) -> None:
    """The next agent goes on with them; without one the keeper restores what was found when the lease runs out."""
    site.start_agent("n1")
    ask(link, 80.0, 70.0)
    wait_limits(site, "n1", 80.0, 70.0)
    site.kill("n1")
    time.sleep(1.0)
    assert site.trees["n1"].limits_w() == [80.0, 70.0]
    site.start_agent("n1")
    wait_for("its state", lambda: "resumed at start" in wait_state(link, "n1").counts, 30.0)
    assert site.trees["n1"].limits_w() == [80.0, 70.0]
    ask(link, 85.0, 75.0, hold_s=6.0)
    wait_limits(site, "n1", 85.0, 75.0)
    site.kill("n1")
    wait_limits(site, "n1", 150.0, 150.0)


def test_a_broker_that_is_away(site: BrokerSite, link: AgentLink) -> None:
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


def test_messages_late_doubled_and_out_of_order(site: BrokerSite, link: AgentLink) -> None:
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


def test_a_node_cannot_speak_for_another_one(site: BrokerSite, link: AgentLink) -> None:
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
        link.receive(time.time())
        assert link.counts == {"message under another node's name": 1}
        assert link.states["n1"].instance == state.instance
        assert site.trees["n1"].limits_w() == [80.0, 70.0]
        assert intruder.arrived.empty(), "it may not even read what is wanted of another node"
    finally:
        intruder.close()


@pytest.mark.parametrize("user", ["controller", "nobody"])
def test_a_wrong_password_or_user_is_refused(site: BrokerSite, user: str) -> None:
    connection = site.connect(user, "state/+", owner="n1")
    try:
        wait_for("an answer", lambda: "refuses" in connection.problem, 30.0)
        assert "Not authorized" in connection.problem
    finally:
        connection.close()


# paho-mqtt leaves the socket of a handshake that fails to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broker_with_another_certificate_is_not_trusted(site: BrokerSite) -> None:
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


def test_two_agents_on_one_node(site: BrokerSite, link: AgentLink) -> None:
    site.start_agent("n1")
    wait_state(link, "n1")
    first = site.children["n1"]
    site.start_agent("n1")
    assert site.children["n1"].wait(180) == 2
    assert "another agent limits this node" in (site.folder / "n1.log").read_text()
    assert first.poll() is None
    site.children["n1"] = first
