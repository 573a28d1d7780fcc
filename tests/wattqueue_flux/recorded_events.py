"""The events that a recording shows, as a workload of the simulator: arrivals, ends, nodes, caps, at Flux's times.

A round of the module is an instant of the simulator. A job arrives, or ends, in the first round that shows so. A node
that Flux drains is on, a failed one of the simulator is not: its idle watts are taken off the cap meanwhile. The live
controller counts whole watts of each node.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap
from wattqueue.sim.truth import NodeEvents

Start = tuple[float, tuple[int, ...]]
"""Time and units."""


@dataclass
class RecordedJob:
    """One job; times are seconds since the first round."""

    arrives_s: float
    submit_s: float
    nodes: int
    limit_s: float
    node_w: float = 0.0
    start: Start | None = None
    ends_s: float = np.nan


@dataclass
class RecordedEvents:
    """What the rounds of one controller showed, in order."""

    jobs: dict[str, RecordedJob] = field(default_factory=dict)
    caps: list[tuple[float, float]] = field(default_factory=list)
    nodes: list[tuple[float, int, bool]] = field(default_factory=list)

    def workload(self) -> tuple[Jobs, list[str]]:
        """Jobs that ended, with their names."""
        rows = sorted(self.jobs.items(), key=lambda item: (item[1].arrives_s, item[1].submit_s))
        assert all(job.start is not None and not np.isnan(job.ends_s) for _, job in rows), "all have run"
        own = [job for _, job in rows]
        length = [round(job.ends_s - job.start[0], 6) for job in own if job.start is not None]
        stated = np.array([job.node_w for job in own])
        jobs = Jobs.build(
            [job.arrives_s for job in own], [job.nodes for job in own], length,
            walltime_s=[job.limit_s for job in own], extra={"user_power_w": stated},
        )  # fmt: skip
        return jobs, [name for name, _ in rows]

    def cap(self) -> Cap:
        """The cap that each round saw, less the idle watts of nodes that could not be used."""
        times, watts = zip(*self.caps, strict=True)
        return Cap(np.array(times), np.array(watts))

    def node_events(self) -> NodeEvents:
        """Nodes that could not be used, and that could again."""
        columns = list(zip(*self.nodes, strict=True)) or [(), (), ()]
        return NodeEvents(np.array(columns[0], float), np.array(columns[1], np.int32), np.array(columns[2], bool))


def events_of(path: Path, idle_w: float) -> RecordedEvents:
    """Read a recording of one controller."""
    found, first_s, unusable = RecordedEvents(), None, set[int]()
    view: dict[str, Any] = {}
    for line in path.read_text().splitlines():
        data = json.loads(line)
        if "decided" not in data:
            continue
        first_s = data["now_s"] if first_s is None else first_s
        now_s = round(data["now_s"] - first_s, 6)
        view = data.get("view", view)
        stated = {one[0][0]: math.ceil(one[6]) for one in data.get("asked", ())}
        shown = view["jobs"]
        for row, name in enumerate(shown["job_id"]):
            if name not in found.jobs:
                figures = shown["submit_s"][row], shown["nodes"][row], shown["walltime_s"][row]
                found.jobs[name] = RecordedJob(now_s, *figures, stated.get(name, 0.0))
        for name in found.jobs.keys() - set(shown["job_id"]):
            if found.jobs[name].start is not None and np.isnan(found.jobs[name].ends_s):
                found.jobs[name].ends_s = now_s
        now_unusable = set(view["unusable"])
        cap_w = view["cap_w"] - idle_w * len(now_unusable)
        if not found.caps or found.caps[-1][1] != cap_w:
            found.caps.append((now_s, cap_w))
        found.nodes += [(now_s, unit, unit in unusable) for unit in sorted(unusable ^ now_unusable)]
        unusable = now_unusable
        for _, name, *_, units, _option in data["decided"]["starts"]:
            found.jobs[name].start = now_s, tuple(units)
    return found
