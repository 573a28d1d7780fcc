"""Simulate numbers of nodes: without limits, and under the lowest limits that users accept.

The pass may be given limits below those of the breakers, all by the same factor: that is what holds them against jobs
that draw more than was counted. These *planning limits* lie on a lattice of watts, ``RATIO**index`` for the sum of all
limits, which does not depend on how high the breakers are. For so many nodes, ``Trial.index`` is the lowest place at
which the mean wait rises no further than accepted and every job starts that starts without limits. It is a figure of
nodes and jobs alone, so that higher breakers and higher watts meet the same trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.plan.prepare import PlanSetup
from wattqueue.sim.engine import Run, simulate

RATIO = 1.005
"""Between two neighbouring planning limits."""
LOWEST = 1_000
"""Places below limits that never bind: a factor of 140."""
SMALL_WAIT_S = 1.0
"""A rise of the mean wait by so many seconds is always accepted."""


@dataclass(frozen=True, eq=False)
class Trial:
    """So many nodes under the lowest planning limits that users accept."""

    nodes: int
    index: int
    """Place of these limits on the lattice."""
    plain: Run
    """Without limits."""
    run: Run
    """Under these limits."""


@dataclass(eq=False)
class Trials:
    """Trials of one setup, each made once. ``tell`` is called with the number of runs made."""

    setup: PlanSetup
    tell: Callable[[int], None] = lambda _: None
    made: dict[int, Trial] = field(default_factory=dict)
    runs: int = 0
    _plain: dict[int, Run] = field(default_factory=dict)

    def at(self, nodes: int) -> Trial:
        """Return the trial of so many nodes."""
        if nodes not in self.made:
            low, high = self.lattice(nodes)
            plain, best, ran = self.plain(nodes), high, None
            while low < best:  # the lowest place, where waits fall as limits rise
                middle = (low + best) // 2
                tried = self.run(nodes, self.scale(middle))
                if self.accepted(plain, tried):
                    best, ran = middle, tried
                else:
                    low = middle + 1
            self.made[nodes] = Trial(nodes, best, plain, ran or self.run(nodes, self.scale(best)))
        return self.made[nodes]

    def lattice(self, nodes: int) -> tuple[int, int]:
        """Return the lowest place whose limits carry the idle machine, and the first whose limits never bind."""
        machine = self.setup.growth.grown(nodes, math.inf)
        most = [self.setup.growth.scope_w(w, p) for p, w in enumerate(self.setup.greatest_unit_w)]
        high = self._place(machine, most) + 1
        return max(self._place(machine, machine.unit_scope_idle_w) + 1, high - LOWEST), high

    def _place(self, machine: Machine, unit_w: list[float]) -> int:
        """Return the lowest place whose limits carry units that draw so much, (P,)."""
        limit = self.setup.growth.limits_w
        there = np.isfinite(limit)
        need = float((machine.supply_tree.input_uw(unit_w)[there] / 1e6 / limit[there]).max())
        return math.ceil(math.log(max(need, 1e-6) * self.total_w) / math.log(RATIO))

    @property
    def total_w(self) -> float:
        """Return the sum of all limits."""
        limit = self.setup.growth.limits_w
        return float(limit[np.isfinite(limit)].sum())

    @property
    def top(self) -> int:
        """Return the highest place that is not above the limits themselves."""
        return math.floor(math.log(self.total_w) / math.log(RATIO) + 1e-9)

    def scale(self, index: int) -> float:
        """Return planning limits over limits."""
        return RATIO**index / self.total_w

    def plain(self, nodes: int) -> Run:
        """Return the run of so many nodes without limits."""
        if nodes not in self._plain:
            self._plain[nodes] = self._simulated(nodes, self.setup.growth.grown(nodes, math.inf))
        return self._plain[nodes]

    def run(self, nodes: int, scale: float) -> Run:
        """Return the run of so many nodes under planning limits, ``scale`` times the limits."""
        return self._simulated(nodes, self.setup.growth.grown(nodes, scale))

    def _simulated(self, nodes: int, machine: Machine) -> Run:
        found = self.simulated(self.setup.jobs_of(nodes), machine)
        self.runs += 1
        self.tell(self.runs)
        return found

    def simulated(self, jobs: Jobs, machine: Machine) -> Run:
        """Return a run of jobs on a machine."""
        return simulate(jobs, machine, self.setup.policy(machine), actual=self.setup.physics)

    def accepted(self, plain: Run, run: Run) -> bool:
        """Return whether every job starts that starts without limits, and waits rise no further than accepted."""
        if bool((plain.schedule.ran & ~run.schedule.ran).any()):
            return False
        base, wait = mean_waits_s(plain, run)
        return wait - base <= max(self.setup.question.wait_rise * base, SMALL_WAIT_S)


def mean_waits_s(one: Run, other: Run) -> tuple[float, float]:
    """Return the mean waits of the same jobs in two runs of a workload, those that ran in both; 0 for none."""
    both = one.schedule.ran & other.schedule.ran
    if not both.any():
        return 0.0, 0.0
    first, second = (float((run.schedule.start_s - run.jobs.submit_s)[both].mean()) for run in (one, other))
    return first, second
