"""Simulate one workload under a policy, and measure waits, their tail, and promises that were not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.metrics import job_figures
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.workload.marconi import generate
from wattqueue_studies.frame.samples import Trial, TrialFigures

MACHINE = "marconi100"
"""Machine of the generated jobs, in the catalogue."""
ABOVE_IDLE_W = 350e3
"""Cap of the generated jobs above the machine's idle watts."""
CAP_ESTIMATOR = "history-mean"
"""What watts are predicted by under that cap."""
NODE_W = (100.0, 200.0)
"""Watts of a node of a trace, idle and greatest (assumed: traces have no watts)."""
CAP_SHARE = 0.9
"""Cap of a trace, as a share of the machine's greatest watts; as jobs count those, it admits 80 % of the nodes."""
METRICS = {
    "wait_s_mean": "mean wait",
    "wait_s_p95": "p95",
    "wait_s_p99": "p99",
    "wait_s_max": "greatest",
    "bounded_slowdown_mean": "slowdown",
    "broken_promises": "late",
    "broken_promise_s_mean": "late by",
}
"""Metrics with their headings in tables."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceCase:
    """A recorded trace, or a half of it, on nodes that are all alike."""

    jobs: Jobs
    nodes: int
    capped: bool = False
    variants: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Policies that are no row: the row that they vary, and its changed parts."""

    def draw(self, _seed: int) -> Trial:
        """Return the trial: a recorded trace is one draw."""
        machine = plain_machine(self.nodes, *NODE_W)
        cap = Cap.constant(CAP_SHARE * NODE_W[1] * self.nodes) if self.capped else None

        def trial(name: str) -> TrialFigures:
            row, parts = self.variants.get(name, (name, {}))
            return measures(simulate(self.jobs, machine, load_policy(row, **parts), cap=cap))

        return trial


@dataclass(frozen=True, slots=True)
class GeneratedCase:
    """Generated jobs of Marconi100 at a load."""

    days: float
    load: float
    capped: bool = False

    def draw(self, seed: int) -> Trial:
        """Generate the jobs of one seed; the trial simulates them."""
        machine = load_machine(MACHINE)
        jobs = generate(np.random.default_rng(seed), days=self.days, load=self.load, nodes=machine.units)
        cap = cap_above_idle(machine) if self.capped else None
        parts: dict[str, Any] = {"estimator": CAP_ESTIMATOR} if self.capped else {}

        def trial(name: str) -> TrialFigures:
            return measures(simulate(jobs, machine, load_policy(name, **parts), cap=cap))

        return trial


def cap_above_idle(machine: Machine) -> Cap:
    """Return the cap of the generated jobs in the machine's scope; a cap on dynamic watts leaves idle watts out."""
    return Cap.constant(machine.scope_idle_w() + ABOVE_IDLE_W)


def measures(run: Run) -> TrialFigures:
    """Return waits in seconds, the mean bounded slowdown, and how many promises were broken and by how long.

    A promise is the start of a job's first reservation. It cannot be broken where plans use the limits at which jobs
    are killed, so that it is not recorded there: 0.
    """
    found = job_figures(run.jobs, run.schedule)
    ran = np.isfinite(found.wait_s)
    wait = found.wait_s[ran]
    p95, p99 = np.quantile(wait, (0.95, 0.99))
    late = np.zeros(0) if run.promised_s is None else (run.schedule.start_s - run.promised_s)[ran]
    late = late[late > 0]
    figures = {
        "wait_s_mean": float(wait.mean()),
        "wait_s_p95": float(p95),
        "wait_s_p99": float(p99),
        "wait_s_max": float(wait.max()),
        "bounded_slowdown_mean": float(found.bounded_slowdown[ran].mean()),
        "broken_promises": float(len(late)),
        "broken_promise_s_mean": float(late.mean()) if len(late) else 0.0,
    }
    return TrialFigures.of(run, figures)


def halves(jobs: Jobs) -> tuple[Jobs, Jobs]:
    """Return the first and the second half of the jobs in the order of submission."""
    order = np.argsort(jobs.submit_s, kind="stable")
    middle = len(order) // 2
    return jobs.take(np.sort(order[:middle])), jobs.take(np.sort(order[middle:]))
