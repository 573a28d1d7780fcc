"""Which power domains can hold something back: all others are left out (rule 22 of docs/semantics.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.machine import Machine
from wattqueue.model.supply import NO_MARGIN, Floats, Terms


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
