"""The controller's side: it asks agents for limits, and takes their readings as telemetry."""

from __future__ import annotations

import queue
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wattqueue.errors import InputError
from wattqueue.live.agent.config import BrokerSection
from wattqueue.live.agent.messages import AgentState, Desired
from wattqueue.live.lease import AHEAD_S
from wattqueue.live.telemetry.base import PowerSample, Reading

if TYPE_CHECKING:
    from wattqueue.live.agent.broker import Connection

USER = "controller"
"""Name of the controller at the broker, unless the configuration states another."""
PAST = 120
"""States of a node that are kept for its counters."""


class Counted(NamedTuple):
    """What a node had counted at one time, and the watts that it drew until then."""

    time_s: float
    power_w: float
    counters: Mapping[str, float]


def agents_behind(section: BrokerSection, other_w: float) -> AgentLink:
    """Begin to connect to a broker, and return its agents. Raises: InputError where a file of it cannot be used."""
    from wattqueue.live.agent.broker import Connection  # needs paho-mqtt

    connection = Connection(section, section.user or USER, "state/+")
    connection.open()
    return AgentLink(connection, other_w)


@dataclass
class AgentLink:
    """Agents behind one broker; a source of telemetry (``TelemetrySource``).

    A node's watts are the sum of its packages and GPUs plus ``other_w``. A node of which one of them has no reading has
    no sample: the sum of the others would be too low.

    Attributes:
        connection: A connection that listens to ``state/+``.
        other_w: Watts of each node that neither RAPL nor NVML measures.
        states: The newest state of each node.
        counts: Messages that were refused, by the reason.
        number: Of the newest message.
        counted: The last states of each node whose agent counts cycles and instructions.
    """

    connection: Connection
    other_w: float = 0.0
    name: str = "agent"
    resolution_w: float = 0.0
    states: dict[str, AgentState] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    number: int = 0
    counted: dict[str, deque[Counted]] = field(default_factory=dict)
    _before: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    def ask(self, limits: Mapping[str, Mapping[str, float]], now_s: float, hold_s: float) -> None:
        """Ask nodes for limits by name, in watts or hertz, that hold for ``hold_s`` from ``now_s`` (epoch) on.

        All limits of a node are replaced. A number given out is above all earlier ones, even if the clock went back a
        little. If it went back by more than ``AHEAD_S``, agents have refused what was numbered by it, as they would now
        refuse what follows: the numbers begin again with the time.
        """
        issued = round(now_s * 1e9)
        self.number = issued if self.number > issued + AHEAD_S * 1e9 else max(self.number + 1, issued)
        for node, values in limits.items():
            message = Desired(node=node, number=self.number, expires_s=now_s + hold_s, limits=dict(values))
            self.connection.send(f"desired/{node}", message.text(), retain_s=max(1, round(hold_s)))

    def receive(self, now_s: float) -> None:
        """Take in what arrived until ``now_s`` (epoch)."""
        while True:
            try:
                arrived = self.connection.arrived.get_nowait()
            except queue.Empty:
                return
            try:
                state = AgentState.parse(arrived.text)
            except InputError:
                self.counts["unreadable message"] += 1
                continue
            if state.node != arrived.node:
                self.counts["message under another node's name"] += 1
                continue
            if state.time_s > now_s + AHEAD_S:  # it would look fresh, and later ones old, until that time has come
                self.counts[f"message from the future (set the clock of {state.node})"] += 1
                continue
            last = self.states.get(state.node)
            if last is not None and last.instance != state.instance:
                if self._before.get(state.node) == state.instance:
                    self.counts["two agents on one node"] += 1
                self._before[state.node] = last.instance
            elif last is not None and state.time_s <= last.time_s:
                self.counts["message older than the one before"] += 1
                continue
            if last is not None and last.instance != state.instance:
                self.counted.pop(state.node, None)  # its counters began again
            self.states[state.node] = state
            if state.counters and state.power_w.keys() >= set(state.metered):
                past = self.counted.setdefault(state.node, deque(maxlen=PAST))
                past.append(Counted(state.time_s, sum(state.power_w.values()) + self.other_w, state.counters))

    def read(self, now_s: float) -> Reading:
        """Return the watts of each node whose agent has a reading of all its parts."""
        self.receive(now_s)
        samples: dict[str, PowerSample] = {}
        problems = [f"{kind}: {count}" for kind, count in self.counts.items()]
        problems += [self.connection.problem] if self.connection.problem else []
        for node, state in self.states.items():
            if state.metered and state.power_w.keys() >= set(state.metered):
                power_w = sum(state.power_w.values()) + self.other_w
                samples[node] = PowerSample(power_w, state.time_s, self.name)
            problems += [f"{node}: {text}" for text in state.problems]
        return Reading(samples, tuple(problems))
