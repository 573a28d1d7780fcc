"""Machines and workloads of paper 1, and the measures of one simulation.

In the paper prediction and truth are one: the scheduler uses the same profiles from which the simulation computes
energy. The profiles of a system's estimator are therefore its physics, too; with an error they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError, InputError
from wattqueue.formats.ear.files import EarTables, read_tables_csv
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.app_profiles import AppProfiles
from wattqueue.model.eamc_table1 import PARTITIONS, table1_profiles
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Cells, Physics
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.efficiency import choose, part_eff
from wattqueue.parts.estimator.ear import Ear
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.eamc.cirne import CirneModel, generate
from wattqueue_studies.frame.samples import Trial, TrialFigures

SYSTEMS = {"p1/p2": "eamc-p1p2", "p1/p3": "eamc-p1p3"}
"""Machines of the catalogue. Idle nodes count nothing, as in the paper's sums of job energy."""
CONSERVATIVE: Mapping[str, Any] = {"part": "conservative", "queue_depth": 1000, "pass_interval_s": 300.0}
"""Backfilling by section 4.2.1: holes that higher entries reserve stay reserved, for as many entries as in the
published code (``bf_queue_limit``). A pass each 5 min instead of its 23 s takes a quarter of the time; on one seed
responses are 9 to 12 % longer than with 30 s, and those of EAMC over min-runtime differ by 1 to 2 points."""
PLAIN: Mapping[str, tuple[str, Mapping[str, Any]]] = {}
"""No variants of policies."""


@dataclass(frozen=True, slots=True)
class System:
    """A machine, and the profiles of its applications as prediction and as truth."""

    name: str
    """Name in the paper: p1/p2 or p1/p3."""
    machine: Machine
    """The machine."""
    estimator: Ear
    """Watts and times by option as they are predicted."""
    physics: Physics
    """What jobs truly draw and take: the same profiles."""

    @classmethod
    def of(cls, name: str, machine: Machine, profiles: AppProfiles) -> Self:
        """Return a system whose prediction and truth are profiles of its partitions."""
        cells = Cells.of_profiles(profiles.among([p.name for p in machine.partitions]), profiles.source, name)
        physics = Physics((cells,), reference=machine.partitions[0].name, where=name)
        return cls(name, machine, Ear(profiles=profiles), physics)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return the names of the partitions."""
        return tuple(p.name for p in self.machine.partitions)

    def predict(self, jobs: Jobs) -> Prediction:
        """Return watts and times of jobs by option, as predicted."""
        return self.estimator.predict(KnownJobs.of(jobs), self.machine)


def tables_from(coefficients: Path | None, apps: Path | None) -> EarTables | None:
    """Return EAR's coefficients and metrics of p1 and p2, None if no files are given.

    Raises: InputError if only one of the files is given, they do not belong together, or they hold no p1 and p2.
    """
    if coefficients is None and apps is None:
        return None
    if coefficients is None or apps is None:
        hint = "--coefficients C --apps A"
        raise InputError("the study needs both files, or none", where="--coefficients, --apps", hint=hint)
    return read_tables_csv(coefficients, apps, PARTITIONS[:2])


def profiles_from(coefficients: Path | None, apps: Path | None) -> AppProfiles:
    """Return the profiles of p1, p2 and p3 by files, or by Table 1 without them (``tables_from``, ``profiles_of``)."""
    return profiles_of(tables_from(coefficients, apps))


def profiles_of(tables: EarTables | None) -> AppProfiles:
    """Return profiles of p1, p2 and p3: the first two by EAR's coefficients if there are any, else all by Table 1.

    Raises: InputError for other applications than the study's.
    """
    if tables is None:
        return table1_profiles()
    found = tables.profiles()
    table1 = table1_profiles(("p3",))
    if found.apps != table1.apps:
        raise InputError(f"applications {', '.join(found.apps)}: the study's are 1 to 8", where="--apps")
    source = "p1, p2: EAR coefficients; p3: Table 1 of the paper (slope of watts assumed)"
    return AppProfiles(found.apps, {**found.hardware, **table1.hardware}, source)


def systems(profiles: AppProfiles) -> dict[str, System]:
    """Return p1/p2 and p1/p3, each partition at the frequencies that have a profile."""
    built = {}
    for name, machine in SYSTEMS.items():
        base = load_machine(machine)
        parts = tuple(
            replace(p, frequencies_hz=tuple(profiles.on(p.name).frequency_hz.tolist())) for p in base.partitions
        )
        # cap_scope of these machines is "jobs" (rule 14 of docs/semantics.md): a cap covers running jobs only.
        built[name] = System.of(name, replace(base, partitions=parts), profiles)
    return built


@dataclass(frozen=True, slots=True)
class Case:
    """One workload of the sweep."""

    system: System
    """Machine, prediction and truth."""
    share: int
    """Per cent of jobs that run application 8; 13 is the even draw of all eight."""
    cap: Cap | None = None
    """A cap, in watts."""
    predict: Ear | None = None
    """Estimator of the policies, if it is not the truth."""
    model: CirneModel | None = None
    """Parameters of the workloads, instead of those of the study."""
    backfill: Mapping[str, Any] | None = None
    """Backfilling of all policies, None for that of their rows (EASY)."""
    variants: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=lambda: PLAIN)
    """Policies that are no row: the row that they vary, and its changed parts."""
    error: float = 0.0
    """By how much the truth differs from the profiles (rule 21 of docs/semantics.md); drawn by the workload's seed."""

    def draw(self, seed: int) -> Trial:
        """Generate the workload of one seed; the trial simulates it under a policy."""
        jobs = workload(self.share, seed, self.model)
        truth = replace(self.system.physics, error=self.error, seed=seed)
        favoured = favoured_partition(self.system.predict(jobs), self.system, len(jobs))

        def trial(name: str) -> TrialFigures:
            row, parts = self.variants.get(name, (name, {}))
            if self.backfill is not None:
                parts = {**parts, "backfill": self.backfill}
            policy = load_policy(row, estimator=self.predict or self.system.estimator, **parts)
            run = simulate(jobs, self.system.machine, policy, cap=self.cap, actual=truth)
            return TrialFigures.of(run, measures(run, favoured))

        return trial


def paper_cases(
    both: dict[str, System], model: CirneModel | None = None, backfill: Mapping[str, Any] | None = None
) -> dict[str, Case]:
    """Return the paper's four workloads by name: three shares of STREAM on p1/p2, the even draw on p1/p3."""
    cases = (("p1/p2", 13), ("p1/p2", 33), ("p1/p2", 50), ("p1/p3", 13))
    return {f"{name}, {share} %": Case(both[name], share, model=model, backfill=backfill) for name, share in cases}


def setting_names(setting: str) -> dict[str, str | int]:
    """Return system and share of a setting's name."""
    system, share = setting.removesuffix(" %").split(", ")
    return {"system": system, "share": int(share)}


def workload(share: int, seed: int, model: CirneModel | None = None) -> Jobs:
    """Generate the workload of one seed; sizes, durations and arrivals are the same for every share."""
    return generate(model or CirneModel(), np.random.default_rng(seed), None if share == 13 else share / 100)


def favoured_partition(prediction: Prediction, system: System, n: int) -> NDArray[np.int64]:
    """Return the partition of least part_eff of each job, with equal weights of time and energy. Shape (n,)."""
    best = np.argmin(part_eff(choose(prediction, system.machine, "distance"), 1.0), 1)
    favoured: NDArray[np.int64] = best[prediction.rows(np.arange(n, dtype=np.int32))]
    return favoured


def measures(run: Run, favoured: NDArray[np.int64]) -> dict[str, float]:
    """Return the paper's metrics of one run.

    Energy and run times are sums over jobs, idle nodes left out; frequencies are means over jobs;
    ``_p1`` and so on are over the jobs that ran in that partition, but ``best_partition_percent_p2``
    is over those whose best partition it is. ``imbalance_percent`` is the difference of the responses on
    the two partitions, of the mean response; ``energy_of_second`` is the energy of the second partition over that of
    the first.

    Raises: EngineError where a job did not run.
    """
    schedule, machine, jobs = run.schedule, run.machine, run.jobs
    if not schedule.ran.all():
        raise EngineError(f"{int((~schedule.ran).sum())} jobs did not run")
    took = machine.option_partition[schedule.option]
    turnaround, wait = schedule.end_s - jobs.submit_s, schedule.start_s - jobs.submit_s
    ghz = machine.option_frequency_hz[schedule.option] / 1e9
    on_best = took == favoured
    found = {
        "makespan_s": float(schedule.end_s.max() - jobs.submit_s.min()),
        "turnaround_s_mean": float(turnaround.mean()),
        "wait_s_mean": float(wait.mean()),
        "wait_s_p95": float(np.quantile(wait, 0.95)),
        "wait_s_p99": float(np.quantile(wait, 0.99)),
        "wait_s_max": float(wait.max()),
        "runtime_s_sum": float((schedule.end_s - schedule.start_s).sum()),
        "job_energy_j": float(schedule.energy_j.sum()),
        "frequency_ghz_mean": float(ghz.mean()),
        "best_partition_percent": 100 * float(on_best.mean()),
    }
    for p, part in enumerate(machine.partitions):
        here, wants = took == p, favoured == p
        found[f"turnaround_s_mean_{part.name}"] = _mean(turnaround[here])
        found[f"job_energy_j_{part.name}"] = float(schedule.energy_j[here].sum())
        found[f"frequency_ghz_mean_{part.name}"] = _mean(ghz[here])
        found[f"best_partition_percent_{part.name}"] = 100 * _mean(on_best[wants])
    here, there = (_mean(turnaround[took == p]) for p in range(2))
    found["imbalance_percent"] = 100.0 * abs(here - there) / float(turnaround.mean())
    first, second = (found[f"job_energy_j_{part.name}"] for part in machine.partitions[:2])
    found["energy_of_second"] = second / first if first else float("nan")
    return found


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    """Return the mean, NaN for a partition that ran nothing."""
    return float(values.mean()) if len(values) else float("nan")
