"""One workload on one machine of paper 3 under its cap: every policy, and what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums, energies, job_figures, span
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.sim.engine import simulate
from wattqueue.study.frame.samples import Trial
from wattqueue.workload import lightesp
from wattqueue.workload.miniapps import APPS, LULESH, time_by_option, watts_by_option

CORES = 520
"""Cores of either machine, which jobs are given (section 5.2)."""
CAPS_W = {"bull": 4200.0, "montblanc": 2500.0}
"""Caps of section 5.2; 80 % of 5,200 and 3,120 W would be 4,160 and 2,496 W."""
BASE, ORACLE = "pas", "pas-true-watts"
"""The paper's baseline, and the same with the true watts of each job's application: an oracle."""
POLICIES = (BASE, "pas-no-backfill", "pas-highest", ORACLE)
"""What is simulated; e-pas-intel and e-pas-arm need the measured ledger."""


class MiniAppWatts:
    """An oracle: the true watts and times of each job's application at every option."""

    asked: Asked = "once"
    machine_figures: bool = False
    knows_future: bool = True

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return a row for each mini-application."""
        return true_figures(jobs.app.codes, machine)


class LuleshWatts:
    """What both algorithms predict (section 5.1): Lulesh's watts at each frequency, whatever the application."""

    asked: Asked = "once"
    machine_figures: bool = True

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return one row of watts that all jobs share, and the machine's time factors."""
        times = machine.option_time_factor[np.newaxis]
        return Prediction(watts_by_option(machine, LULESH)[np.newaxis], times, np.zeros(len(jobs), np.int32))


def paper_machine(name: str, idle_share: float) -> Machine:
    """Return bull or montblanc by cores, with idle watts as a share of the maximum and Lulesh's exponents."""
    machine = load_machine(name)
    part = machine.partitions[0]
    max_w = (part.max_w or 0.0) * part.units / CORES
    cores = replace(
        part,
        unit="core",
        idle_w=idle_share * max_w,
        max_w=max_w,
        dvfs_alpha=LULESH.alpha,
        dvfs_beta=LULESH.beta,
    )
    return replace(machine, partitions=(cores,))


def true_figures(app: np.ndarray[tuple[int], np.dtype[np.int32]], machine: Machine) -> Prediction:
    """Return true watts and times at every option; ``app`` are rows of ``miniapps.APPS``. Shape (n,)."""
    watts, times = (np.stack([of(machine, a) for a in APPS]) for of in (watts_by_option, time_by_option))
    return Prediction(watts, times, app)


def policies() -> dict[str, Policy]:
    """Return the policies by name. No node is switched off: the evaluation (section 5) does not mention it."""
    lulesh = LuleshWatts()
    return {
        BASE: load_policy("pas-any", estimator=lulesh, controls=[]),
        "pas-no-backfill": load_policy("pas-any", estimator=lulesh, backfill="none", controls=[]),
        "pas-highest": load_policy("pas", estimator=lulesh, controls=[]),
        ORACLE: load_policy("pas-any", estimator=MiniAppWatts(), controls=[]),
    }


@dataclass(frozen=True, slots=True)
class EspCase:
    """LightESP on one machine.

    Attributes:
        machine: Name of the machine.
        idle_share: Idle watts as a share of the maximum, which the paper does not state.
        divide: ESP's run times over those of the jobs.
    """

    machine: str
    idle_share: float
    divide: float = lightesp.DIVIDE

    @property
    def name(self) -> str:
        """Return the name of the setting."""
        return f"{self.machine}, idle {100 * self.idle_share:g} %"

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a policy on the jobs of a seed."""
        machine = paper_machine(self.machine, self.idle_share)
        jobs = lightesp.generate(np.random.default_rng(seed), nodes=machine.units, divide=self.divide)
        found = policies()
        return lambda name: measured(jobs, machine, found[name], CAPS_W[self.machine])


def measured(jobs: Jobs, machine: Machine, policy: Policy, cap_w: float) -> Mapping[str, float]:
    """Simulate and return the figures of a run; energies are of all cores, idle ones included."""
    cap = Cap.constant(cap_w)
    run = simulate(jobs, machine, policy, cap=cap, actual=true_figures(jobs.app.codes, machine))
    begin, end = span(jobs, run.schedule)
    figures, kept = job_figures(jobs, run.schedule), cap_sums(run.power, machine, cap, begin, end)
    used = energies(run.power, machine, begin, end)
    ran = run.schedule.ran
    estimated_j = float((run.schedule.predicted_w * (run.schedule.end_s - run.schedule.start_s))[ran].sum())
    return {
        "makespan_s": end - begin,
        "wait_s": float(np.nanmean(figures.wait_s)),
        "energy_j": used["machine_j"],
        "utilization_percent": 100.0 * used["busy_unit_s"] / (machine.units * (end - begin)),
        "power_percent": 100.0 * kept.used_j / kept.allowed_j,
        "gap_percent": 100.0 * (estimated_j - used["jobs_j"]) / kept.allowed_j,
        "over_s": kept.over_s,
        "rejected": float((~ran).sum()),
    }
