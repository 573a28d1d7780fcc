"""Decide what each node is asked for, from requests of a planner that is not trusted, and publish it.

A request names the limits of a node, as an agent takes them. What is published of it:

- a node's limit lies between ``least_w`` and ``node_w`` of the settings, and within what its agent allows;
- what lowers is carried out at once. What raises is carried out as far as the cap has room beside the highest limits
  that may be in force: those that nodes read back, and all that was sent since. So a raise waits until the lowerings
  that pay for it were read back;
- a node whose agent is silent, refuses, or has confirmed no message of this process yet counts at ``node_w``;
- where the cap has no room for what may be in force, limits are lowered, each by the same share of its range. Nobody
  has to ask for it.

A request stands until the next one, and is renewed. After ``away_s`` without a planner each node that was limited gets
the same share of what the cap leaves, so that what starts meanwhile is not held back by the limits of idle nodes, and
frequencies are left to expire. Once this process is gone limits expire within ``hold_s``, and agents restore what they
found.

Requests:

``{"do": "ask", "limits": {NODE: {LIMIT: VALUE}}}``
    Take requests over; those of other nodes stand. What is sent from then on has a higher number than the time of the
    request (or the same), by which the planner knows it. From the planner's account alone. The answer counts refusals.
``{"do": "limits"}``
    The answer is by how much limits in force are below the maximum of their nodes, and whether all limits that may be
    in force keep the cap.
``{"do": "status"}``
    The answer is what requests are checked against, and why nodes count at their maximum.
"""

from __future__ import annotations

import math
import os
import queue
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from wattqueue.live.guard.own_cap import OwnCap
from wattqueue.live.guard.place import PlannerPlace
from wattqueue.live.guard.sockets import peer_uid
from wattqueue.live.guard.wire import Packet
from wattqueue.live.limits_guard.messages import Arrived, NodeState, desired, pending, read_state, values_of
from wattqueue.live.limits_guard.settings import LimitsSettings
from wattqueue.live.watts.node_records import (
    AHEAD_NS,
    SLACK_W,
    LimitRange,
    NodeRecord,
    aim,
    next_number,
    range_of,
    shares,
)

STEP_S = 0.2
"""Time between two decisions."""
SILENT_S = 15.0
"""Silence of a planner after which another one may take its place, at most."""


class LimitsConnection(Protocol):
    """What carries messages to agents and back (``wattqueue_agent.broker.Connection``)."""

    arrived: queue.SimpleQueue[Arrived]
    problem: str

    def send(self, topic: str, text: bytes, *, retain_s: int = 0) -> None:
        """Send a message; ``retain_s`` > 0 keeps it at the broker for so long."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


@dataclass
class LimitPublisher:
    """What has the rights. ``clock`` gives seconds since the epoch."""

    settings: LimitsSettings
    connection: LimitsConnection
    clock: Callable[[], float] = time.time
    number: int = 0
    """Of the newest message."""
    states: dict[str, NodeState] = field(default_factory=dict)
    requested: dict[str, dict[str, float]] = field(default_factory=dict)
    """What was asked for last, by node."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was refused, by its reason."""

    def __post_init__(self) -> None:
        """Begin without a state, and without a request."""
        own = self.settings
        self.nodes = {name: NodeRecord(possible_w=most_w) for name, most_w in own.node_w.items()}
        self.cap = OwnCap(own.cap)
        self.place = PlannerPlace(min(SILENT_S, own.away_s / 4.0))
        self.allowed: Collection[int | None] = {0, os.getuid(), own.planner_uid, own.guard_uid}
        self._may_request = {os.getuid() if own.planner_uid is None else own.planner_uid}
        self._first: dict[str, int] = {}
        """Number of the first message of this process to each node."""
        self._asked: set[str] = set()
        """Nodes with a request that was not sent yet."""
        self._begun_s = self._heard_s = self.clock()
        self._away = False
        self._stepped_s = -math.inf

    # -- requests ------------------------------------------------------------------------------

    def answer_to(self, asker: socket.socket, request: Packet) -> Packet:
        """Return the answer to a request of a connection; one of the planner's has the place."""
        if request.header.get("do") == "ask":
            if peer_uid(asker) not in self._may_request:
                return Packet({"error": "this account may not ask for limits"})
            if refused := self.place.refusal(asker, "ask"):
                return Packet({"error": refused})
        return self.answer(request)

    def answer(self, request: Packet) -> Packet:
        """Return the answer to a request that may be made."""
        match request.header.get("do"):
            case "ask":
                return Packet({"refused": self._request(request.header)})
            case "limits":
                return Packet(self.in_force())
            case "status":
                return Packet(self._status())
            case _:
                return Packet({"error": "unknown request"})

    def _request(self, header: Mapping[str, Any]) -> int:
        """Take requests over; return how many were refused."""
        refused, found = 0, header.get("limits")
        self._heard_s = self.clock()
        for name, values in found.items() if isinstance(found, dict) else ():
            try:
                request = values_of(values)
            except ValueError:
                request = {}
            if name not in self.nodes or not request:
                self.counts["requests that are none, or for unknown nodes"] += 1
                refused += 1
                continue
            self.requested[name] = request
            self._asked.add(name)
        return refused

    def in_force(self) -> dict[str, Any]:
        """Return what is known of limits in force."""
        below = {
            name: self.settings.node_w[name] - node.possible_w
            for name, node in self.nodes.items()
            if self.settings.keeps_cap and not math.isnan(node.target_w)
        }
        return {"below_w": {name: watts for name, watts in below.items() if watts > 0}, "holds": self.holds}

    def _status(self) -> dict[str, Any]:
        cap_w = self.cap.in_force_w(self.clock())
        return {
            "cap_w": cap_w if math.isfinite(cap_w) else None,
            "problem": self.cap.problem or self.connection.problem,
            "possible_w": self.possible_w,
            "wanted_w": sum(0.0 if math.isnan(node.wanted_w) else node.wanted_w for node in self.nodes.values()),
            "why": {name: node.why for name, node in self.nodes.items() if node.why},
            "counts": dict(self.counts),
            "silent_s": self.clock() - self._heard_s,
            **self.settings.told(),
        }

    # -- steps ---------------------------------------------------------------------------------

    def due(self, *, quiet: bool) -> float:
        """Carry a step out where one is due; return how long to wait for a request."""
        now_s = self.clock()
        if not 0.0 <= now_s - self._stepped_s < STEP_S:
            self.step(now_s)
            self._stepped_s = now_s
        return STEP_S

    def end(self) -> None:
        """End the connection; what is in force expires."""
        self.connection.close()

    def step(self, now_s: float) -> None:
        """Take in what arrived, decide, and publish what is due."""
        self._receive(now_s)
        spans = dict(self._see(now_s))
        self._want(spans, now_s)
        aim(self.nodes.values(), self._room_w(now_s))
        sending = [name for name in self.nodes if self._is_due(name, now_s)]
        if not sending:
            return
        self.number = next_number(self.number, now_s)
        hold_s = self.settings.rules.hold_s
        for name in sending:
            text = desired(name, self.number, now_s + hold_s, self._values(name))
            self.connection.send(f"desired/{name}", text, retain_s=max(1, round(hold_s)))
            self.nodes[name].note_sent(self.number, now_s)
            self._first.setdefault(name, self.number)
        self._asked.difference_update(sending)

    def _receive(self, now_s: float) -> None:
        """Take in the states that arrived."""
        for arrived in pending(self.connection.arrived):
            try:
                state = read_state(arrived.text)
            except ValueError:
                self.counts["unreadable message"] += 1
                continue
            last = self.states.get(state.node)
            if state.node != arrived.node or state.node not in self.nodes:
                self.counts["message under another node's name, or of an unknown node"] += 1
            elif state.time_s > now_s + AHEAD_NS / 1e9:
                self.counts["message from the future"] += 1
            elif last is not None and last.instance == state.instance and state.time_s <= last.time_s:
                self.counts["message older than the one before"] += 1
            else:
                self.states[state.node] = state

    def _see(self, now_s: float) -> Iterator[tuple[str, LimitRange]]:
        """Bring records up to date; yield what agents limit, also those that are not relied on now."""
        for name, node in self.nodes.items():
            state, most_w = self.states.get(name), self.settings.node_w[name]
            node.take(state, now_s, most_w, self.settings.rules)
            span = "" if state is None else range_of(state, self.settings.rules.other_w, most_w)
            if state is None or isinstance(span, str):
                continue
            if state.number > 0 and name not in self.requested:
                self.requested[name] = dict(state.limits)  # of a process before this one
            high_w, least_w = span.high_w, self.settings.least_w.get(name, 0.0)
            if state.number < self._first.get(name, math.inf):
                node.possible_w = most_w  # a message of that process may be on its way
            if node.possible_w >= most_w:  # it counts at most already, and is asked for no more than it reads back
                force_w = self.settings.rules.other_w + sum(state.limits.get(part, math.inf) for part in span.parts)
                high_w = min(high_w, force_w)
            yield name, span._replace(low_w=min(max(span.low_w, least_w), high_w), high_w=high_w)

    def _want(self, spans: Mapping[str, LimitRange], now_s: float) -> None:
        """Decide the limit of each node that is limited: its request, or less where the cap has no room for all."""
        self._away = not 0.0 <= now_s - self._heard_s < self.settings.away_s
        live = []
        for name, span in spans.items():
            node, requested_w = self.nodes[name], self._requested_w(name, span)
            if not math.isnan(requested_w):
                node.wanted_w = span.high_w if self._away else min(max(requested_w, span.low_w), span.high_w)
                live += [] if node.why else [(node, span.low_w)]
        others_w = self.possible_w - sum(node.possible_w for node, _ in live)
        left_w = max(0.0, self._limit_w(now_s) - others_w - sum(low_w for _, low_w in live))
        above_w = sum(node.wanted_w - low_w for node, low_w in live)
        heard = not 0.0 <= now_s - self._begun_s < self.settings.rules.silence_s  # each agent had time to be heard
        for node, low_w in live if heard and above_w > left_w else ():
            node.wanted_w = low_w + (node.wanted_w - low_w) * left_w / above_w

    def _requested_w(self, name: str, span: LimitRange) -> float:
        """Return the limit of the whole node that was asked for; NaN where it never was limited in watts."""
        request = self.requested.get(name, {})
        if request.keys() >= set(span.parts):
            return self.settings.rules.other_w + sum(request[part] for part in span.parts)
        return math.nan if math.isnan(self.nodes[name].target_w) else span.high_w

    def _values(self, name: str) -> dict[str, float]:
        """Return what a node is asked for: watts of its parts, and others within what its agent allows."""
        node, state, asked = self.nodes[name], self.states[name], self.requested[name]
        values: dict[str, float] = {}
        if not self._away:
            # Single GPUs may be asked for where the node is not limited as a whole.
            free = state.low.keys() - (() if math.isnan(node.target_w) else state.metered)
            values |= {k: min(max(asked[k], state.low[k]), state.high[k]) for k in sorted(free & asked.keys())}
        if not math.isnan(node.target_w):
            values |= shares(state, node.target_w - self.settings.rules.other_w)
        return values

    def _is_due(self, name: str, now_s: float) -> bool:
        """Whether a node is asked now; one that cannot be limited any more keeps what it has until it expires."""
        node, state = self.nodes[name], self.states.get(name)
        if state is None or name not in self.requested:
            return False
        if math.isnan(node.target_w):
            if self._away:
                return False  # its frequencies expire
        elif not state.metered or not state.low.keys() >= set(state.metered):
            return False
        return name in self._asked or node.is_due(now_s, self.settings.rules.hold_s)

    def _limit_w(self, now_s: float) -> float:
        """Return the watts that limits of all nodes may sum to; inf where they do not keep the cap."""
        cap_w = self.cap.in_force_w(now_s) if self.settings.keeps_cap else math.inf
        return cap_w - self.settings.without_nodes_w

    def _room_w(self, now_s: float) -> float:
        """Return by how much limits may be raised together."""
        return self._limit_w(now_s) - self.possible_w

    @property
    def possible_w(self) -> float:
        """Return the sum of the highest limits that may be in force."""
        return sum(node.possible_w for node in self.nodes.values())

    @property
    def holds(self) -> bool:
        """Whether all limits that may be in force keep the cap."""
        return self.settings.keeps_cap and self._room_w(self.clock()) >= -SLACK_W
