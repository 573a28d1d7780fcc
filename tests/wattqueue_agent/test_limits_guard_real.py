"""What alone publishes limits, over a real mosquitto with the access list of the guide: it dies, and hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.guard.test_checks import CAP_W, IDLE_W, guard_of, pool, write
from tests.live.guard.world import NODE_W, NaiveJob, NaiveSlurm
from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.broker_site import BrokerSite, broker_site
from wattqueue.live.agents import AgentLink, Desired
from wattqueue.live.guard.limits_told import LimitsReader, LimitsTold
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.limits_guard.client import limits_at

GUIDE = Path(__file__).parents[2] / "docs/guide/guard.md"
LIGHT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "numba", "polars", "pydantic", "sqlalchemy", "typer"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from wattqueue_agent.limits_guard import main
sys.exit(main())
"""
"""The process, where nothing but the standard library and the broker's client can be imported."""
SETTINGS = """
socket = "socket"
cap = "520W"
other_w = 60
hold_s = 6
silence_s = 2
[node_w]
{nodes} = 360
[broker]
host = "localhost"
password_file = "limits.password"
ca_file = "broker.crt"
port = """
LIMITED, FOUND = [100.0, 100.0], [150.0, 150.0]
"""Limits of the packages of a node that has 260 W, and those that were found."""


def access_list() -> str:
    """The broker's access list as the guide prints it."""
    (access,) = re.findall(r"```text\n( *user limits\n.*?)```", GUIDE.read_text(), re.DOTALL)
    return textwrap.dedent(access).strip() + "\n"


class LimitedSite:
    """A broker, two agents, what publishes limits, and a planner that may read states and nothing else."""

    def __init__(self, broker: BrokerSite) -> None:
        self.broker, self.socket = broker, broker.folder / "socket"
        names = f'"{",".join(broker.trees)}"'
        (broker.folder / "limits.toml").write_text(f"{SETTINGS.format(nodes=names)}{broker.port}\n")
        self.start()
        for node in broker.trees:
            broker.start_agent(node)
        self.link = AgentLink(broker.connect("controller", "state/+"), 60.0, limits_at(self.socket))

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-c", LIGHT, "-c", str(self.broker.folder / "limits.toml")]

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        with (self.broker.folder / "limits.log").open("ab") as log:
            self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, env=self.broker.env)
        self.broker.children["limits"] = self.process
        wait_for("its socket", self.socket.exists, 30.0, 0.05)

    def ask(self, **watts: float) -> None:
        parts = ("package-0", "package-1")
        limits = {node: dict.fromkeys(parts, (cap_w - 60.0) / 2) for node, cap_w in watts.items()}
        self.link.ask(limits, time.time(), 6.0)

    def wait_limits(self, first: list[float], second: list[float]) -> None:
        trees = self.broker.trees
        wait_for(f"limits {first}, {second}", lambda: [t.limits_w() for t in trees.values()] == [first, second], 30.0)

    def limit(self) -> None:
        """Ask until both nodes have 260 W: the first requests may come before the agents, or find a closed socket."""
        sender = self.link.sender
        assert sender is not None

        def there() -> bool:
            self.ask(**dict.fromkeys(self.broker.trees, 260.0))
            return sender.problem == "" and [tree.limits_w() for tree in self.broker.trees.values()] == [
                LIMITED,
                LIMITED,
            ]

        wait_for("limits", there, 30.0, 0.3)
        wait_for("what is told", lambda: self.told().holds, 30.0, 0.1)
        assert self.told() == LimitsTold(dict.fromkeys(self.broker.trees, 100.0), holds=True)

    def told(self) -> LimitsTold:
        return LimitsReader(self.socket).ask()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LimitedSite]:
    with broker_site(tmp_path, access=access_list()) as broker:
        here = LimitedSite(broker)
        yield here
        here.link.close()


def test_limits_of_a_planner_go_through_the_process_alone(site: LimitedSite) -> None:
    site.limit()
    forged = Desired(
        node="n1", number=time.time_ns(), expires_s=time.time() + 60.0, limits=dict.fromkeys(("package-0",), 140.0)
    )
    wait_for("the planner's connection", lambda: site.link.connection.problem == "", 30.0)
    site.link.connection.send("desired/n1", forged.text(), retain_s=60)
    site.ask(n1=340.0, n2=340.0)
    time.sleep(2.0)
    assert [tree.limits_w() for tree in site.broker.trees.values()] == [LIMITED, LIMITED]
    site.ask(n1=200.0, n2=320.0)
    site.wait_limits([70.0, 70.0], [130.0, 130.0])


def test_it_is_killed_and_started_again(site: LimitedSite) -> None:
    """Limits hold until they expire; the next one goes on with what it finds, and with what is asked for."""
    site.limit()
    site.broker.kill("limits")
    assert site.told() == LimitsTold()
    site.ask(n1=200.0, n2=200.0)
    assert site.link.sender is not None
    assert "what publishes limits gives no answer" in site.link.sender.problem
    assert [tree.limits_w() for tree in site.broker.trees.values()] == [LIMITED, LIMITED]
    site.start()
    wait_for("what is told", lambda: site.told().holds, 30.0, 0.1)
    assert [tree.limits_w() for tree in site.broker.trees.values()] == [LIMITED, LIMITED], "it was in time"
    site.broker.kill("limits")
    site.wait_limits(FOUND, FOUND)
    site.start()
    site.limit()


def test_a_second_one_is_refused_and_takes_over_once_the_first_is_killed(site: LimitedSite) -> None:
    """Two would raise into the same room. Limits of the one that was killed hold, and are renewed by the next one."""
    site.limit()
    refused = subprocess.run(site.argv, env=site.broker.env, capture_output=True, text=True, timeout=60.0, check=False)
    assert refused.returncode == 1
    assert "another process publishes limits" in refused.stderr
    assert site.told().holds, "it took nothing from the one that publishes"
    site.process.send_signal(signal.SIGSTOP)
    hanging = subprocess.run(site.argv, env=site.broker.env, capture_output=True, text=True, timeout=60.0, check=False)
    assert "another process publishes limits" in hanging.stderr, "it may go on at any time"
    site.process.send_signal(signal.SIGCONT)
    site.limit()
    sums, ended = [], threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            sums.append(sum(60.0 + sum(tree.limits_w()) for tree in site.broker.trees.values()))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        site.broker.kill("limits")
        site.start()
        site.limit()
        site.ask(n1=200.0, n2=320.0)
        site.wait_limits([70.0, 70.0], [130.0, 130.0])
    finally:
        ended.set()
        watching.join()
    assert len(sums) > 10, "limits were looked at all the time"
    assert max(sums) <= 520.0, "no limit was raised beyond the cap"


def test_it_hangs_and_goes_on(site: LimitedSite) -> None:
    """Nobody waits for it for long; what expired meanwhile counts at the maximum, and is set again."""
    site.limit()
    site.process.send_signal(signal.SIGSTOP)
    try:
        assert site.told() == LimitsTold()
        site.ask(n1=200.0, n2=200.0)
        assert site.link.sender is not None
        assert "timed out" in site.link.sender.problem
        site.wait_limits(FOUND, FOUND)
    finally:
        site.process.send_signal(signal.SIGCONT)
    site.limit()
    assert os.waitpid(site.process.pid, os.WNOHANG) == (0, 0)


SMALL_W, LARGE_W = 40, 2 * NODE_W["large"]
"""The licence of a job on two nodes, lowered to what is measured, and the most that they draw for it."""


def test_the_guard_counts_what_it_is_told_and_the_maximum_while_it_is_told_nothing(tmp_path: Path) -> None:
    """What publishes limits is killed, hangs, and both are killed: the pool falls at once, and opens again."""
    world = NaiveSlurm(now_s=time.time(), open_w=CAP_W - IDLE_W)
    world.submit(NaiveJob(1, "large", 2, SMALL_W, state="RUNNING", held=False))
    with broker_site(tmp_path, ("large1", "large2"), access=access_list()) as broker:
        site = LimitedSite(broker)
        told = {"accepted": frozenset({"limits"}), "limits_socket": site.socket}

        def started() -> WriteGuard:
            return guard_of(world, tmp_path / "guard", **told)

        def opened_w() -> int:
            """The pool after the guard's next look, and after the planner asked for all of it."""
            world.now_s += 100.0
            guard.keep_cap()
            lowered_w = world.open_w
            world.now_s += 100.0
            write(guard, pool(CAP_W - IDLE_W))
            assert world.open_w >= lowered_w
            return world.open_w

        try:
            (tmp_path / "guard").mkdir()
            guard = started()
            site.limit()
            whole_w = CAP_W - IDLE_W
            assert opened_w() == whole_w
            site.broker.kill("limits")
            assert opened_w() == whole_w - (LARGE_W - SMALL_W)
            guard = started()  # both were killed, and the guard is there first
            assert opened_w() == whole_w - (LARGE_W - SMALL_W)
            site.start()
            site.limit()
            guard = started()
            assert opened_w() == whole_w
            site.process.send_signal(signal.SIGSTOP)
            assert opened_w() == whole_w - (LARGE_W - SMALL_W)
            site.process.send_signal(signal.SIGCONT)
            site.limit()
            guard = started()
            assert opened_w() == whole_w
        finally:
            site.process.send_signal(signal.SIGCONT)
            site.link.close()
