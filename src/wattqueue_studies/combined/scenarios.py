"""One scenario for each of the five papers: its workload, machine and truth, its best row, and ``combined``.

What a site would know goes to ``combined`` as ``[known]`` of the machine file: EAR's tables in paper 1's, predicted
watts of applications by socket in paper 2's. Options of the row are the same in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums, energies, job_figures, span
from wattqueue.model.physics import Physics
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import profile_power
from wattqueue.workload import lightesp, marconi
from wattqueue.workload.windows import busy_begins, cut
from wattqueue_studies.demand_response.trial import HIGH_W, machine_for, with_share
from wattqueue_studies.demand_response.trial import generate as target_jobs
from wattqueue_studies.eamc.workloads import profiles_from, systems, workload
from wattqueue_studies.epas.trial import CAPS_W, app_physics, e_pas, paper_machine
from wattqueue_studies.frame.samples import TrialFigures
from wattqueue_studies.powercap.cell import machine_of, window_cap
from wattqueue_studies.variability.codes import applications
from wattqueue_studies.variability.knowledge import Knowledge
from wattqueue_studies.variability.traffic import with_watts

COMBINED = "combined"
HOUR_S, DAY_S = 3_600.0, 86_400.0
Made = Callable[[], Policy]


@dataclass(frozen=True, eq=False)
class ScenarioWorld:
    """One draw of a scenario: what a run takes beside its policy, and the rows that are compared."""

    jobs: Jobs
    machine: Machine
    rows: Mapping[str, Made]
    """Policies by name; made for each run, since they learn."""
    cap: Cap = field(default_factory=Cap.none)
    targets: LoadTargets = field(default_factory=LoadTargets.none)
    physics: Physics | None = None
    past: Past | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    """What the site knows, by the options that name files in a row."""
    power: Callable[[Run], PowerSeries] = lambda run: run.power
    """Power that is compared with the cap: that of the jobs' phases, where the run had means."""
    capped_s: tuple[float, float] | None = None
    """When it is; None: from the first submission to the last end."""

    def trial(self, name: str) -> TrialFigures:
        """Simulate the paper's row, or ``combined`` (with changed choices behind a plus), and return its figures."""
        run = self.run(name)
        return TrialFigures.of(run, self.figures(run))

    def run(self, name: str) -> Run:
        """Simulate a row."""
        made = self.rows.get(name)
        policy = load_policy(name, machine=self.machine, known=self.known) if made is None else made()
        return simulate(
            self.jobs, self.machine, policy, cap=self.cap, targets=self.targets, actual=self.physics, past=self.past
        )

    def figures(self, run: Run) -> Mapping[str, float]:
        """Return energies, waits and what is above the cap."""
        begin, end = span(run.jobs, run.schedule)
        found, used = job_figures(run.jobs, run.schedule), energies(run.power, run.machine, begin, end)
        kept = cap_sums(self.power(run), run.machine, run.cap, *(self.capped_s or (begin, end)))
        return {
            "job_energy_j": float(np.nansum(run.schedule.energy_j)),
            "machine_energy_j": used["machine_j"],
            "wait_s": float(np.nanmean(found.wait_s)),
            "wait_p99_s": float(np.nanquantile(found.wait_s, 0.99)),
            "slowdown": float(np.nanmean(found.bounded_slowdown)),
            "turnaround_s": float(np.nanmean(found.turnaround_s)),
            "makespan_s": end - begin,
            "over_s": kept.over_s,
            "over_j": kept.over_j,
            "never_ran": float((~run.schedule.ran).sum()),
        }


def partitions_and_clocks(seed: int) -> ScenarioWorld:
    """Paper 1: two partitions that differ, jobs of eight applications by Table 1, no cap."""
    profiles = profiles_from(None, None)
    system = systems(profiles)["p1/p2"]
    rows = {name: lambda name=name: load_policy(name, estimator=system.estimator) for name in EAMC}
    return ScenarioWorld(
        workload(13, seed), system.machine, rows, physics=system.physics, known={"profiles": profiles},
    )  # fmt: skip


EAMC = ("eamc-priority-inc", "eamc-priority-inc-1.5", "eamc-reorder", "eamc-priority-inc-v")
BUDGET_W = 10_000.0
JOBS, LENGTH_S = 400, (45.0, 350.0)
"""Jobs of paper 2's scenario, and the range of their run times: those of its 16 applications."""


def chips_that_differ(seed: int) -> ScenarioWorld:
    """Paper 2: sockets that differ under a budget; watts of each application on each are predicted (VT)."""
    known, rng = Knowledge(seed, 256), np.random.default_rng([seed, 30])
    names = rng.choice(sorted(applications()), JOBS)
    processes = np.array([applications()[name].processes for name in names])
    plain = Jobs.build(
        np.sort(rng.uniform(0.0, 2 * HOUR_S, JOBS)), processes, rng.uniform(*LENGTH_S, JOBS), app=names.tolist(),
        origin="generated",
    )  # fmt: skip
    jobs = known.recorded_jobs(with_watts(plain))
    rows = {name: lambda name=name: known.policies(jobs)[name] for name in ("slurm-vtp", "slurm-prvp")}
    return ScenarioWorld(
        jobs, load_machine("quartz"), rows, Cap.constant(BUDGET_W), physics=known.physics(jobs),
        known={"table": known.predicted["slurm-vtp"]}, power=profile_power,
    )  # fmt: skip


def measured_sockets(seed: int) -> ScenarioWorld:
    """Paper 3: cores and sockets under a cap, with sensors and limits; every job may run at any clock."""
    machine = paper_machine("bull", 0.3)
    jobs = lightesp.generate(np.random.default_rng(seed), nodes=machine.units)
    clocks, n = machine.partitions[0].frequencies_hz, len(jobs)
    window = {"frequency_min_hz": np.full(n, clocks[-1]), "frequency_max_hz": np.full(n, clocks[0])}
    jobs = replace(jobs, extra={**jobs.extra, **window})
    rows = {"e-pas-intel": lambda: e_pas("bull")["e-pas-intel"]}
    return ScenarioWorld(jobs, machine, rows, Cap.constant(CAPS_W["bull"]), physics=app_physics(machine))


TRACE_DAYS, WARM_DAYS, WINDOW_DAYS = 60.0, 30.0, 3.0
"""Days of the trace of paper 4's scenario, before its window begins, and of the window."""
CAP_PERCENT = 40.0


def capped_hours(seed: int) -> ScenarioWorld:
    """Paper 4: three days of a generated trace, the first three hours under a cap."""
    jobs, end_s = _replayed(seed)
    machine = machine_of(load_machine("marconi100").partitions[0].idle_w)
    begin = busy_begins(
        np.random.default_rng([seed, 6]), jobs, end_s, count=1, nodes=2.0 * machine.units, days=WINDOW_DAYS,
        warm_days=WARM_DAYS, apart_days=WINDOW_DAYS,
    )[0]  # fmt: skip
    window = cut(jobs, end_s, float(begin), WINDOW_DAYS)
    until = window.begin_s + 3 * HOUR_S
    rows = {name: lambda name=name: load_policy(name) for name in ("easy+pc-mean", "easy+pc-max")}
    return ScenarioWorld(
        window.jobs, machine, rows, window_cap(window.begin_s, CAP_PERCENT), past=window.past,
        power=lambda run: profile_power(run, begin_s=window.begin_s, end_s=until), capped_s=(window.begin_s, until),
    )  # fmt: skip


@lru_cache(2)
def _replayed(seed: int) -> tuple[Jobs, Any]:
    """Return a trace and its ends under EASY without a cap."""
    machine = load_machine("marconi100")
    jobs = marconi.generate(np.random.default_rng(seed), days=TRACE_DAYS, load=0.9, nodes=machine.units)
    return jobs, simulate(jobs, machine, load_policy("easy")).schedule.end_s


TARGET_W, CUBIC, SHARE = 407e3, 3.0, 0.75
TARGET_H = (9.0, 17.0)


def load_target(seed: int) -> ScenarioWorld:
    """Paper 5: short jobs, a load target for eight hours, three quarters of the jobs may be slowed."""
    jobs, place = target_jobs("2", seed)
    machine = machine_for(TARGET_W, CUBIC)
    begin_s, end_s = (hour * HOUR_S for hour in TARGET_H)
    rows = {name: lambda name=name: load_policy(name) for name in ("dr-fcfs", "dr-fcfs-at-start")}
    return ScenarioWorld(
        with_share(jobs, place, SHARE), machine, rows, Cap.constant(HIGH_W),
        LoadTargets.of(LoadTarget(begin_s, end_s, TARGET_W)),
    )  # fmt: skip


SCENARIOS: Mapping[str, Callable[[int], ScenarioWorld]] = {
    "paper 1: partitions and clocks": partitions_and_clocks,
    "paper 2: sockets that differ": chips_that_differ,
    "paper 3: measured sockets": measured_sockets,
    "paper 4: capped hours": capped_hours,
    "paper 5: a load target": load_target,
}
"""By name; each makes the world of a seed."""
