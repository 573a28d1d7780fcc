"""One traffic under one budget on one draw of sockets: every policy, and what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.workloads.cwm import read_cwm
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums, energies, job_figures, span
from wattqueue.model.schedule import Schedule
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import Policy
from wattqueue.sim.engine import WORST_UNITS_EXCEED_CAP, simulate
from wattqueue.sim.profiles import profile_power
from wattqueue.sim.truth import actual_power
from wattqueue.study.frame.samples import Trial
from wattqueue.study.variability.knowledge import Knowledge
from wattqueue.workload.variability.physics import LIMIT_W
from wattqueue.workload.variability.traffic import with_watts

TRAFFICS = ("bursty", "heavy")
BUDGETS_W = (5_000.0, 7_500.0, 10_000.0, 15_000.0, 20_000.0)
"""Budgets of Figures 6 and 7."""
COMMON = "common jobs"
"""Ending of a setting without the jobs that slurm-extended has to drop."""


@lru_cache(1)
def machine() -> Machine:
    """Load the paper's machine: 256 sockets of 115 W, of which the running ones count."""
    return load_machine("quartz")


@lru_cache(64)
def knowledge(seed: int) -> Knowledge:
    """Return one draw of sockets, made once for all traffics and budgets."""
    return Knowledge(seed, machine().units)


@dataclass(frozen=True, slots=True, eq=False)
class BudgetCase:
    """A traffic under a budget.

    Attributes:
        jobs: The jobs with their profiles.
        budget_w: The budget.
    """

    jobs: Jobs
    budget_w: float

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a policy on the sockets of a seed."""
        known = knowledge(seed)
        policies = known.policies(self.jobs)
        factor = known.true_factor(self.jobs)
        return lambda name: measured(self.jobs, policies[name], self.budget_w, factor)

    def common(self) -> BudgetCase:
        """Return the case without the jobs that slurm-extended drops: more than the budget at 115 W a socket."""
        return replace(self, jobs=self.jobs.take(np.flatnonzero(self.jobs.nodes * LIMIT_W <= self.budget_w)))


def measured(jobs: Jobs, policy: Policy, budget_w: float, true_factor: Floats) -> Mapping[str, float]:
    """Simulate and return the figures of a run, on the power that phases of 100 ms add up to."""
    cap, actual = Cap.constant(budget_w), replace(actual_power(jobs, machine()), unit_factor=true_factor)
    run = simulate(jobs, machine(), policy, cap=cap, actual=actual)
    power = profile_power(run, actual=actual)
    begin, end = span(jobs, run.schedule)
    kept = cap_sums(power, machine(), cap, begin, end)
    highest = Steps(power.time_s, power.jobs_w).maximum(begin, end)
    used = energies(power, machine(), begin, end)
    return {
        "turnaround_s": float(np.nanmean(job_figures(jobs, run.schedule).turnaround_s)),
        "makespan_s": end - begin,
        "power_w": highest,
        "over_percent": 100.0 * (highest / budget_w - 1.0),
        "energy_j": used["jobs_j"],
        "busy_percent": 100.0 * used["busy_unit_s"] / (machine().units * (end - begin)),
        "full_percent": full_percent(jobs, run.schedule, begin, end),
        "above": 100.0 * (highest > budget_w),
        "over_s": kept.over_s,
        "over_j": kept.over_j,
        "dropped": float((~run.schedule.ran).sum()),
        "without_reservation": float(run.notes.get(WORST_UNITS_EXCEED_CAP, 0)),
    }


def full_percent(jobs: Jobs, schedule: Schedule, begin_s: float, end_s: float) -> float:
    """Return the share of a run in which running and waiting jobs together ask for all sockets or more."""
    ran = schedule.ran
    time = np.concatenate((jobs.submit_s[ran], schedule.end_s[ran]))
    asked = np.concatenate((jobs.nodes[ran], -jobs.nodes[ran]))
    order = np.argsort(time, kind="stable")
    full = np.cumsum(asked[order])[:-1] >= machine().units
    return float(100.0 * np.diff(time[order])[full].sum() / (end_s - begin_s))


def cases(folder: Path, traffics: tuple[str, ...], budgets_w: tuple[float, ...]) -> dict[str, BudgetCase]:
    """Return all cases by name; where slurm-extended drops jobs, also without these jobs.

    Raises: InputError for a missing file or one that cannot be used.
    """
    found = {}
    for traffic in traffics:
        jobs = with_watts(read_cwm(folder / f"traffic_{traffic}.csv").jobs)
        for budget_w in budgets_w:
            name = setting(traffic, budget_w)
            found[name] = case = BudgetCase(jobs, budget_w)
            if len(case.common().jobs) < len(jobs):
                found[f"{name}, {COMMON}"] = case.common()
    return found


def setting(traffic: str, budget_w: float) -> str:
    """Return the name of a case."""
    return f"{traffic}, {budget_w / 1e3:g} kW"
