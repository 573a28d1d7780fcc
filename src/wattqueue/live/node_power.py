"""Read what nodes draw: measured, or their maximum, for every node that the cap covers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from wattqueue.live.cluster import Snapshot
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.telemetry.base import NodePower, Telemetry
from wattqueue.live.watts.tracking import trusted
from wattqueue.live.world import Layout
from wattqueue.model.machine import Partition
from wattqueue.policy.domain_power import DomainReadings


def node_power(
    telemetry: Telemetry, layout: Layout, shared: SharedNodes, snapshot: Snapshot, tolerance: float, now_s: float
) -> tuple[dict[str, NodePower], int]:
    """Return the power that counts for each node by name, and how many are measured far below idle.

    ``tolerance`` is the share by which a reading may be below idle; below that it counts as the maximum. A node that
    is off draws less than idle, and rightly. Empty without telemetry.
    """
    if not telemetry.sources:
        return {}, 0
    off = {node.name for node in snapshot.nodes if node.power != "on"}
    telemetry.read(now_s)
    out, low = {}, 0
    for name, idle_w, most_w in _figures(layout, shared, snapshot):
        sample = telemetry.node(name, most_w, now_s)
        if name not in off:
            counted = trusted(sample, idle_w, most_w, tolerance)
            low += counted.label != sample.label
            sample = counted
        out[name] = sample
    return out, low


def readings_of(power: Mapping[str, NodePower], layout: Layout) -> DomainReadings:
    """Return what is measured of managed nodes, as the parts of a policy see it; NaN for a node that counts as more."""
    rows = [power.get(name) for name in layout.names]
    watts = [row.power_w if row is not None and row.label == "measured" else math.nan for row in rows]
    taken = [-math.inf if row is None else row.taken_s for row in rows]
    moves = [row is not None and not row.unchanged for row in rows]
    return DomainReadings(np.array(watts, np.float64), np.array(taken, np.float64), np.array(moves, np.bool_))


def _figures(layout: Layout, shared: SharedNodes, snapshot: Snapshot) -> Iterator[tuple[str, float, float]]:
    """Yield name, idle watts and maximum of each node that the cap covers."""
    for p, one in enumerate(layout.machine.partitions):
        for unit in range(int(layout.first[p]), int(layout.first[p + 1])):
            yield layout.names[unit], *_range_w(one)
    for name, one in shared.members(snapshot.nodes).items():
        if name not in layout.unit:
            yield name, *_range_w(one)


def _range_w(part: Partition) -> tuple[float, float]:
    """Return idle watts and maximum of a node; inf for a maximum that is not stated."""
    return part.idle_w, math.inf if part.max_w is None else part.max_w


def mostly_measured(power: Mapping[str, NodePower], managed: Collection[str]) -> bool:
    """Whether at least half of the managed nodes are measured; also where no telemetry is configured."""
    found = [power[name].label == "measured" for name in managed if name in power]
    return not power or 2 * sum(found) >= len(found)
