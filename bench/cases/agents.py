"""1,000 agents on one broker: how long until each has set limits that the controller asks for.

Agents are tasks of a few processes, each with a connection of its own and a generated powercap tree. mosquitto, agents
and controller share the machine's cores.
"""

from __future__ import annotations

import multiprocessing
import queue
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeAlias

from bench.harness import Measured, Skip, benchmark
from tests.live.slurmlab import free_ports
from tests.wattqueue_agent.powercap_tree import PowercapTree
from wattqueue.live.agents import AgentLink, BrokerSection
from wattqueue_agent.agent import Agent
from wattqueue_agent.broker import Connection
from wattqueue_agent.hardware import find_limits
from wattqueue_agent.limits import Bounds
from wattqueue_agent.originals import Originals

AGENTS = 1_000
PROCESSES = 4
ROUNDS = 5
SILENCE_S = 120.0
Done: TypeAlias = "multiprocessing.Queue[int]"


def agents(folder: Path, port: int, nodes: list[str], done: Done, end: Event) -> None:
    """One process: run agents until ``end``; put the number of each message that one of them carried out."""
    section = BrokerSection(host="localhost", port=port)
    running = []
    for node in nodes:
        tree, state = PowercapTree(folder / node / "powercap", [120.0, 100.0]), folder / node / "state"
        state.mkdir()
        limits = find_limits(tree.root, folder, gpus=False)
        originals = Originals(state, tree.root, folder, gpus=False)
        agent = Agent(node, "one", limits, lambda _: Bounds(60.0, 140.0), originals)
        connection = Connection(section, node, f"desired/{node}")
        connection.open()
        running.append((agent, connection))
    while not end.is_set():
        idle = True
        for agent, connection in running:
            try:
                text = connection.arrived.get_nowait().text
            except queue.Empty:
                continue
            agent.receive(text, time.time())
            state_now = agent.step(time.time(), time.monotonic())
            connection.send(f"state/{agent.node}", state_now.text())
            done.put(state_now.number)
            idle = False
        if idle:
            time.sleep(0.002)
    for _, connection in running:
        connection.close()


@contextmanager
def site() -> Iterator[tuple[AgentLink, list[str], Done]]:
    """A broker without users, and agents that are connected."""
    if shutil.which("mosquitto") is None:
        raise Skip("mosquitto is not installed (tools/system-packages.sh mqtt)")
    (port,) = free_ports(1)
    context = multiprocessing.get_context("spawn")
    done, end = context.Queue(), context.Event()
    nodes = [f"n{k}" for k in range(AGENTS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "broker.conf").write_text(f"listener {port} localhost\nallow_anonymous true\nuser root\n")
        with (folder / "log").open("wb") as log:
            broker = subprocess.Popen(["mosquitto", "-c", folder / "broker.conf"], stdout=log, stderr=log)
        parts = [nodes[k::PROCESSES] for k in range(PROCESSES)]
        processes = [context.Process(target=agents, args=(folder, port, part, done, end)) for part in parts]
        link = AgentLink(Connection(BrokerSection(host="localhost", port=port), "controller", "state/+"))
        try:
            for process in processes:
                process.start()
            link.connection.open()
            yield link, nodes, done
        finally:
            end.set()
            for process in processes:
                process.join(30)
                process.kill()
            link.connection.close()
            broker.terminate()
            broker.wait()


def round_s(link: AgentLink, nodes: list[str], done: Done, watts: float) -> float:
    """Ask all agents for limits; returns the seconds until all have set them and the controller has their states."""
    begin = time.monotonic()
    link.ask({key: {"package-0": watts, "package-1": watts} for key in nodes}, time.time(), 600.0)
    number, left = link.number, len(nodes)
    while left:
        left -= done.get(timeout=SILENCE_S) == number
    while sum(state.number == number for state in link.states.values()) < len(nodes):
        if time.monotonic() > begin + SILENCE_S:
            raise TimeoutError("states of agents")
        link.receive(time.time())
        time.sleep(0.002)
    return time.monotonic() - begin


@benchmark("live: limits of 1,000 agents set over one broker", unit="s", at_most=2.0)
def limits_of_a_thousand() -> Measured:
    """Median of some rounds, after one in which agents connect; from the first message to the last state."""
    with site() as (link, nodes, done):
        round_s(link, nodes, done, 140.0)
        took = sorted(round_s(link, nodes, done, 100.0 + k) for k in range(ROUNDS))
        set_w = {limit for state in link.states.values() for limit in state.limits.values()}
        if set_w != {100.0 + ROUNDS - 1}:
            raise AssertionError(f"limits in force: {sorted(set_w)}")
    return Measured(took[ROUNDS // 2], detail={"least_s": took[0], "most_s": took[-1]})
