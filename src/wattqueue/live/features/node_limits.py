"""Limit nodes through their agents, so that what may be in force never sums to more than what was decided.

A policy's controls limit devices (live: nodes) by ``SetDeviceLimits``. ``NodeLimits`` keeps what is wanted of each
node, sends it with an expiry, renews it, and reads from the agents' states what is in force.

Three rules hold the budget while messages and agents are late or lost:

* **Raise after lowering.** A node's limit may be the one that its agent stated last, or any that was sent since.
  ``possible`` is the highest of these. A raise is sent only as far as the sum of what is possible stays within the sum
  of what is wanted: what was lowered must have been confirmed.
* **Who is silent counts at the highest.** A node whose agent was not heard of for ``silence_s``, or does not carry out
  what it is asked for, may draw its maximum: controls see it as a device that cannot be set. Its limits hold until they
  expire (``hold_s``); the controls lower others in that time.
* **Nothing starts before limits hold.** Where the limits are to keep the budget (a control with ``holds_budget``), jobs
  wait while what is possible sums to more than the cap.

A node's limit is shared out over its packages and GPUs, each at the same point of its range (``shares``); ``other_w``
of it is for what has no limit. That is assumed: nothing in paper 3 shares a limit within a node.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.live.agents import AgentLink, AgentState
from wattqueue.live.cluster import Node
from wattqueue.live.config import LimitsSection
from wattqueue.live.extension import Extension, Place
from wattqueue.live.features.job_counters import JobCounters
from wattqueue.live.planner import RoundState, StageFunction
from wattqueue.live.telemetry.base import TelemetrySource
from wattqueue.live.watts.lowering import NO_LIMITS, LimitsInForce
from wattqueue.live.watts.node_records import ROUNDING, SLACK_W, LimitRules, NodeRecord, aim, shares
from wattqueue.live.world import Layout
from wattqueue.policy.device_limits import DeviceLimits
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy

if TYPE_CHECKING:
    from wattqueue.policy.view import View


@dataclass
class NodeLimits:
    """Limits of all nodes of a controller.

    Attributes:
        link: The agents.
        layout: Nodes and units: a unit is a node, and a device.
        hold_s: How long a message holds; it is renewed ``RENEWALS`` times as often.
        silence_s: Age of an agent's state from which on it is not relied on.
        counters: What measures the policy's ``app-check``; None without one.
        holds_budget: Whether the limits are to keep the cap (a control with ``holds_budget``).
        active: Whether every node is limited, at least to the highest limit that its site allows; from the first limit
            that a control sets on, or from the beginning where limits keep the cap.
        counts: Raises that had to wait, and refusals, by what they were.
        gpu_caps: Limit of each GPU that the policy decided, by node.
        gpu_caps_sent: Those that agents were asked for last.
    """

    link: AgentLink
    layout: Layout
    hold_s: float = 30.0
    silence_s: float = 5.0
    holds_budget: bool = False
    counters: JobCounters | None = None
    active: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    gpu_caps: dict[str, float] = field(default_factory=dict)
    gpu_caps_sent: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = {name: NodeRecord() for name in self.layout.names}
        self.active = self.active or self.holds_budget
        parts = self.layout.machine.partitions
        most = [math.inf if p.max_w is None else p.max_w for p in parts for _ in range(p.nodes)]
        self.most_w = dict(zip(self.layout.names, most, strict=True))
        self.off_w = dict(zip(self.layout.names, [p.off_w for p in parts for _ in range(p.nodes)], strict=True))

    def observe(self, now_s: float, nodes: Iterable[Node] = ()) -> DeviceLimits:
        """Return the limits of all nodes as the policy is to see them.

        ``nodes``: their states; one that is off draws no more than that, whatever its limit.
        """
        self.link.receive(now_s)
        off = {node.name for node in nodes if node.power == "off"}
        columns = [self._see(name, now_s, self.off_w[name] if name in off else None) for name in self.layout.names]
        return DeviceLimits(*(np.array(column, np.float64) for column in zip(*columns, strict=True)))

    def _see(self, name: str, now_s: float, off_w: float | None) -> tuple[float, float, float, float, float, float]:
        """Return a node's columns of ``DeviceLimits``, and bring its record up to date."""
        node, state = self.nodes[name], self.link.states.get(name)
        if off_w is not None:
            node.why, node.possible_w = "off", off_w
            return off_w, off_w, off_w, 0.0, math.nan, math.nan
        span = node.take(state, now_s, self.most_w[name], self.rules)
        if state is None or span is None:
            most_w = self.most_w[name]
            return most_w, most_w, most_w, math.nan, math.nan, math.nan
        if self.active and math.isnan(node.wanted_w):
            node.wanted_w = span.high_w
        cap_w = span.high_w if math.isnan(node.wanted_w) else min(max(node.wanted_w, span.low_w), span.high_w)
        node.wanted_w = node.wanted_w if math.isnan(node.wanted_w) else cap_w
        power_w = sum(state.power_w.values()) + self.link.other_w
        measured = power_w if state.power_w.keys() >= set(state.metered) else math.nan
        return cap_w, span.low_w, span.high_w, measured, *frequencies(state)

    @property
    def rules(self) -> LimitRules:
        """Return how limits are set."""
        return LimitRules(self.link.other_w, self.hold_s, self.silence_s)

    def decide(
        self, asked: Mapping[int, float], hertz: Mapping[str, float], gpu_caps: Mapping[str, float] | None = None
    ) -> None:
        """Take over what a round decided: limits in watts by unit, all frequencies in hertz and GPU limits by node."""
        self.active = self.active or bool(asked)
        for unit, cap_w in asked.items():
            self.nodes[self.layout.names[unit]].wanted_w = cap_w
        self.gpu_caps = dict(gpu_caps or {})
        for name, node in self.nodes.items():
            node.hertz = hertz.get(name, math.nan)

    def send(self, now_s: float) -> None:
        """Ask agents for what may be asked for now, and renew what they hold."""
        self._aim()
        changed: dict[str, dict[str, float]] = {}
        for name, node in self.nodes.items():
            values = self._values(name, node)
            turned = self.gpu_caps.get(name) != self.gpu_caps_sent.get(name)
            if values is not None and (turned or node.is_due(now_s, self.hold_s)):
                changed[name] = values
        if not changed:
            return
        self.link.ask(changed, now_s, self.hold_s)
        for name in changed:
            self.nodes[name].note_sent(self.link.number, now_s)
            self.gpu_caps_sent.pop(name, None)
            if name in self.gpu_caps:
                self.gpu_caps_sent[name] = self.gpu_caps[name]

    def _aim(self) -> None:
        """Set the limit that each node is to be asked for now: lowered at once, raised into confirmed room."""
        wanted = [node for node in self.nodes.values() if not node.why and not math.isnan(node.wanted_w)]
        room_w = sum(node.wanted_w - node.possible_w for node in wanted)
        if aim(self.nodes.values(), room_w):
            self.counts["raises that waited for lowered limits"] += 1

    def _values(self, name: str, node: NodeRecord) -> dict[str, float] | None:
        """Return the limits to ask a node for; None where nothing is wanted of it."""
        state = self.link.states.get(name)
        gpus = name in self.gpu_caps or name in self.gpu_caps_sent
        if state is None or not (gpus or not all(map(math.isnan, (node.target_w, node.hertz, node.newest_hz)))):
            return None
        values: dict[str, float] = {}
        if not math.isnan(node.target_w):
            if not state.metered or not set(state.metered) <= state.low.keys():
                return None
            values |= shares(state, node.target_w - self.link.other_w)
        if not math.isnan(node.hertz):
            policies = [each for each in state.low if each.startswith("policy")]
            values |= {each: min(max(node.hertz, state.low[each]), state.high[each]) for each in policies}
        if name in self.gpu_caps:
            for each in gpus_of(state):
                lower = min(self.gpu_caps[name], values.get(each, math.inf))
                values[each] = min(max(lower, state.low[each]), state.high[each])
        return values

    def keep_waiting(self, cap_w: float) -> bool:
        """Whether starts have to wait: limits are to keep a cap, and those that may be in force sum to more than it.

        Limits include idle watts, whatever the cap covers.
        """
        idle_w = float(self.layout.idle_uw.sum()) / 1e6 if self.layout.machine.cap_scope == "dynamic" else 0.0
        return self.holds_budget and self.possible_w > cap_w + idle_w + SLACK_W

    def in_force(self, cap_w: float) -> LimitsInForce:
        """Return which nodes have a limit in force that their agent read back, and whether these limits keep a cap.

        Only where they are to keep it: a limit that a control sets for another purpose may be lifted at any time.
        """
        if not self.holds_budget:
            return NO_LIMITS
        limited = (name for name, node in self.nodes.items() if not node.why and math.isfinite(node.possible_w))
        return LimitsInForce(frozenset(limited), not self.keep_waiting(cap_w))

    @property
    def possible_w(self) -> float:
        """Return the sum of the highest limits that may be in force."""
        return sum(node.possible_w for node in self.nodes.values())

    def problems(self) -> list[str]:
        """Return what a person should know, a line a kind, naming the first nodes."""
        by_reason, above = dict[str, list[str]](), dict[str, list[str]]()
        for name, node in self.nodes.items():
            if node.why and node.why != "off":
                by_reason.setdefault(node.why, []).append(name)
            state = self.link.states.get(name)
            if why := self._gpus_above(name, node, state):
                above.setdefault(why, []).append(name)
        lines = [
            f"GPU limit of {_first(names)}: {why}, jobs may draw more than they count" for why, names in above.items()
        ]
        for why, names in by_reason.items():
            lines.append(f"limit of {_first(names)}: counts as the maximum, since {why}")
        return [*lines, *(self.counters.problems() if self.counters is not None else ())]

    def _gpus_above(self, name: str, node: NodeRecord, state: AgentState | None) -> str:
        """Return why the limit that GPUs of a node were asked for is not known to hold; empty where it is."""
        cap_w, newest = self.gpu_caps_sent.get(name), node.newest
        if state is None or newest is None or cap_w is None:
            return ""
        gpus = gpus_of(state)
        if not gpus:
            return "its agent limits no GPU"
        if any(state.low[each] > cap_w for each in gpus):
            return "a GPU takes no limit as low as it was asked for"
        if state.number >= newest.number and any(state.limits[each] > cap_w * (1.0 + ROUNDING) for each in gpus):
            return "its agent reads back a higher GPU limit than it was asked for"
        return ""

    def figures(self) -> dict[str, float]:
        """Return figures for the status and the metrics."""
        watts = [node.wanted_w for node in self.nodes.values() if not node.why and not math.isnan(node.wanted_w)]
        refused = sum(self.link.counts.values()) + sum(sum(s.counts.values()) for s in self.link.states.values())
        return {
            "wanted_w": sum(watts),
            "possible_w": self.possible_w,
            "limited_nodes": len(watts),
            "nodes_at_maximum": sum(bool(node.why) and node.why != "off" for node in self.nodes.values()),
            "refused_or_corrected": refused,
            "raises_waited": sum(self.counts.values()),
        }


def _first(names: list[str]) -> str:
    """Return the first three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def agents_extension(limits: NodeLimits, clock: Callable[[], float]) -> Extension:
    """Return the stages by which agents state the limits of nodes, and are asked for others."""

    def observe(now: RoundState) -> None:
        now.limits = limits.observe(clock(), now.snapshot.nodes)
        now.in_force = limits.in_force(now.planner.left.in_force_w(now.now_s))

    def ask(now: RoundState) -> None:
        """Ask agents for what was decided; starts wait until the limits that hold the budget are in force.

        A job that starts before could draw more.
        """
        points = now.planner.frequencies
        limits.decide(now.decision.now.limited, points.hertz(now.snapshot), points.gpu_caps(now.snapshot))
        limits.send(clock())
        if not limits.keep_waiting(now.cap_w):
            return
        if now.placed:
            now.troubles.append("nothing starts while limits of nodes may sum to more than the cap")
        kept = tuple(goal for goal in now.goal.jobs if goal.held is not False)
        now.placed, now.goal = (), now.goal._replace(jobs=kept)

    def report(now: RoundState) -> None:
        now.limit_figures = limits.figures()

    # which limits are in force on which node is known to this controller alone
    places: dict[Place, StageFunction] = {"observed": observe, "writes": ask, "written": report}
    return Extension(places, limits.problems, keeps=limits, knows_nodes=True)


def limits_of(
    sources: Iterable[TelemetrySource],
    layout: Layout,
    policy: Policy,
    times: LimitsSection,
    counters: JobCounters | None = None,
) -> NodeLimits | None:
    """Return the limits of nodes for a policy, where agents are among the sources of telemetry.

    ``counters`` is what measures its ``app-check``, which reads from the same agents.
    """
    holds = any(stated(control, "holds_budget", False) for control in policy.controls)
    for source in sources:
        if isinstance(source, AgentLink):
            if counters is not None:
                counters.link, counters.names = source, layout.names
            return NodeLimits(source, layout, times.hold_s, times.silence_s, holds_budget=holds, counters=counters)
    return None


def gpus_of(state: AgentState) -> list[str]:
    """Return the GPUs that an agent may limit."""
    return [name for name in state.low if name.startswith("gpu-")]


def frequencies(state: AgentState) -> tuple[float, float]:
    """Return the lowest and highest frequency that an agent may set on all cores, NaN where it may set none."""
    ends = [(state.low[name], state.high[name]) for name in state.low if name.startswith("policy")]
    every = [name for name in state.limits if name.startswith("policy")]
    if not ends or len(ends) < len(every):
        return math.nan, math.nan
    return max(low for low, _ in ends), min(high for _, high in ends)


def measured_by_agents(view: View) -> np.ndarray:
    """Return the watts of each node as its agent reads them, NaN without a fresh reading; ``measure`` of a control."""
    return np.full(view.machine.devices, np.nan) if view.limits is None else view.limits.power_w
