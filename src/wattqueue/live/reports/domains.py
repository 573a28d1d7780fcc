"""Watts of power domains in a live round (rule 22 of docs/semantics.md): what the ledger counts in each, and its limit.

The live controller does not test domains yet: a machine whose domains can hold jobs back is refused. What is shown is
how near each domain that has a limit comes to it.
"""

from __future__ import annotations

import math

import numpy as np

from wattqueue.live.planner import RoundState


def domain_watts(now: RoundState) -> dict[str, tuple[float, float]]:
    """Return the counted input of each domain with a limit, and that limit now, in watts; empty without a tree.

    Idle watts are those of all nodes, whatever their state. A job counts its watts in the ledger, the same for each of
    its nodes.
    """
    layout, jobs = now.planner.layout, now.jobs
    machine, tree = layout.machine, layout.machine.supply_tree
    if not machine.supply:
        return {}
    own = np.zeros((len(tree.domains), len(machine.partitions)))
    for slot in now.holding:
        units = [layout.unit[name] for name in jobs.row[slot].node_names if name in layout.unit]
        each = float(jobs.net_w[slot]) / max(len(jobs.row[slot].node_names), 1)
        for unit in units:
            own[tree.of_unit[unit], layout.row_of(unit)] += each
    idle, found = machine.supply_idle_uw / 1e6, dict[str, tuple[float, float]]()
    for k, domain in enumerate(tree.domains):
        limit_w = domain.limit_at(now.now_s)
        if math.isfinite(limit_w):
            added = sum(part.gain * own[part.own, part.partition] for part in tree.below[k])
            found[domain.name] = (float(idle[k]) + added, limit_w)
    return found
