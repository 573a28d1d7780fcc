"""Nodes with agents of two packages and a publisher of limits: messages are handed over late, twice, or never."""

from __future__ import annotations

import queue
import random
from pathlib import Path
from typing import Any

from tests.live.test_node_limits import HIGH_W, LOW_W, MOST_W, NODES, OTHER_W, Node, Wire
from wattqueue.live.guard.wire import Packet
from wattqueue.live.limits_guard.messages import Arrived
from wattqueue.live.limits_guard.publisher import LimitPublisher
from wattqueue.live.limits_guard.settings import LimitsBroker, LimitsSettings
from wattqueue.live.watts.node_records import LimitRules

RULES = LimitRules(OTHER_W, 30.0, 5.0)
LEAST_NODE_W, MOST_SET_W = OTHER_W + 2 * LOW_W, OTHER_W + 2 * HIGH_W
"""The range in which an agent lets its whole node be limited."""


def settings(folder: Path, cap: str, **more: Any) -> LimitsSettings:
    """Return the settings of a site of four nodes."""
    broker = LimitsBroker("localhost", 1883, "cluster", "limits", None, None)
    given: dict[str, Any] = {"least_w": {}, "rules": RULES, "away_s": 120.0, **more}
    return LimitsSettings(folder / "socket", cap, dict.fromkeys(NODES, MOST_W), broker=broker, **given)


class LimitsWorld:
    """Four nodes with agents, and a publisher that may be started again at any time."""

    def __init__(self, own: LimitsSettings, seed: int = 0) -> None:
        self.own, self.now_s = own, 0.0
        self.nodes = {name: Node(name) for name in NODES}
        self.wire = Wire(self.nodes, random.Random(seed))
        self.start()

    def start(self) -> None:
        """Start a publisher that knows nothing of one before it."""
        wire: Any = self.wire
        wire.arrived = queue.SimpleQueue()
        self.publisher = LimitPublisher(self.own, wire, lambda: self.now_s)

    def request(self, **limits: dict[str, float]) -> int:
        """Ask for limits of nodes by name of the limit; return how many were refused."""
        header = {"do": "ask", "limits": limits}
        refused: int = self.publisher.answer(Packet(header)).header["refused"]
        return refused

    def ask(self, **watts: float) -> int:
        """Ask for limits of whole nodes, shared out evenly over their packages."""
        return self.request(
            **{n: dict.fromkeys(("package-0", "package-1"), (w - OTHER_W) / 2) for n, w in watts.items()}
        )

    def step(self, seconds: float = 1.0, *, publishes: bool = True) -> None:
        """Let time pass: messages arrive, leases run out, agents state how they are, the publisher decides."""
        self.now_s += seconds
        self.wire.deliver(self.now_s)
        for node in self.nodes.values():
            node.expire(self.now_s)
            if node.alive:
                self.publisher.connection.arrived.put(Arrived(node.name, node.state(self.now_s).text()))
        if publishes:
            self.publisher.step(self.now_s)

    def force_w(self, name: str) -> float:
        """What the limits in force let a node draw."""
        return min(OTHER_W + sum(self.nodes[name].limits.values()), MOST_W)

    @property
    def sum_w(self) -> float:
        """What they let all nodes draw."""
        return sum(map(self.force_w, self.nodes))
