"""Agents of nodes as the controller knows them: the messages that both send, and the link to all of them.

A ``Desired`` names the whole state that is wanted: a limit that it does not name gets back what it was. Messages carry
a number that only grows (the time at which they were issued, in nanoseconds), so that late, doubled and reordered ones
are recognised, and an end: a controller that falls silent loses its right to limit a node. Clocks of controller and
nodes must agree within a few seconds.

What runs on nodes, and the connection that carries messages (``AgentConnection``), is the package ``wattqueue_agent``.
"""

from __future__ import annotations

import queue
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wattqueue.errors import InputError
from wattqueue.formats import bounded
from wattqueue.formats.bounded import Instant, Number, Serial, Setting, Watts
from wattqueue.formats.checked_toml import Section, first_finding
from wattqueue.live.entry_points import live_extension
from wattqueue.live.files.lease import AHEAD_S
from wattqueue.live.files.reading import HINT, is_loopback
from wattqueue.live.limits_guard.messages import MOST_BYTES, Arrived, pending
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.live.watts.node_records import next_number

Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]
"""A name that may stand in a topic: no wildcard and no separator."""
Name = Annotated[str, Field(min_length=1, max_length=128)]


class Message(BaseModel):
    """A message between controller and agent; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    version: Literal[1] = 1
    node: Name

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Read a message. Raises: InputError with the first thing that is wrong."""
        if len(text) > MOST_BYTES:
            raise InputError(f"a message of {len(text)} bytes")
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            what, hint = first_finding(error, lambda _: list(cls.model_fields))
            raise InputError(what, hint=hint) from error

    def text(self) -> bytes:
        """Return the message as JSON."""
        return self.model_dump_json().encode()


class Desired(Message):
    """What the limits of a node are to be, from the controller. Watts or hertz, by the limit's unit."""

    number: Annotated[Serial, Field(gt=0)]
    expires_s: Instant
    """Time since the epoch from which on nothing of it holds."""
    limits: dict[Name, Number]


class AgentState(Message):
    """How a node is, from its agent."""

    instance: Name
    """Names this run of the agent: two agents that speak for one node have two."""
    number: Serial
    """Of the newest ``Desired`` that was carried out, as far as its limits were not refused; 0 once it has expired."""
    time_s: Instant
    """Clock of the node, seconds since the epoch."""
    metered: tuple[Name, ...]
    """What can be read on this node: packages and GPUs."""
    power_w: dict[Name, Watts]
    """Watts of each of them that has a reading, on average since the state before."""
    limits: dict[Name, Setting]
    """Limits in force, read back from the hardware."""
    low: dict[Name, Setting]
    high: dict[Name, Setting]
    """Bounds in which each limit may be set."""
    counts: dict[Name, Serial]
    """How often something was refused, corrected or failed since the agent started, by what it was."""
    problems: tuple[str, ...] = ()
    counters: dict[Name, bounded.Counted] = {}
    """Cycles, instructions and memory transactions of the node since the agent started; empty where none count."""


class BrokerSection(Section):
    """The MQTT broker. The user's name is the node's, so that the broker's access list can keep nodes apart."""

    host: str
    port: Annotated[int, Field(gt=0, lt=65536)] = 8883
    cluster: Word = "cluster"
    """First part of the topics, where several clusters share a broker."""
    user: Word | None = None
    """Name at the broker; the node's by default."""
    password_file: Path | None = None
    """Readable by its owner alone."""
    ca_file: Path | None = None
    """Certificate of the authority that signed the broker's. Without it the connection is not encrypted, which is
    allowed to a broker on this host only."""

    @model_validator(mode="after")
    def _encrypted(self) -> BrokerSection:
        if self.ca_file is None and not is_loopback(self.host):
            raise ValueError(f"needs ca_file, the authority of the broker's certificate: {HINT}")
        return self


USER = "controller"
"""Name of the controller at the broker, unless the configuration states another."""
PAST = 120
"""States of a node that are kept for its counters."""


class AgentConnection(Protocol):
    """What carries messages between a controller and agents; it connects again by itself."""

    arrived: queue.SimpleQueue[Arrived]
    """Messages in the order of arrival."""
    problem: str
    """Why there is no connection; empty while there is one."""

    def open(self) -> None:
        """Begin to connect. Raises: InputError where a file of the configuration cannot be used."""
        ...

    def close(self) -> None:
        """End the connection, after what was sent has left."""
        ...

    def send(self, topic: str, text: bytes, *, retain_s: int = 0) -> None:
        """Send a message; ``retain_s`` > 0 keeps it for so long, for agents that come later."""
        ...


class Counted(NamedTuple):
    """What a node had counted at one time, and the watts that it drew until then."""

    time_s: float
    power_w: float
    counters: Mapping[str, float]


class LimitSender(Protocol):
    """What hands limits that are asked for to the process that publishes them (``live.limits_guard``)."""

    problem: str
    """Why the last ones were not taken; empty where they were."""

    def send(self, limits: Mapping[str, Mapping[str, float]]) -> None:
        """Hand over limits of nodes by name; the process may publish less."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


def agents_behind(section: BrokerSection, other_w: float, sender: LimitSender | None = None) -> AgentLink:
    """Begin to connect to a broker, and return its agents. Raises: InputError where a file of it cannot be used."""
    connect: Callable[[BrokerSection, str, str], AgentConnection] = live_extension("broker")
    connection = connect(section, section.user or USER, "state/+")
    connection.open()
    return AgentLink(connection, other_w, sender)


@dataclass
class AgentLink:
    """Agents behind one broker; a source of telemetry (``TelemetrySource``).

    A node's watts are the sum of its packages and GPUs plus ``other_w``. A node of which one of them has no reading has
    no sample: the sum of the others would be too low.

    Attributes:
        connection: A connection that listens to ``state/+``.
        other_w: Watts of each node that neither RAPL nor NVML measures.
        sender: Where limits are asked for; None: this process publishes them itself.
        states: The newest state of each node.
        counts: Messages that were refused, by the reason.
        number: Of the newest message.
        counted: The last states of each node whose agent counts cycles and instructions.
    """

    connection: AgentConnection
    other_w: float = 0.0
    sender: LimitSender | None = None
    name: str = "agent"
    resolution_w: float = 0.0
    states: dict[str, AgentState] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    number: int = 0
    counted: dict[str, deque[Counted]] = field(default_factory=dict)
    _before: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """End the connections."""
        self.connection.close()
        if self.sender is not None:
            self.sender.close()

    def ask(self, limits: Mapping[str, Mapping[str, float]], now_s: float, hold_s: float) -> None:
        """Ask nodes for limits by name, in watts or hertz, that hold for ``hold_s`` from ``now_s`` (epoch) on.

        All limits of a node are replaced.
        """
        self.number = next_number(self.number, now_s)
        if self.sender is not None:
            self.sender.send(limits)
            return
        for node, values in limits.items():
            message = Desired(node=node, number=self.number, expires_s=now_s + hold_s, limits=dict(values))
            self.connection.send(f"desired/{node}", message.text(), retain_s=max(1, round(hold_s)))

    def receive(self, now_s: float) -> None:
        """Take in what arrived until ``now_s`` (epoch)."""
        for arrived in pending(self.connection.arrived):
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
        problems += filter(None, [self.connection.problem, self.sender.problem if self.sender is not None else ""])
        for node, state in self.states.items():
            if state.metered and state.power_w.keys() >= set(state.metered):
                power_w = sum(state.power_w.values()) + self.other_w
                samples[node] = PowerSample(power_w, state.time_s, self.name)
            problems += [f"{node}: {text}" for text in state.problems]
        return Reading(samples, tuple(problems))
