"""Change the frequency of running jobs through the agents of their nodes.

A job that goes on at a slower option is slowed at once, and gets the time limit that its remaining work needs then
(SEMANTICS rule 3). One that goes on at a faster option gets its watts first: its agents are asked in the round after
its licence was raised. The watts that a slower job frees stay in its licence until they are measured.

The option is stored as that of the release, with a mark, so that every round (and every controller after a restart)
finds from what is stored which frequency the nodes of a running job must have, until the job ends.

Where the site gives no folder for the frequencies of starts, agents carry these as well, from the round on in which
the job is seen to run: its nodes are known then, whoever chose them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wattqueue.live.cluster import Job, Snapshot
from wattqueue.live.goal import JobGoal
from wattqueue.live.placement import NodeChoice
from wattqueue.live.state.memory import ControllerState, ReleasedJob
from wattqueue.live.world import Layout

MARK = "frequency"
"""Mark of a job whose frequency the agents of its nodes hold."""


class FrequencyChange(NamedTuple):
    """A running job at another option: what is stored then, and what the cluster has to be asked for."""

    placed: ReleasedJob
    goal: JobGoal
    raises: bool
    """Whether its licence has to be raised before its frequency."""


@dataclass
class FrequencyChanges:
    """Frequencies of the running jobs of one controller."""

    layout: Layout
    placement: NodeChoice
    memory: ControllerState
    at_start: bool = False
    """Whether agents also carry the frequency at which a job was started."""

    def changes(self, options: Mapping[str, int], holding: Iterable[Job], now_s: float) -> list[FrequencyChange]:
        """Return what follows from the options that a round decided, by job name; ``holding``: jobs that hold units."""
        rows = {row.key.name: row for row in holding if row.key.name in options}
        found = [self._change(rows[name], option, now_s) for name, option in options.items() if name in rows]
        return [change for change in found if change is not None]

    def _change(self, row: Job, option: int, now_s: float) -> FrequencyChange | None:
        """Return the change of one job; None for a job that this controller did not release or never predicted."""
        placed, known = self.memory.placed.get(row.key), self.placement.predictor.of(row.key)
        if placed is None or known is None:
            return None
        power_w, factor = known
        net_w = self.placement.running_w(row, power_w, option)
        stretch = max(1.0, float(factor[option] / factor[placed.option]))
        elapsed_s = max(0.0, now_s - row.start_s)
        limit_s = elapsed_s + max(0.0, row.walltime_s - elapsed_s) * stretch
        raises = net_w > row.watts >= 0
        why = f"goes on at {self.layout.machine.option_text(option)}"
        limit = limit_s if math.isfinite(limit_s) and stretch > 1.0 else None
        goal = JobGoal(row.key, watts=net_w if raises else None, limit_s=limit, why=why)
        changed = placed._replace(
            option=option,
            watts=net_w if raises else placed.watts,
            predicted_w=float(power_w[option]) * row.nodes,
            limit_s=limit or placed.limit_s,
        )
        return FrequencyChange(changed, goal, raises)

    def store(self, changes: Iterable[FrequencyChange]) -> None:
        """Store changes that are to take effect. Raises: OutputError where they cannot be stored."""
        rows = [change.placed for change in changes]
        self.memory.place(rows)
        self.memory.mark([row.key for row in rows], MARK)

    def hertz(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the frequency that each node must have for the job that runs there, by node."""
        found: dict[str, float] = {}
        keys = self.memory.placed if self.at_start else [k for k, marks in self.memory.marks.items() if MARK in marks]
        for key in keys:
            row, placed = snapshot.by_key.get(key), self.memory.placed.get(key)
            if row is not None and row.active and placed is not None:
                found |= dict.fromkeys(row.node_names, float(self.layout.machine.option_frequency_hz[placed.option]))
        return found

    def gpu_caps(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the limit of each GPU that the job which runs on a node was started at, by node; of lower ones only.

        Agents carry these from the round on in which the job is seen to run. A limit below its partition's floor is
        asked for as the floor, since a lower one is not held.
        """
        machine, found = self.layout.machine, dict[str, float]()
        if not (machine.option_held_w > 0.0).any():
            return found
        for key, placed in self.memory.placed.items():
            row = snapshot.by_key.get(key)
            if row is not None and row.active and machine.option_held_w[placed.option] > 0.0:
                part = machine.partitions[int(machine.option_partition[placed.option])]
                cap_w = max(float(machine.option_gpu_cap_w[placed.option]), part.gpu_floor_w)
                found |= dict.fromkeys(row.node_names, cap_w)
        return found
