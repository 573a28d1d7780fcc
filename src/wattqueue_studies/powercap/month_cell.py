"""One run of the study of months: a generated trace under a constant cap and a rule, judged month by month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.rows import find_row
from wattqueue.sim.engine import simulate
from wattqueue.workload.cycle import DAY_S
from wattqueue.workload.marconi import generate
from wattqueue_studies.powercap.cell import HIGHEST_DYNAMIC_W, MACHINE
from wattqueue_studies.powercap.months import RAMP_USER, habits_break, habits_drift, with_ramps

MONTH_DAYS = 30
"""Days of a month."""
PHASES_S = 120.0
"""Seconds between two samples of the jobs' power profiles in a run."""
GENERATED, DRIFT, BREAK = "generated", "habits drift", "habits break"
RAMPS = {"real ramps, 256 nodes": 256, "real ramps, 64 nodes": 64}
"""Kinds of months with a job that ramps, and its nodes: the most that Marconi100 ran, whose highest power alone is
above a cap of 40 %, and so few that it fits beside other jobs."""


@dataclass(frozen=True, slots=True)
class MonthCell:
    """A run over a month to learn and the months that are judged."""

    kind: str
    """Kind of the trace."""
    seed: int
    """Seed of the trace."""
    rule: str
    """Name of the rule, for the table."""
    policy: str
    """Row of the policy."""
    months: int
    """Months that are judged."""
    cap_percent: float
    """Cap in per cent of the highest dynamic power."""
    load: float
    """Work of the trace over what the machine can do."""
    ledger: tuple[tuple[str, float], ...] = ()
    """Options of the policy's ledger that differ from its row."""
    ramps: str = ""
    """Power of a real machine over time, by its name in Shared."""
    margin_percent: float = 0.0
    """Per cent of the cap that the policy is not told of: a constant margin."""

    def identity(self) -> Mapping[str, object]:
        """Return all inputs."""
        return asdict(self)

    @property
    def days(self) -> int:
        """Return the length of the trace."""
        return MONTH_DAYS * (1 + self.months)

    def perform(self, shared: Shared) -> Row:
        """Simulate and return the figures of the months."""
        jobs, machine = trace_of(self.kind, self.seed, self.days, self.load, shared, self.ramps), load_machine(MACHINE)
        cap = Cap.constant(self.cap_percent / 100.0 * HIGHEST_DYNAMIC_W)
        head: Row = {"kind": self.kind, "seed": self.seed, "rule": self.rule}
        return head | monthly(jobs, machine, self.loaded(), cap, self.months, self.margin_percent)

    def loaded(self) -> Policy:
        """Load the policy, its ledger with the options."""
        if not self.ledger:
            return load_policy(self.policy)
        return load_policy(self.policy, ledger={**find_row(self.policy)["ledger"], **dict(self.ledger)})


@lru_cache(1)
def trace_of(kind: str, seed: int, days: int, load: float, shared: Shared, ramps: str) -> Jobs:
    """Return a trace of a kind; cached, as all rules run on it in turn."""
    nodes = load_machine(MACHINE).units
    if kind == BREAK:
        return habits_break(seed, days, load, nodes, days / 2 * DAY_S)
    if kind == DRIFT:
        return habits_drift(seed, days, load, nodes)
    jobs = generate(np.random.default_rng(seed), days=days, load=load, nodes=nodes)
    if kind in RAMPS:
        series = shared.arrays(ramps)
        return with_ramps(jobs, Steps(series["time_s"], series["value"]), days, RAMPS[kind])
    return jobs


def monthly(jobs: Jobs, machine: Machine, policy: Policy, cap: Cap, months: int, margin_percent: float = 0.0) -> Row:
    """Return figures of a run over all judged months, and the time above the cap in each of them, in per cent.

    Waits are over all jobs of the trace: one that never started counts up to the end of the run. A job *fits* if its
    nodes at their maximum do, under the cap alone.
    """
    limit = Cap(cap.time_s, cap.cap_w * (1.0 - margin_percent / 100.0))
    run = simulate(jobs, machine, policy, cap=limit, phases_s=PHASES_S)
    begin = MONTH_DAYS * DAY_S
    found: Row = {}
    for month in range(months):
        sums = cap_sums(run.power, machine, cap, begin + month * begin, begin + (month + 1) * begin)
        found[f"over_time_percent {month + 1}"] = 100.0 * sums.over_s / sums.capped_s
    end = (1 + months) * begin
    whole = cap_sums(run.power, machine, cap, begin, end)
    watts = Steps(run.power.time_s, run.power.scope_w(machine.cap_scope))
    allowed = float(cap.cap_w[0]) * (end - begin)
    left = allowed - watts.integral(begin, end) + whole.over_j
    start = run.schedule.start_s
    waiting = np.isnan(start)
    waits = np.where(waiting, np.nanmax(run.schedule.end_s), start) - jobs.submit_s
    part = machine.partitions[0]
    fits = jobs.nodes * ((part.max_w or 0.0) - part.idle_w) <= float(cap.cap_w[0])
    ramping = jobs.user.codes == jobs.user.names.index(RAMP_USER) if RAMP_USER in jobs.user.names else np.False_
    did = WorkDone.of(jobs, run.schedule)
    return found | {
        "jobs": did.jobs,
        "jobs_never_ran": did.never_ran,
        **did.row(),
        "under_percent": 100.0 * left / allowed,
        "over_percent": 100.0 * whole.over_j / allowed,
        "excess_percent": 100.0 * whole.overshoot_w / float(cap.cap_w[0]),
        "wait_h": float(waits.mean()) / 3600.0,
        "not_started": float(waiting.sum()),
        "not_started_fit": float((waiting & fits).sum()),
        "ramps": float((ramping & (start >= begin) & (start < end)).sum()),
    }
