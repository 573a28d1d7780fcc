"""Under which conditions licences of running jobs are lowered to what is measured.

A job that draws little now may draw all that its nodes can a moment later, so a licence that follows what is measured
admits others on watts that are not free. That is done only where one of three things bounds what follows:

- ``limits``: a control of the row keeps the cap by limits that agents set on nodes, and that are read back;
- ``promise``: the row's ledger promises a share of time, and the machine's meter corrects it (``adaptive``);
- ``overshoot``: the site has accepted that jobs may draw so much more than the cap.

Whether a licence is below the maximum at the *start* of a job is another question: that is the row's estimator
(``policy.promise``).
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.errors import InputError
from wattqueue.formats.cap import QUANTITY, UNITS_W
from wattqueue.live.cluster import Job
from wattqueue.live.watts.bound import NO_OVERSHOOT, AcceptedOvershoot
from wattqueue.policy.interfaces import stated
from wattqueue.policy.promise import promise_of
from wattqueue.policy.registry import Policy, part_name

KEY = "telemetry.accepted_overshoot"


def parse_overshoot(text: str) -> AcceptedOvershoot:
    """Return what ``accepted_overshoot`` states; nothing for an empty text.

    Raises: InputError for a text that is neither watts nor a share.
    """
    if not text.strip():
        return NO_OVERSHOOT
    found = QUANTITY.fullmatch(text)
    unit = found[2].lower() if found is not None else ""
    if found is None or unit not in {"%", *UNITS_W}:
        raise InputError(
            f"{text!r} is no number of watts", where=KEY, hint="write 500W, 2kW, or 5% of the cap in force"
        )
    number = float(found[1])
    return AcceptedOvershoot(share=number / 100.0) if unit == "%" else AcceptedOvershoot(number * UNITS_W[unit])


class LimitsInForce(NamedTuple):
    """What is known of the limits that agents set; the default where there are none."""

    nodes: frozenset[str] = frozenset()
    """Nodes with a limit in force that was read back."""
    hold_cap: bool = False
    """Whether all limits that may be in force sum to no more than the cap."""

    def cover(self, row: Job) -> bool:
        """Whether every node of a job has a limit in force."""
        return bool(self.nodes) and bool(row.node_names) and self.nodes.issuperset(row.node_names)


NO_LIMITS = LimitsInForce()


class LoweringConditions(NamedTuple):
    """What allows that licences of running jobs are lowered."""

    limits: str = ""
    """The control that keeps the cap by limits of nodes; empty for none."""
    promise: str = ""
    """What the ledger promises, where the machine's meter corrects it."""
    overshoot: AcceptedOvershoot = NO_OVERSHOOT

    @property
    def met(self) -> bool:
        """Whether there is one."""
        return bool(self.limits or self.promise or self.overshoot != NO_OVERSHOOT)

    def lines(self) -> list[str]:
        """Return a sentence for each condition that is met."""
        found = []
        if self.limits:
            found.append(f"while every node of the job has a limit in force that was read back ({self.limits})")
        if self.promise:
            found.append(f"as the row promises: {self.promise}")
        if self.overshoot != NO_OVERSHOOT:
            found.append(f"so far that jobs may draw {self.overshoot} more than the cap (accepted_overshoot)")
        return found


def conditions_of(policy: Policy, overshoot: AcceptedOvershoot, *, agents: bool) -> LoweringConditions:
    """Return the conditions that a policy and a site meet. ``agents``: whether agents set limits on nodes."""
    holding = [part_name(type(c)) for c in policy.controls if stated(c, "holds_budget", False)] if agents else []
    ledger = policy.ledger
    promise = stated(ledger, "promise", "") if stated(ledger, "metered", False) else ""
    return LoweringConditions(", ".join(holding), promise, overshoot)


def require_condition(policy: Policy, met: LoweringConditions, *, follows: bool) -> None:
    """Raise InputError where licences are to be lowered (``follows``) and nothing bounds what jobs draw later."""
    if met.met or not follows:
        return
    needed = f"; policy {policy.name} needs it for its ledger" if stated(policy.ledger, "counts_samples", False) else ""
    raise InputError(
        "track_running lowers licences of running jobs to what is measured, and nothing bounds what they draw "
        f"later{needed}",
        where="telemetry.track_running",
        hint="leave it out; or use a row that limits nodes through agents (e-pas-intel), or one that promises a share "
        'of time (easy+pc-adaptive-1), or state what you accept: accepted_overshoot = "5%"',
    )


class LicenceRules(NamedTuple):
    """With how many watts jobs start, what is promised about power, and whether licences follow what is measured."""

    start: str
    power: str
    lowering: tuple[str, ...]
    """A sentence for each condition under which licences are lowered; empty where they are not."""

    def rows(self) -> list[tuple[str, str]]:
        """Return them for a person: name and text."""
        follows = "; ".join(self.lowering) if self.lowering else "no (telemetry.track_running is off)"
        return [
            ("jobs start with", self.start),
            ("promised about power", self.power),
            ("licences follow measurements", follows),
        ]


def licence_rules(policy: Policy, overshoot: AcceptedOvershoot, *, follows: bool, agents: bool) -> LicenceRules:
    """Return what a policy and a site decide about licences. ``follows``: whether ``track_running`` is on."""
    promise = promise_of(policy)
    met = conditions_of(policy, overshoot, agents=agents)
    power = promise.power
    if follows and overshoot != NO_OVERSHOOT:
        power += f"; jobs may draw {overshoot} more than the cap, which the site accepts"
    return LicenceRules(promise.start, power, tuple(met.lines()) if follows else ())
