"""Watts of power domains in a live round (rule 22 of docs/semantics.md): what the ledger counts in each, and its limit.

What is shown is how near each domain that has a limit comes to it; ``live.watts.domains`` tests starts against them.
"""

from __future__ import annotations

import math

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge

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


class DomainMetrics:
    """Series of power domains."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        text = "Counted input of a power domain that has a limit."
        self.counted = Gauge("wattqueue_domain_counted_power_watts", text, ("domain",), registry=registry)
        text = "The limit of a power domain in force."
        self.limit = Gauge("wattqueue_domain_power_limit_watts", text, ("domain",), registry=registry)
        text = "Watts that jobs hold in a power domain beside their licences."
        self.aside = Gauge("wattqueue_domain_set_aside_watts", text, ("licence",), registry=registry)
        text = "Starts that wait for nodes whose power domains have room."
        self.postponed = Gauge("wattqueue_domain_postponed_starts", text, registry=registry)
        text = "Node seconds kept idle for jobs that are pinned."
        self.pinned = Counter("wattqueue_pinned_node_seconds", text, registry=registry)
        self._pinned_s = 0.0

    def round(self, now: RoundState) -> None:
        """Take over the figures of one round."""
        for name, (counted_w, limit_w) in domain_watts(now).items():
            self.counted.labels(name).set(counted_w)
            self.limit.labels(name).set(limit_w)
        domains = now.planner.domains
        if domains is None:
            return
        self.postponed.set(domains.postponed)
        for licence in domains.by_licence:
            self.aside.labels(licence).set(domains.set_aside.get(licence, 0))
        self.pinned.inc(max(0.0, domains.pinned_node_s - self._pinned_s))
        self._pinned_s = domains.pinned_node_s
