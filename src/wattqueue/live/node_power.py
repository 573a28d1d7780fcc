"""Read what nodes draw, and say what is done while that is above the cap.

The watts of a node are measured, or its maximum, for every node that the cap covers. By how much they exceed the cap,
and what the policy did about it, is for the status, the log and alerts (``AboveCap``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wattqueue.live.cluster import Snapshot
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.telemetry.base import NodePower, Telemetry
from wattqueue.live.watts.tracking import trusted
from wattqueue.live.world import Layout
from wattqueue.model.machine import Partition
from wattqueue.parts.actions import Action, Requeue, SetDeviceLimits, Suspend
from wattqueue.policy.device_limits import DeviceReadings
from wattqueue.policy.round import Round


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


def readings_of(power: Mapping[str, NodePower], layout: Layout) -> DeviceReadings:
    """Return what is measured of managed nodes, as the parts of a policy see it; NaN for a node that counts as more."""
    rows = [power.get(name) for name in layout.names]
    watts = [row.power_w if row is not None and row.label == "measured" else math.nan for row in rows]
    taken = [-math.inf if row is None else row.taken_s for row in rows]
    moves = [row is not None and not row.unchanged for row in rows]
    return DeviceReadings(np.array(watts, np.float64), np.array(taken, np.float64), np.array(moves, np.bool_))


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


NAMED = 3
"""Jobs that a line names."""
NO_CONTROL = "no control of the row acts on it, and no running job is ended"
NOTHING_MORE = "nothing is left that may be lowered; no other job starts"


@dataclass
class AboveCap:
    """What was done since measured power is above the cap.

    Attributes:
        acts: Whether a control of the row acts by measured power.
        over_w: Watts above it in the last round.
        limited: Nodes whose limits were lowered, by unit.
        stopped: Jobs that were stopped, in order.
        requeued: Jobs that were requeued, in order.
        counts: How many of each kind of action there were in the last round: limit, stop, requeue.
    """

    acts: bool
    over_w: float = 0.0
    limited: set[int] = field(default_factory=set)
    stopped: list[str] = field(default_factory=list)
    requeued: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def round(self, over_w: float, actions: Sequence[Action]) -> None:
        """Take over the excess of a round, and what was carried out in it."""
        if not over_w:
            self.limited, self.stopped, self.requeued = set(), [], []
        self.over_w, self.counts = over_w, {}
        for action in actions if over_w else ():
            if isinstance(action, SetDeviceLimits):
                self.limited |= set(np.asarray(action.devices).tolist())
                self.counts["limit"] = self.counts.get("limit", 0) + len(action.devices)
            elif isinstance(action, Suspend | Requeue):
                kind, jobs = ("stop", self.stopped) if isinstance(action, Suspend) else ("requeue", self.requeued)
                self.counts[kind] = self.counts.get(kind, 0) + 1
                jobs += [action.job] * (action.job not in jobs)

    def words(self) -> str:
        """Return what was done."""
        if not self.acts:
            return NO_CONTROL
        done = [f"limits of {len(self.limited)} nodes lowered"] if self.limited else []
        done += [f"stopped {_jobs(self.stopped)}"] if self.stopped else []
        done += [f"requeued {_jobs(self.requeued)}"] if self.requeued else []
        return f"{', '.join(done)}; no other job starts" if done else NOTHING_MORE


def measured_over_w(now: Round, power: Mapping[str, NodePower], layout: Layout) -> float:
    """Return the watts by which measured power is above the cap without load targets; 0 where it is not.

    A node without a fresh reading counts what is predicted of it. Where all busy nodes do, nothing is measured: 0.
    """
    if not power:
        return 0.0
    view = now.view(())
    view.readings = readings_of(power, layout)
    found = view.device_power
    return max(0.0, found.power_w - view.cap_alone_w) if found is not None and found.is_measured else 0.0


def _jobs(names: Sequence[str]) -> str:
    """Return some jobs by name."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{'job' if len(names) == 1 else 'jobs'} {', '.join(names[:NAMED])}{more}"
