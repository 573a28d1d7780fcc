"""Metrics of running jobs for the check of misnamed applications, from the counters of their nodes' agents.

A job has whole nodes, so that what a node counted while a job ran there is the job's. A job's figure is the mean over
its nodes, since its start or its last change of frequency, at most over the last two minutes.

Reference: paper 1, section 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.live.agents import AgentLink, Counted
from wattqueue.model.ear import Signatures

if TYPE_CHECKING:
    from wattqueue.policy.view import View

LEAST_S = 10.0
"""Shortest time over which counters are compared."""
LINE_BYTES = 64.0
"""EAR states memory transactions as bytes of cache lines per instruction: that this is its unit is assumed."""


@dataclass
class JobCounters:
    """Measures running jobs, for ``AppCheck(measure=...)``; knows of no job before ``link`` and ``names`` are set."""

    link: AgentLink | None = None
    names: Sequence[str] = ()
    """Node of each unit."""
    _options: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Option of each job that was asked about, and since when it is known to have it."""

    def __call__(self, view: View, job: int) -> Signatures | None:
        """Return the metrics of one running job; None while one of its nodes has not counted for long enough."""
        name, option = view.job_id(job), view.job_option(job)
        before = self._options.get(name)
        if before is None or before[0] != option:
            running = set(view.job_ids(view.running))
            self._options = {other: kept for other, kept in self._options.items() if other in running}
            since_s = float(view.jobs.observed.start_s[job]) if before is None else view.now_s
            before = self._options[name] = option, since_s
        if self.link is None:
            return None
        past = [self.link.counted.get(self.names[unit], ()) for unit in view.job_units(job)]
        rows = [metrics([one for one in counted if one.time_s > before[1]]) for counted in past]
        if any(row is None for row in rows) or not rows:
            return None
        power_w, cpi, tpi = np.mean([row for row in rows if row is not None], axis=0)
        return Signatures.of(1.0, power_w, cpi, tpi)  # run time is not compared

    def problems(self) -> list[str]:
        """Return a line where agents count nothing, with the reason of the first node."""
        states = {} if self.link is None else self.link.states
        lacking = [name for name, state in states.items() if not state.counters]
        if not lacking:
            return []
        said = [text for text in states[lacking[0]].problems if text.startswith("counters: ")]
        why = said[0] if said else "its agent.toml has no [counters]"
        return [f"app-check measures no job on {len(lacking)} of {len(states)} nodes: {lacking[0]}: {why}"]


def metrics(past: Sequence[Counted]) -> tuple[float, float, float] | None:
    """Return a node's watts, cycles per instruction, and transactions per instruction in EAR's unit.

    None where it has not counted for long enough, or nothing ran.
    """
    if not past or past[-1].time_s - past[0].time_s < LEAST_S:
        return None
    first, last = past[0].counters, past[-1].counters
    gained = {name: last.get(name, 0.0) - first.get(name, 0.0) for name in ("cycles", "instructions", "transactions")}
    if gained["instructions"] <= 0 or gained["cycles"] <= 0:
        return None
    power_w = float(np.mean([one.power_w for one in past[1:]]))
    tpi = gained["transactions"] * LINE_BYTES / gained["instructions"]
    return power_w, gained["cycles"] / gained["instructions"], tpi
