"""Measured power above the cap: by how much, and what the policy did about it, for the status, the log and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wattqueue.live.node_power import readings_of
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.world import Layout
from wattqueue.parts.actions import Action, Requeue, SetDomainCaps, Suspend
from wattqueue.policy.round import Round

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
            if isinstance(action, SetDomainCaps):
                self.limited |= set(np.asarray(action.domains).tolist())
                self.counts["limit"] = self.counts.get("limit", 0) + len(action.domains)
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
    found = view.domain_power
    return max(0.0, found.power_w - view.cap_alone_w) if found is not None and found.is_measured else 0.0


def _jobs(names: Sequence[str]) -> str:
    """Return some jobs by name."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{'job' if len(names) == 1 else 'jobs'} {', '.join(names[:NAMED])}{more}"
