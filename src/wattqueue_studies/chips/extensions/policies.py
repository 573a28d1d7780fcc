"""Placements under a budget that stands still or moves over the day."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.signals import Cap
from wattqueue.parts.estimator.oracle_unit_watts import OracleUnitWatts
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.chips.budgets import run_figures
from wattqueue_studies.chips.devices import Devices, draw_jobs
from wattqueue_studies.chips.extensions.joint import joint_figures
from wattqueue_studies.chips.extensions.sites import DAY_S, Site, Sites, own_means, ratios
from wattqueue_studies.chips.limits import Ranked
from wattqueue_studies.frame.samples import Trial, TrialFigures
from wattqueue_studies.unit_telemetry import learn_factors

BY_NUMBER, BENCHMARK, TELEMETRY, OWN, LONG, ORACLE = (
    "by number",
    "one benchmark",
    "telemetry",
    "own factors",
    "long jobs first",
    "own factors (oracle)",
)
POLICIES = (BY_NUMBER, BENCHMARK, TELEMETRY, OWN, LONG, ORACLE)
"""Placements: the lowest numbers (watts of each device are known); ranks and watts by one benchmark, by telemetry
alone, by each application's own factors; these, with the best devices kept for long jobs; true watts."""
STILL, MOVING = "still", "moving"
SHARE, SWING = 0.7, 0.2
"""Mean of the budget over the sum of the devices' highest watts, and how far a moving one swings, hour by hour."""
JOBS, LOAD = 2_400, 0.8
LONG_SHARE = 0.5
"""Share of jobs whose time limit counts as long."""
KEPT = 0.2
"""Share of the devices, the most efficient ones, that short jobs take last. 0.2 was the best of 0.2, 0.4, 0.6 and all,
and half of the jobs the best of 0.1, 0.3 and 0.5, on seeds 100 to 103."""
LONG_ENDING = ", long"


@dataclass(frozen=True, slots=True, eq=False)
class ExtensionCase:
    """A site under a budget.

    Attributes:
        sites: Makes the site of a seed.
        budget: ``still`` or ``moving``.
    """

    sites: Sites
    budget: str

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a placement on the site of a seed."""
        site = self.sites.draw(seed)
        found = site.devices
        rng = np.random.default_rng([seed, 20])
        jobs = draw_jobs(rng, found.apps, found.units, LOAD, JOBS)
        cap = budget(self.budget, SHARE * float(found.highest_w.max(axis=0).sum()), rng.uniform(0.0, DAY_S))
        policies = placements(site)

        def trial(name: str) -> TrialFigures:
            run = run_on(found, jobs, policies[name], cap, split=name == LONG)
            more = joint_figures(run, found) if name == OWN else {}
            figures = {**run_figures(run), "joint_saved_percent": np.nan, "bound_saved_percent": np.nan,
                       "together_percent": np.nan, **more}  # fmt: skip
            return TrialFigures.of(run, figures)

        return trial


def budget(kind: str, mean_w: float, phase_s: float) -> Cap:
    """Return the budget: one value, or a wave over the day in hourly steps with the same mean over a day."""
    if kind == STILL:
        return Cap.constant(mean_w)
    time_s = 3_600.0 * np.arange(24.0 * 30)
    return Cap(time_s, mean_w * (1.0 + SWING / SHARE * np.sin(2.0 * np.pi * (time_s + phase_s) / DAY_S)))


def placements(site: Site) -> dict[str, Policy]:
    """Return all policies. Each knows the mean watts of every application on the devices."""
    found, mean_w = site.devices, own_means(site)
    own = UnitWatts(table=found.table(found.known_w))
    learned = learn_factors(site.week, found.units)
    factors = {BENCHMARK: ratios(site.benchmark_w), TELEMETRY: learned.factor}
    policies = {
        BY_NUMBER: load_policy("slurm-vtp", estimator=own, placement="lowest"),
        OWN: load_policy("slurm-vtp", estimator=own),
        ORACLE: load_policy("slurm-ivp", estimator=OracleUnitWatts(table=found.table(found.true_w))),
    }
    for name, factor in factors.items():
        table = found.table(mean_w[:, np.newaxis] * factor)
        policies[name] = load_policy("slurm-prvp", estimator=UnitWatts(table=table))
    both = split_devices(found)
    rank = both.known_w / both.known_w.mean(axis=1, keepdims=True)
    short = len(found.apps)
    place = np.argsort(np.argsort(rank[short:], axis=1, kind="stable"), axis=1)
    rank[short:] = (place - round(KEPT * found.units)) % found.units
    names = both.apps
    order = np.argsort(names)
    sorted_both = replace(both.rows(order), apps=tuple(names[k] for k in order))
    policies[LONG] = load_policy(
        "slurm-vtp", estimator=UnitWatts(table=sorted_both.table(sorted_both.known_w)), placement=Ranked(rank[order])
    )
    return policies


def split_devices(found: Devices) -> Devices:
    """Return the devices with every application twice: for its long jobs, then for its short ones."""
    rows = np.tile(np.arange(len(found.apps)), 2)
    names = (*(f"{app}{LONG_ENDING}" for app in found.apps), *found.apps)
    return replace(found.rows(rows), apps=names)


def split_jobs(jobs: Jobs) -> Jobs:
    """Return the jobs, the long ones as applications of their own: by the users' time limits."""
    long = jobs.walltime_s > np.quantile(jobs.walltime_s, 1.0 - LONG_SHARE)
    names = jobs.app.values().astype(str)
    return replace(jobs, app=Labels.of(np.where(long, np.char.add(names, LONG_ENDING), names)))


def run_on(found: Devices, jobs: Jobs, policy: Policy, cap: Cap, *, split: bool) -> Run:
    """Simulate on the devices; with ``split`` long and short jobs are applications by themselves."""
    reference_s: Floats = found.true_s.mean(axis=1)
    machine = found.machine()
    if split:
        jobs, both = split_jobs(jobs), split_devices(found)
        rows = np.array([both.apps.index(name) for name in jobs.app.names])
        found, reference_s = replace(both.rows(rows), apps=jobs.app.names), np.tile(reference_s, 2)[rows]
    else:
        rows = np.array([found.apps.index(name) for name in jobs.app.names])
        found, reference_s = replace(found.rows(rows), apps=jobs.app.names), reference_s[rows]
    return simulate(jobs, machine, policy, cap=cap, actual=found.actual(jobs.app.codes, reference_s))
