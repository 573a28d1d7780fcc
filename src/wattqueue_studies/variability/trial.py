"""One traffic under one budget on one draw of sockets: every policy, and what is measured of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError, one_of
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.workloads.cwm import read_cwm
from wattqueue.model.comparability import change_percent, gate
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums, energies, job_figures, span
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.parts.controls.rapl_at_counted import RaplAtCounted
from wattqueue.sim.engine import WORST_UNITS_EXCEED_CAP, Run, simulate
from wattqueue.sim.profiles import profile_power
from wattqueue_studies.frame.samples import Trial, TrialFigures
from wattqueue_studies.variability.knowledge import Knowledge
from wattqueue_studies.variability.nodes import node_jobs, node_machine, sockets_used
from wattqueue_studies.variability.physics import LIMIT_W
from wattqueue_studies.variability.traffic import with_watts

TRAFFICS = ("bursty", "heavy")
BUDGETS_W = (5_000.0, 7_500.0, 10_000.0, 15_000.0, 20_000.0)
"""Budgets of Figures 6 and 7."""
COMMON = "common jobs"
"""Ending of a setting without the jobs that slurm-extended has to drop."""


BACKFILLS = {"easy": "easy", "published": "cwm"}
"""The backfill part of each variant: EASY by our rules, and the published simulator's pass."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What is varied besides traffic, budget and policy.

    Attributes:
        backfill: ``easy``, or ``published``: as the published simulator backfills.
        whole_nodes: Whether jobs get whole nodes of two sockets, instead of sockets.
        rapl: Whether each socket of a running job is limited to the watts that admission counted for it.
        stretch: Run times over the estimates, which stand for the run times that are not published.
    """

    backfill: str = "easy"
    whole_nodes: bool = False
    rapl: bool = False
    stretch: float = 1.0

    def __post_init__(self) -> None:
        """Raise InputError for an unknown backfill, or run times that are none."""
        if not 0.0 < self.stretch < np.inf:
            raise InputError("run times must be above 0", where="--stretch", hint="over the estimates, such as 1.09")
        if self.backfill not in BACKFILLS:
            raise InputError(
                f"no backfill {self.backfill!r}", where="--backfill", hint=one_of(self.backfill, BACKFILLS)
            )

    @property
    def says(self) -> str:
        """Return a sentence that names units and backfill."""
        units = "whole nodes of two sockets" if self.whole_nodes else "single sockets"
        passes = "EASY" if self.backfill == "easy" else "the published simulator's backfill (10 jobs, each minute)"
        limits = " RAPL limits each to the watts that were counted for it." if self.rapl else ""
        times = "" if self.stretch == 1.0 else f" Run times are {self.stretch:g} times the estimates."
        return f"Jobs get {units}, by {passes}.{limits}{times}"

    @property
    def machine(self) -> Machine:
        """Return the machine that jobs are placed on."""
        return machine(self.whole_nodes)


SOCKETS = Variant()
"""What the published code does: sockets; with EASY of our rules."""


@lru_cache(2)
def machine(whole_nodes: bool = False) -> Machine:
    """Load the paper's machine: 256 sockets of 115 W, of which the running ones count; or its 128 nodes."""
    sockets = load_machine("quartz")
    return node_machine(sockets) if whole_nodes else sockets


@lru_cache(64)
def knowledge(seed: int, whole_nodes: bool = False) -> Knowledge:
    """Return one draw of sockets, made once for all traffics and budgets."""
    return Knowledge(seed, machine().units, whole_nodes)


@dataclass(frozen=True, slots=True, eq=False)
class BudgetCase:
    """A traffic under a budget.

    Attributes:
        jobs: The jobs with their profiles, on sockets.
        budget_w: The budget.
        variant: Units and backfill.
    """

    jobs: Jobs
    budget_w: float
    variant: Variant = SOCKETS

    def draw(self, seed: int) -> Trial:
        """Return the figures of a policy on the sockets of a seed."""
        simulated = self.simulations(seed)
        if not self.variant.rapl:
            return lambda name: measured(*simulated(name))
        without = replace(self, variant=replace(self.variant, rapl=False)).simulations(seed)
        return lambda name: with_limits(measured(*without(name)), measured(*simulated(name)))

    def simulations(self, seed: int) -> Callable[[str], tuple[Run, PowerSeries]]:
        """Return the simulation of a policy on the sockets of a seed: a run, and its power in steps of 100 ms."""
        whole = self.variant.whole_nodes
        known, on_units = knowledge(seed, whole), node_jobs(self.jobs) if whole else self.jobs
        policies = known.policies(on_units, BACKFILLS[self.variant.backfill])
        jobs, truth = known.recorded_jobs(on_units), known.physics(on_units)
        cap = Cap.constant(self.budget_w)
        phases_s = None if jobs.profiles is None else jobs.profiles.period_s

        def simulated(name: str) -> tuple[Run, PowerSeries]:
            """Simulate the named policy; under limits with its phases in the run, because they slow jobs down."""
            if self.variant.rapl:
                policy = replace(policies[name], controls=(RaplAtCounted(),))
                run = simulate(jobs, self.variant.machine, policy, cap=cap, actual=truth, phases_s=phases_s)
                return run, run.power
            run = simulate(jobs, self.variant.machine, policies[name], cap=cap, actual=truth)
            return run, profile_power(run)

        return simulated

    def common(self) -> BudgetCase:
        """Return the case without the jobs that slurm-extended drops: more than the budget at 115 W a socket."""
        return replace(self, jobs=self.jobs.take(np.flatnonzero(self.jobs.nodes * LIMIT_W <= self.budget_w)))


def measured(run: Run, power: PowerSeries) -> TrialFigures:
    """Return the figures of a run with the power that phases of 100 ms add up to, under a constant budget."""
    jobs, units, budget_w = run.jobs, run.machine, float(run.cap.cap_w[0])
    begin, end = span(jobs, run.schedule)
    kept = cap_sums(power, units, run.cap, begin, end)
    steps = Steps(power.time_s, power.jobs_w)
    highest = steps.maximum(begin, end)
    second_w = steps.means(np.arange(begin, max(end, begin + 1.0) + 0.5)).max()
    used = energies(power, units, begin, end)
    figures = {
        "turnaround_s": float(np.nanmean(job_figures(jobs, run.schedule).turnaround_s)),
        "makespan_s": end - begin,
        "power_w": highest,
        "over_percent": 100.0 * (highest / budget_w - 1.0),
        "second_over_percent": 100.0 * (float(second_w) / budget_w - 1.0),
        "energy_j": used["jobs_j"],
        "idle_socket_s": machine().units * (end - begin) - socket_seconds(jobs, run.schedule, units),
        "busy_percent": 100.0 * used["busy_unit_s"] / (units.units * (end - begin)),
        "full_percent": full_percent(jobs, run.schedule, units, begin, end),
        "above": 100.0 * (highest > budget_w),
        "over_s": kept.over_s,
        "over_j": kept.over_j,
        "dropped": float((~run.schedule.ran).sum()),
        "without_reservation": float(run.notes.get(WORST_UNITS_EXCEED_CAP, 0)),
    }
    return TrialFigures.of(run, figures)


def with_limits(without: TrialFigures, under: TrialFigures) -> TrialFigures:
    """Return the figures of a run under limits, with what they cost and what the same run had above the budget.

    What they cost is NaN where the two runs did different work.
    """
    through = gate(without.work, under.work)
    turnaround, energy = (
        change_percent(name, without[name], under[name], through) for name in ("turnaround_s", "energy_j")
    )
    figures = {
        **under,
        "rapl_turnaround_percent": np.nan if turnaround is None else turnaround,
        "rapl_energy_percent": np.nan if energy is None else energy,
        "unlimited_above": without["above"],
        "unlimited_over_percent": without["over_percent"],
        "unlimited_over_j": without["over_j"],
    }
    return TrialFigures(figures, under.work)


def socket_seconds(jobs: Jobs, schedule: Schedule, units: Machine) -> float:
    """Return for how long sockets did work, summed over them: those of a node that its job does not use did none."""
    ran = schedule.ran
    used = np.ones(len(jobs)) if units.units == machine().units else sockets_used(jobs.app.names)[jobs.app.codes]
    return float((jobs.nodes * used * (schedule.end_s - schedule.start_s))[ran].sum())


def full_percent(jobs: Jobs, schedule: Schedule, units: Machine, begin_s: float, end_s: float) -> float:
    """Return the share of a run in which running and waiting jobs together ask for all units or more."""
    ran = schedule.ran
    time = np.concatenate((jobs.submit_s[ran], schedule.end_s[ran]))
    asked = np.concatenate((jobs.nodes[ran], -jobs.nodes[ran]))
    order = np.argsort(time, kind="stable")
    full = np.cumsum(asked[order])[:-1] >= units.units
    return float(100.0 * np.diff(time[order])[full].sum() / (end_s - begin_s))


def cases(
    folder: Path, traffics: tuple[str, ...], budgets_w: tuple[float, ...], variant: Variant = SOCKETS
) -> dict[str, BudgetCase]:
    """Return all cases by name; where slurm-extended drops jobs, also without these jobs.

    Raises: InputError for a missing file or one that cannot be used.
    """
    found = {}
    for traffic in traffics:
        jobs = with_watts(read_cwm(folder / f"traffic_{traffic}.csv").jobs, variant.stretch)
        for budget_w in budgets_w:
            name = setting(traffic, budget_w)
            found[name] = case = BudgetCase(jobs, budget_w, variant)
            if len(case.common().jobs) < len(jobs):
                found[f"{name}, {COMMON}"] = case.common()
    return found


def setting(traffic: str, budget_w: float) -> str:
    """Return the name of a case."""
    return f"{traffic}, {budget_w / 1e3:g} kW"
