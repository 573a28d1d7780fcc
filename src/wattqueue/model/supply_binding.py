"""Which power domains can hold something back, and how much they feed where nothing runs (rule 22)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.machine import Machine
from wattqueue.model.supply import NO_MARGIN, Floats, Terms, counted_uw


def can_bind(machine: Machine, unit_w: Floats, terms: Terms = NO_MARGIN) -> NDArray[np.bool_]:
    """Return which domains can hold a job back if units are counted at no more than ``unit_w`` (P,). Shape (D,).

    ``terms`` of the ledger's margin: what jobs draw is at most that of all units together.
    """
    tree, dynamic = machine.supply_tree, machine.cap_scope == "dynamic"
    watts = [w - part.idle_w * dynamic for w, part in zip(unit_w, machine.partitions, strict=True)]
    limit = np.array([domain.least_limit_w for domain in tree.domains], np.float64)
    if not np.isfinite(watts).all():
        return np.isfinite(limit)
    most, (share, own, common) = tree.input_uw(watts), terms
    found: NDArray[np.bool_] = np.rint(limit * 1e6) < most
    if terms != NO_MARGIN:
        idle = machine.supply_idle_uw
        kept = share * ((most - idle) * (1.0 + np.sqrt(own + common)) + 2.0)
        found |= limit * 1e6 - idle < kept
    return found


def binding_as_stated(machine: Machine) -> NDArray[np.bool_]:
    """Return which domains can hold jobs back that draw no more than the machine file states. Shape (D,)."""
    most = [np.inf if part.max_w is None else part.max_w for part in machine.partitions]
    return can_bind(machine, np.array(most)) if machine.supply else np.zeros(0, np.bool_)


def tightest(machine: Machine, p: int, unit_uw: int) -> tuple[int, str]:
    """Return how many units of partition p an idle machine feeds under its highest limits, at their net watts.

    And the domain that holds back most, as ``most_fed`` names it.
    """
    tree = machine.supply_tree
    own = [
        sum(part.units for part in below if part.partition == p and part.own == k) for k, below in enumerate(tree.below)
    ]
    return most_fed(machine, own, unit_uw, [domain.highest_from(-math.inf) for domain in tree.domains])


def most_fed(machine: Machine, own: Sequence[int], unit_uw: int, limits_w: Sequence[float]) -> tuple[int, str]:
    """Return how many units of so many net microwatts each an idle machine feeds, and the domain that holds back most.

    ``own``: of each domain the units that it feeds itself; ``limits_w``: of each the limit, inf for none. Named is the
    domain without whose limit most units would be fed, of equal ones the highest; where no single limit holds units
    back, the one that forbids most.
    """
    tree, idle = machine.supply_tree, machine.supply_idle_uw
    parent = tree.parent.tolist()
    below, most, fed, total = list(own), [math.inf] * len(own), [0] * len(own), 0
    for k, limit_w in enumerate(limits_w):
        each = counted_uw(unit_uw, float(tree.gain[k]))
        if np.isfinite(limit_w) and each > 0:
            most[k] = max((round(limit_w * 1e6) - int(idle[k])) // each, 0)
        fed[k] = int(min(below[k], most[k]))
        if parent[k] >= 0:
            below[parent[k]] += fed[k]
        else:
            total += fed[k]
    more = [0] * len(own)
    for k in range(len(own)):
        more[k], above = below[k] - fed[k], parent[k]
        while above >= 0 and more[k]:
            more[k] = int(min(below[above] + more[k], most[above])) - fed[above]
            above = parent[above]
    worst = max(range(len(own)), key=lambda k: (more[k], below[k] - fed[k], k))
    return total, tree.domains[worst].name
