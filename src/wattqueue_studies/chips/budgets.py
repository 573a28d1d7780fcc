"""One application on measured devices under one budget: the policies of paper 2, one benchmark against an own rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums, energies, job_figures, span
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.estimator.oracle_unit_watts import OracleUnitWatts
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.chips.devices import Devices, draw_jobs
from wattqueue_studies.frame.samples import Trial, TrialFigures

SHARES = (0.6, 0.7, 0.8, 0.9, 1.0)
"""Budgets, as shares of the sum over devices of their highest watts under the application."""
LOAD = 0.8
BASE, ORACLE = "slurm-extended", "slurm-ivp"
PROFILES = ("best", "median", "worst")
"""Devices on which PE profiles, by their watts under the benchmark; PEVA and PRVP take the median one."""
PE = tuple(f"slurm-pe, {profile}" for profile in PROFILES)
ONE_RANK = "one rank, own mean"
"""As PRVP, with the application's mean watts over all devices known: the rank alone is the benchmark's."""
POLICIES = (BASE, *PE, "slurm-peva", "slurm-prvp", ONE_RANK, "slurm-vtp", ORACLE)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceBudget:
    """An application under a budget, with another one as the benchmark.

    Attributes:
        devices: The devices, with both applications.
        app: The application that runs.
        benchmark: The application that all devices are ranked and predicted by.
        share: The budget over the sum of the devices' highest watts.
    """

    devices: Devices
    app: str
    benchmark: str
    share: float

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a policy: jobs are drawn, and the devices are numbered at random."""
        rng = np.random.default_rng([seed, 15])
        numbered = self.devices.take(rng.permutation(self.devices.units))
        own = numbered.only(self.app)
        jobs = draw_jobs(rng, (self.app,), own.units, LOAD)
        policies = knowledge(own, numbered.only(self.benchmark))
        cap = Cap.constant(self.share * float(own.highest_w.sum()))
        actual = own.actual(jobs.app.codes, own.true_s.mean(axis=1))
        return lambda name: measured(jobs, own.machine(), policies[name], cap, actual)


def knowledge(own: Devices, benchmark: Devices) -> dict[str, Policy]:
    """Return all policies with what each knows of one application's watts. Even runs are known, the oracle knows all.

    PRVP has one profile of the application, on the median device, times the benchmark's ratio (eq. 2 of paper 2).
    """
    by_benchmark = benchmark.known_w[0]
    order = np.argsort(by_benchmark, kind="stable")
    unit = dict(zip(PROFILES, (order[0], order[len(order) // 2], order[-1]), strict=True))
    ratio: Floats = by_benchmark / by_benchmark[unit["median"]]
    table = own.table(own.known_w)
    found = {BASE: load_policy(BASE)}
    for name, profile in zip(PE, PROFILES, strict=True):
        found[name] = load_policy("slurm-pe", estimator=UnitWatts(table=table, profile_unit=int(unit[profile])))
    found["slurm-peva"] = load_policy(
        "slurm-peva",
        estimator=UnitWatts(table=table, profile_unit=int(unit["median"])),
        placement=Benchmark(table=benchmark.table(benchmark.known_w), app=benchmark.apps[0]),
    )
    predicted = own.table(own.known_w[:, [unit["median"]]] * ratio)
    found["slurm-prvp"] = load_policy("slurm-prvp", estimator=UnitWatts(table=predicted))
    scaled = own.table(own.known_w.mean() * ratio[np.newaxis] / ratio.mean())
    found[ONE_RANK] = load_policy("slurm-prvp", estimator=UnitWatts(table=scaled))
    found["slurm-vtp"] = load_policy("slurm-vtp", estimator=UnitWatts(table=table))
    found[ORACLE] = load_policy(ORACLE, estimator=OracleUnitWatts(table=own.table(own.true_w)))
    return found


def measured(jobs: Jobs, machine: Machine, policy: Policy, cap: Cap, actual: Prediction) -> TrialFigures:
    """Simulate and return the figures of a run. Watts of a run are steady: no phases are recorded."""
    run = simulate(jobs, machine, policy, cap=cap, actual=actual)
    return TrialFigures.of(run, run_figures(run))


def run_figures(run: Run) -> Mapping[str, float]:
    """Return the figures of a run."""
    jobs, machine, cap = run.jobs, run.machine, run.cap
    begin, end = span(jobs, run.schedule)
    kept = cap_sums(run.power, machine, cap, begin, end)
    figures = job_figures(jobs, run.schedule)
    highest = Steps(run.power.time_s, run.power.jobs_w).maximum(begin, end)
    ceiling = float(cap.cap_w.max())
    return {
        "turnaround_s": float(np.nanmean(figures.turnaround_s)),
        "run_s": float(np.nanmean(figures.run_s)),
        "makespan_s": end - begin,
        "energy_j": energies(run.power, machine, begin, end)["jobs_j"],
        "over_percent": 100.0 * (highest / ceiling - 1.0) if cap.limited else 0.0,
        "above": 100.0 * (kept.over_s > 0),
        "over_s": kept.over_s,
        "over_j": kept.over_j,
        "dropped": float((~run.schedule.ran).sum()),
    }


def cases(found: Devices) -> Iterator[tuple[str, DeviceBudget]]:
    """Yield all cases of a pair by name: each application with the other as benchmark, under all budgets."""
    for app, benchmark in (found.apps, found.apps[::-1]):
        for share in SHARES:
            yield setting(app, benchmark, share), DeviceBudget(found, app, benchmark, share)


def setting(app: str, benchmark: str, share: float) -> str:
    """Return the name of a case."""
    return f"{app} by {benchmark}, {100 * share:.0f} %"
