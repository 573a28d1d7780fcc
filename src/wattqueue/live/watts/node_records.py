"""What may be in force of the limits of nodes, and what each node is asked for now.

The controller (``features.node_limits``) and the process that alone publishes limits (``live.limits_guard``) keep the
same records by the same rules; the standard library alone.

* A node's limit may be the one that its agent stated last, or any that was sent since: ``possible_w`` is the highest.
* A node whose agent is silent, or does not carry out what it is asked for, may draw its maximum.
* What is lowered is sent at once, what is raised as far as there is room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

ROUNDING = 0.01
"""Share by which a limit in force may differ from the one that was sent: hardware rounds."""
LEAST_CHANGE_W = 0.5
"""A raise by less is not sent for itself."""
RENEWALS = 4.0
"""How often a message is sent within the time for which it holds."""
SLACK_W = 1e-3
"""Watts by which sums of limits may differ: a node's limit is shared out and summed again."""
MOST_SENT = 16
"""Messages that are told apart of a node whose agent carries none out."""
AHEAD_NS = 10_000_000_000
"""Numbers further ahead of the clock than this were given by a clock that was wrong, and agents refuse them."""


class StatedLimits(Protocol):
    """What an agent states about its node (``live.agents.AgentState`` has more)."""

    @property
    def number(self) -> int:
        """Return the number of the newest message that was carried out; 0 once it has expired."""
        ...

    @property
    def time_s(self) -> float:
        """Return the clock of the node, in seconds since the epoch."""
        ...

    @property
    def metered(self) -> Sequence[str]:
        """Return the parts of the node that draw power."""
        ...

    @property
    def limits(self) -> Mapping[str, float]:
        """Return the limits in force."""
        ...

    @property
    def low(self) -> Mapping[str, float]:
        """Return the lowest value of each limit that may be set."""
        ...

    @property
    def high(self) -> Mapping[str, float]:
        """Return the highest value of each limit that may be set."""
        ...


class LimitRules(NamedTuple):
    """How limits are set, the same for all nodes."""

    other_w: float
    """Watts of a node that have no limit."""
    hold_s: float
    """How long a message holds."""
    silence_s: float
    """Age of an agent's state from which on it is not relied on."""


class Sent(NamedTuple):
    """A message to a node."""

    number: int
    cap_w: float
    at_s: float


class LimitRange(NamedTuple):
    """The parts of a node that are limited, and the range of their sum with ``other_w``."""

    parts: tuple[str, ...]
    low_w: float
    high_w: float


@dataclass
class NodeRecord:
    """What is known of one node.

    Attributes:
        wanted_w: Limit that was decided; NaN as long as none was.
        hertz: Frequency that the policy decided; NaN for none.
        sent: Messages that its agent may not have carried out yet, the newest last.
        newest: The newest message.
        why: Why its agent is not relied on; empty where it is.
        span: What its agent limits.
        possible_w: The highest limit that may be in force; its maximum where its agent is not relied on.
        target_w: What it is asked for; NaN for nothing.
    """

    wanted_w: float = math.nan
    hertz: float = math.nan
    sent: list[Sent] = field(default_factory=list)
    newest: Sent | None = None
    newest_hz: float = math.nan
    why: str = "no agent was heard of"
    span: LimitRange | None = None
    possible_w: float = math.inf
    target_w: float = math.nan

    def take(self, state: StatedLimits | None, now_s: float, most_w: float, rules: LimitRules) -> LimitRange | None:
        """Bring the record up to date; return what the agent limits, None where it is not relied on.

        ``most_w``: the most that the node draws.
        """
        self.why, self.span = self._relied_on(state, now_s, most_w, rules)
        if state is None or self.span is None or self.why:
            self.possible_w = most_w
            return None
        force_w = self._in_force(state, self.span, rules)
        self.possible_w = min(max([force_w, *(one.cap_w for one in self.sent)]), most_w)
        return self.span

    def _relied_on(
        self, state: StatedLimits | None, now_s: float, most_w: float, rules: LimitRules
    ) -> tuple[str, LimitRange | None]:
        """Return why the agent is not relied on (empty if it is), and what it limits."""
        if state is None:
            return "no agent was heard of", None
        if abs(now_s - state.time_s) > rules.silence_s:
            return f"its agent is silent (no state of the last {rules.silence_s:g} s)", None
        span = range_of(state, rules.other_w, most_w)
        if isinstance(span, str):
            return span, None
        self.sent = [one for one in self.sent if one.number > state.number]
        if self.sent and state.time_s - self.sent[0].at_s > rules.silence_s:
            return "its agent does not carry out what it is asked for", span
        newest = self.newest
        if newest is not None and not self.sent and not math.isnan(newest.cap_w):
            force_w = self._in_force(state, span, rules)
            if state.number == newest.number and force_w > newest.cap_w * (1.0 + ROUNDING):
                return "its agent reads back a higher limit than it was asked for", span
        return "", span

    def _in_force(self, state: StatedLimits, span: LimitRange, rules: LimitRules) -> float:
        """Return the limit as the agent read it back; the one that was sent where they differ by rounding."""
        force_w = rules.other_w + sum(state.limits.get(name, math.inf) for name in span.parts)
        newest = self.newest
        carried_out = newest is not None and newest.number == state.number
        if newest is not None and carried_out and abs(force_w - newest.cap_w) <= ROUNDING * newest.cap_w:
            return newest.cap_w
        return force_w

    def is_due(self, now_s: float, hold_s: float) -> bool:
        """Whether the node is asked now: for something else, or once more."""
        newest = self.newest
        if newest is None or now_s - newest.at_s >= hold_s / RENEWALS:
            return True
        moved_w = self.target_w - newest.cap_w
        turned = self.hertz != self.newest_hz and not (math.isnan(self.hertz) and math.isnan(self.newest_hz))
        return (
            turned or moved_w < 0 or moved_w > LEAST_CHANGE_W or math.isnan(self.target_w) != math.isnan(newest.cap_w)
        )

    def note_sent(self, number: int, now_s: float) -> None:
        """Take over that the node was asked for its target."""
        self.newest, self.newest_hz = Sent(number, self.target_w, now_s), self.hertz
        self.sent.append(self.newest)
        if len(self.sent) > MOST_SENT:
            first, second, *later = self.sent  # which of the two is in force is not known: the higher one, since longer
            self.sent = [Sent(second.number, max(first.cap_w, second.cap_w), first.at_s), *later]
        if not math.isnan(self.target_w):
            self.possible_w = max(self.possible_w, self.target_w)


def aim(nodes: Iterable[NodeRecord], room_w: float) -> bool:
    """Set what nodes are asked for now: lowered at once, raised by ``room_w`` together; return whether a raise waits.

    Nodes whose agents are not relied on are asked for what they were, or for less.
    """
    live = []
    for node in nodes:
        if node.why and not math.isnan(node.target_w):  # renewed as it was: it can only be lower than counted
            node.target_w = min(node.target_w, node.wanted_w)
        elif not node.why and not math.isnan(node.wanted_w):
            live.append(node)
    rise_w = sum(max(0.0, node.wanted_w - node.possible_w) for node in live)
    share = min(1.0, max(0.0, room_w) / rise_w) if rise_w > 0 else 0.0
    for node in live:
        # without room not even what may be in force already: a lowering of it may be on its way
        base_w = node.possible_w if room_w >= 0 else min(node.possible_w, node.target_w)
        node.target_w = min(node.wanted_w, base_w + share * max(0.0, node.wanted_w - node.possible_w))
    return rise_w > LEAST_CHANGE_W and share < 1.0


def next_number(last: int, now_s: float) -> int:
    """Return the number of a message: its time in nanoseconds, above ``last`` even if the clock went back a little.

    If it went back by more than ``AHEAD_NS``, agents have refused what was numbered by it, as they would now refuse
    what follows: the numbers begin again with the time.
    """
    issued = round(now_s * 1e9)
    return issued if last > issued + AHEAD_NS else max(last + 1, issued)


def range_of(state: StatedLimits, other_w: float, most_w: float) -> LimitRange | str:
    """Return what an agent limits, or why the whole node cannot be limited."""
    parts = tuple(state.metered)
    if not parts:
        return "its agent finds nothing to limit"
    forbidden = [name for name in parts if name not in state.low]
    if forbidden:
        return f"its agent may not limit {forbidden[0]}"
    low_w = other_w + sum(state.low[name] for name in parts)
    high_w = min(other_w + sum(state.high[name] for name in parts), most_w)
    if low_w >= high_w:
        return f"its limits start at {low_w:.0f} W, above its maximum of {most_w:.0f} W"
    return LimitRange(parts, low_w, high_w)


def shares(state: StatedLimits, cap_w: float) -> dict[str, float]:
    """Return the limits of a node's parts that sum to ``cap_w``, each at the same point of its range."""
    low = {name: state.low[name] for name in state.metered}
    room = {name: state.high[name] - low[name] for name in state.metered}
    point = min(max((cap_w - sum(low.values())) / max(sum(room.values()), 1e-9), 0.0), 1.0)
    return {name: low[name] + point * room[name] for name in state.metered}
