"""What a policy promises about the cap: with how many watts jobs start, and how often real power may be above."""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.policy.interfaces import stated
from wattqueue.policy.lists import name_of
from wattqueue.policy.registry import Policy, part_name


class CapPromise(NamedTuple):
    """What a row states about the watts of its jobs."""

    start: str
    """With how many watts jobs start, and which part says so."""
    power: str
    """What is promised about real power."""


def promise_of(policy: Policy) -> CapPromise:
    """Return what a policy promises: by a control that limits nodes, by its ledger, or by its estimator."""
    estimator = name_of(policy.estimator)
    maximum = bool(stated(policy.estimator, "machine_figures", False))
    start = (
        f"the maximum of its nodes (estimator {estimator})"
        if maximum
        else f"what estimator {estimator} predicts, which may be less than the job draws"
    )
    holding = [part_name(type(one)) for one in policy.controls if stated(one, "holds_budget", False)]
    ledger = str(stated(policy.ledger, "promise", ""))
    if holding:
        power = f"within the cap, as limits of nodes keep it ({holding[0]})"
    elif ledger:
        power = ledger
    elif maximum and not stated(policy.ledger, "follows_power", False):
        power = "within the cap, where no node draws more than its max_w"
    else:
        power = "nothing: power is above the cap whenever jobs draw more than was predicted"
    lowers = [part_name(type(one)) for one in policy.controls if stated(one, "acts_by_power", False)]
    if lowers:
        power += f"; once measured above the cap it is brought back as far as {lowers[0]} reaches"
    return CapPromise(start, power)
