"""The policy's session in a controller: what a round decides, in the order of an instant (semantics, rule 2).

``Decider`` keeps the session (``policy.session``) from round to round and hands it a ``policy.round.Round`` each time:
controls first, each seeing what the others did, then the pass. It also keeps what a round needs of the one before:
which events have happened since (``policy.events``), and which nodes were told to power up or down (``NodeOrders``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.live.cluster import Node, Power
from wattqueue.live.moldable import grow
from wattqueue.live.world import Layout
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.actions import (
    Action,
    DelayStart,
    DrainNode,
    Refusal,
    Resume,
    SetFrequency,
    StartJob,
    StopNode,
    Suspend,
    WakeNode,
)
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.build import check_prediction
from wattqueue.policy.capabilities import EVENT_BITS, Capabilities, require_carried_out, resolve
from wattqueue.policy.corrected import Corrected
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.device_limits import DeviceLimits, DeviceReadings
from wattqueue.policy.events import EventWatch
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy, part_name
from wattqueue.policy.round import NOBODY, ROUND, Round, round_abilities
from wattqueue.policy.session import InstantResult, Session, replay_instant

UNIT_STATES: dict[Power, int] = {
    "on": codes.UNIT_ON, "off": codes.UNIT_OFF, "booting": codes.UNIT_BOOTING, "stopping": codes.UNIT_STOPPING,
}  # fmt: skip
"""Power states of nodes as kernels number them."""
NO_POWER_RIGHT = "the site does not let the controller power nodes (slurm.power_nodes)"


def require_live(
    policy: Policy,
    machine: Machine,
    *,
    names_nodes: bool = True,
    agents: bool = True,
    measures: bool = True,
    meters: bool = True,
    domains: bool = False,
) -> Capabilities:
    """Return what a policy does, if a live controller carries it out.

    ``names_nodes``: whether starts may ask for nodes by name; a policy that tells nodes apart needs it. ``agents``:
    whether agents of nodes are configured; a control that holds the budget by limits needs them. ``measures``: whether
    licences of running jobs follow what is measured of their nodes; a measured ledger needs it. ``meters``: whether the
    nodes' power is measured at all; an adaptive ledger needs it. ``domains``: whether starts are tested against power
    domains (``live.watts.domains``).

    Asks its estimator about no job, for the choices that show in a prediction only; tables of a wrong shape show there
    already.

    Raises: PolicyError naming the choice.
    """
    needs = resolve(policy)
    without = [part_name(type(c)) for c in needs.controls if stated(c, "holds_budget", False)]
    if without and not agents:
        raise PolicyError(
            f"control {without[0]} limits the power of nodes, and no agents are configured",
            where=policy.name,
            hint="name their broker in [telemetry.broker] (docs/guide/agent.md)",
        )
    unkept = [part_name(type(c)) for c in needs.controls if stated(c, "forgets", False)]
    if unkept:
        raise PolicyError(
            f"control {unkept[0]} keeps its books in memory, and a controller that is started again would lose them",
            where=policy.name,
            hint="state the budgets in [budgets] of live.toml",
        )
    if needs.plans is not None and needs.plans.asked == "weekly":
        raise PolicyError(
            f"run times {part_name(type(needs.plans))} are trained by the week, on features that jobs had at their "
            "submissions, which a live controller does not keep",
            where=policy.name,
            hint='use runtime = "recent-quantile" or "nearest"',
        )
    if domains and needs.controls:
        raise PolicyError(
            f"control {part_name(type(needs.controls[0]))} is not combined with power domains live yet",
            where=policy.name,
            hint="choose a row without controls, or limits that the greatest watts of their units keep (max_w)",
        )
    untested = "a pass that looks ahead" if needs.looks_ahead else needs.ledger
    if domains and (needs.looks_ahead or needs.measured is not None):
        hint = 'use ledger = "predicted", and a pass that does not look ahead'
        raise PolicyError(f"{untested} is not combined with power domains live yet", where=policy.name, hint=hint)
    nobody = KnownJobs.of(Jobs.build([], [], []))
    options = len(machine.option_partition)
    prediction = Prediction(np.zeros((0, options)), np.ones((0, options)))
    asked = needs.online is None or isinstance(policy.estimator, Corrected)  # which may have factors of units
    if asked and "estimator" not in needs.oracle_axes:
        prediction = policy.estimator.predict(nobody, machine)
        check_prediction(nobody, machine, prediction)
    driver = replace(ROUND, telemetry=measures, site_meter=meters, supply=domains)
    if not names_nodes:
        name = 'a controller with place_nodes = "never"'
        driver = replace(driver, name=name, ranked_placement=False, unit_factors=False)
    require_carried_out(policy, needs, driver, 0, machine, prediction)
    return needs


def unit_states(layout: Layout, nodes: Sequence[Node], drained: Container[str] = ()) -> NDArray[np.int8]:
    """Return the state of each unit as the kernels number them. Shape (units,).

    A node that can neither be used nor is busy counts as down, unless it is off or on its way: a
    control may want to wake that one. ``drained`` names the nodes that the controller itself drained.
    """
    out = np.full(len(layout.names), codes.UNIT_DOWN, np.int8)
    for node in nodes:
        unit = layout.unit.get(node.name)
        if unit is not None and (node.usable or node.busy or node.power != "on"):
            out[unit] = UNIT_STATES[node.power]
        if unit is not None and node.power == "on" and node.name in drained and not node.usable:
            out[unit] = codes.UNIT_DRAINING
    return out


@dataclass
class NodeOrders:
    """Nodes that were told to power up or down, until the cluster shows it.

    A resource manager shows the new state some seconds after the command. Until then the node counts as on its way:
    its boot watts are in the budget from the round that woke it, and nobody tells it again.
    """

    timeout_s: float
    """Time after which an order that shows no effect is forgotten, so that it can be given again."""
    pending: dict[str, tuple[bool, float]] = field(default_factory=dict)
    """Whether a node was told to be on, and when."""

    def record(self, name: str, *, powered: bool, now_s: float) -> None:
        """Remember an order that was carried out."""
        self.pending[name] = (powered, now_s)

    def expected(self, nodes: tuple[Node, ...], now_s: float) -> tuple[Node, ...]:
        """Return the nodes as they are about to be; the same tuple where no order is open."""
        if not self.pending:
            return nodes
        found = []
        for node in nodes:
            on, since_s = self.pending.get(node.name, (False, -np.inf))
            before: Power = "off" if on else "on"
            if node.name in self.pending and (node.power != before or now_s - since_s >= self.timeout_s):
                del self.pending[node.name]
            elif node.name in self.pending:
                node = node._replace(power="booting" if on else "stopping", usable=False)
            found.append(node)
        return tuple(found)


@dataclass
class Announced:
    """The cap that parts of a policy see: what is in force, and what comes after.

    As announced: what Slurm admits may be less, because its pool is limited and in whole watts.
    """

    signals: Signals
    of: Cap
    """The cap that they were taken from."""
    targets: LoadTargets = field(default_factory=LoadTargets.none)
    """Load targets that are in the cap already: others come with another cap."""

    def whole(self, cap: Cap) -> Signals:
        """Return a cap with the targets in it, what is over included."""
        return replace(self.signals, cap=cap, targets=self.targets)

    def at(self, cap: Cap, now_s: float) -> Signals:
        """Return what is announced at an instant, the same object as long as it is the same."""
        self.signals = (self.signals if cap is self.of else self.whole(cap)).from_time(now_s)
        self.of = cap
        return self.signals


class RoundFacts(NamedTuple):
    """What a round shows beside its snapshot; names of jobs."""

    nodes: tuple[Node, ...]
    waiting: Sequence[str]
    """All jobs that are queued, also those that this round may not start."""
    running: Sequence[str]
    under_way: Sequence[str]
    limits: DeviceLimits | None = None
    """Of nodes, as their agents state them; None without agents."""
    parked_w: Mapping[str, float] = NOBODY
    """Net watts for which each job counts again that the controller parked."""
    happened: int = 0
    """Events that only the controller knows, as bits."""
    drained: Container[str] = ()
    """Nodes that the controller drained."""
    readings: DeviceReadings | None = None
    """Measured power of nodes; None where no control reads it."""


class PartContext(NamedTuple):
    """What the parts of a policy are shown of a round beside its snapshot."""

    states: NDArray[np.int8]
    """State of each unit (``kernels/codes.py``)."""
    under_way: frozenset[str]
    """Jobs that hold units and do not run yet."""
    happened: int
    """Events since the round before, as bits (``policy.capabilities.EVENT_BITS``)."""
    limits: DeviceLimits | None = None
    """Device limits (nodes); None without agents."""
    parked_w: Mapping[str, float] = NOBODY
    """Net watts for which each job counts again that was parked."""
    readings: DeviceReadings | None = None
    """Measured power of nodes; None where no control reads it."""


class DecisionInputs(NamedTuple):
    """What a round decided on: with the policy, all that a replay needs."""

    view: PolicySnapshot
    context: PartContext | None
    """None where no part asks."""
    ranges: dict[int, int]
    """Greatest number of nodes of the jobs that started, by row."""
    late: tuple[Refusal, ...] = ()
    """Starts of earlier rounds that the resource manager did not carry out, which the parts are told of."""


class Decision(NamedTuple):
    """What a round decided."""

    view: PolicySnapshot
    """The snapshot that it decided on, with the numbers of nodes that jobs got."""
    now: Round
    """The round after the decision."""
    starts: tuple[StartJob, ...]
    rows: tuple[int, ...]
    """Row of each start in the job table."""
    answers: InstantResult
    """What the policy's Python parts answered: with the view, all that a replay needs."""
    refusals: tuple[Refusal, ...]
    """Actions that were not carried out, since the last decision."""
    inputs: DecisionInputs


class Decider:
    """Decides round after round for one policy."""

    def __init__(
        self, policy: Policy, layout: Layout, *, power_nodes: bool, timeout_s: float, domains: bool = False
    ) -> None:
        """Begin a session. ``timeout_s``: see ``NodeOrders``; ``domains``: see ``require_live``.

        Raises: PolicyError for a policy that a live controller does not carry out.
        """
        self.layout = layout
        self.session = Session(policy, require_live(policy, layout.machine, domains=domains), report=True)
        self.abilities = round_abilities(
            {} if power_nodes else dict.fromkeys((StopNode, WakeNode, DrainNode), NO_POWER_RIGHT)
        )
        self.orders = NodeOrders(timeout_s)
        self.events = EventWatch()
        self._retry = 0
        """Event by which the controls are asked again in the next round, for what was refused in this one."""
        self.delayed: dict[str, float] = {}
        """Until when a control has delayed the start of each job, by name: not before that time."""
        needs = self.session.needs
        self.asks = bool(needs.controls) or needs.pass_in_python
        """Whether a part looks at the round at all."""

    def decide(
        self, view: PolicySnapshot, seen: RoundFacts | None, most: Callable[[int], int], late: tuple[Refusal, ...] = ()
    ) -> Decision:
        """Return what this round decides.

        ``seen`` may be None where no part asks. ``most`` returns the greatest number of nodes of a job that waits, by
        its row in ``view.jobs``. ``late``: see ``DecisionInputs``.
        """
        context = None
        if seen is not None:
            states, happened = unit_states(self.layout, seen.nodes, seen.drained), 0
            if self.session.needs.controls:
                happened = self.events.observe(seen.waiting, (*seen.running, *seen.under_way), view.cap_w, states)
            happened |= seen.happened | self._retry
            context = PartContext(
                states, frozenset(seen.under_way), happened, seen.limits, seen.parked_w, seen.readings
            )
        decision = self.answer(self._with_delays(view), context, most, late)
        self.delayed |= {one.job: float(one.until_s) for one in decision.answers.actions if isinstance(one, DelayStart)}
        # an agent may be silent for a moment, or the resource manager have no room yet
        refused = any(isinstance(one.action, SetFrequency | Suspend | Resume) for one in decision.refusals)
        self._retry = EVENT_BITS["signal"] if refused else 0
        return decision

    def _with_delays(self, view: PolicySnapshot) -> PolicySnapshot:
        """Return a snapshot with the delays that are not over, which are kept from round to round."""
        if not self.session.needs.delays:
            return view
        self.delayed = {name: until for name, until in self.delayed.items() if until > view.now_s}
        found = np.array([self.delayed.get(str(name), -np.inf) for name in view.jobs.job_id.tolist()], np.float64)
        return replace(view, not_before_s=found)

    def answer(
        self, view: PolicySnapshot, context: PartContext | None, most: Callable[[int], int], late: tuple[Refusal, ...]
    ) -> Decision:
        """Ask the session about one round: in a controller, and again in a replay of what it recorded."""
        session, actions = self.session, tuple[Action, ...]()
        for refusal in late:
            session.refuse(refusal.action, refusal.reason)
        margin_w = session.margin_w
        ranges: dict[int, int] = {}

        def greatest(row: int) -> int:
            ranges[row] = most(row)
            return ranges[row]

        if context is None:
            now = Round(view, self.abilities)
        else:
            now = Round(
                view,
                self.abilities,
                context.states,
                context.under_way,
                context.limits,
                context.parked_w,
                context.readings,
            )  # fmt: skip
            actions = tuple(session.control(now, view.now_s, context.happened))
            for unit, state in now.powered.items():
                self.events.ask(unit, state)
            for unit in now.drained:
                self.events.ask(unit, codes.UNIT_DRAINING)
            for unit in now.undrained:
                self.events.ask(unit, codes.UNIT_ON)
        passed = session.schedule(now) if session.pass_is_due(view.now_s) else None
        answers = InstantResult(actions, passed, margin_w, session.holds_starts)
        wider, last = grow(view, now, greatest, self.layout, lambda more: self._repeat(now, more, answers))
        session.lift_limits(last)
        starts, rows = tuple(last.starts()), tuple(last.start_rows())
        inputs = DecisionInputs(view, context, ranges, late)
        return Decision(wider, last, starts, rows, answers, session.pop_refusals(), inputs)

    def _repeat(self, first: Round, wider: PolicySnapshot, answers: InstantResult) -> Round | None:
        """Return the round decided again with greater jobs; None where not all of it fits any more."""
        again = first.wider(wider)
        return again if replay_instant(again, self.session.needs, answers) else None
