"""All simulations of the study: systems x shares x policies x seeds, and the measures of each.

A task is one workload (case, seed) under all policies, so that a workload is generated once and policies are compared
on the same jobs. Results do not depend on the number of threads: each task draws from its own seed, and rows are
assembled in the order of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.efficiency import choose, part_eff
from wattqueue.parts.estimator.ear import Ear
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.study.eamc.systems import System
from wattqueue.workload.cirne import CirneModel, generate

EAMC = ("eamc-reorder", "eamc-priority-inc", "eamc-priority-inc-v")
"""The paper's variants of EAMC."""
POLICIES = ("base-slurm", "min-runtime", "min-energy", *EAMC, *(f"{name}-1.5" for name in EAMC))
"""The paper's policies, both weights."""
READINGS = ("eamc-priority-inc-v-absolute", "eamc-priority-inc-v-code")
"""Further readings of the threshold."""
CONSERVATIVE = tuple(
    f"{name}-conservative" for name in ("base-slurm", "min-runtime", "min-energy", "eamc-priority-inc")
)
"""Policies with conservative backfilling in place of EASY."""

Progress = Callable[[int, int], None]
"""Called with (finished, all) simulations."""


@dataclass(frozen=True, slots=True)
class Case:
    """One workload of the sweep."""

    system: System
    """Machine and true profiles."""
    share: int
    """Per cent of jobs that run application 8."""
    cap: Cap | None = None
    """A cap, in watts."""
    predict: Ear | None = None
    """Estimator of the policies, if it is not the truth."""


@dataclass(frozen=True, slots=True, eq=False)
class SeedValues:
    """One metric of one policy on one workload, seed by seed."""

    system: str
    """Name of the system."""
    share: int
    """Per cent of jobs that run application 8."""
    policy: str
    """Name of the policy."""
    metric: str
    """Name of the metric, as ``measures`` gives it."""
    values: NDArray[np.float64]
    """Its values in the order of the seeds. Shape (seeds,)."""


def workload(share: int, seed: int, model: CirneModel | None = None) -> Jobs:
    """Generate the workload of one seed; sizes, durations and arrivals are the same for every share."""
    rng = np.random.default_rng(seed)
    return generate(model or CirneModel(), rng, None if share == 13 else share / 100)


def sweep(
    cases: Sequence[Case],
    policies: Sequence[str],
    seeds: Sequence[int],
    *,
    threads: int = 2,
    model: CirneModel | None = None,
    progress: Progress | None = None,
) -> list[SeedValues]:
    """Simulate every case under every policy for every seed; samples in the order of cases, policies, metrics.

    Args:
        cases: Workloads.
        policies: Names of policies; each is loaded with the case's estimator.
        seeds: Seeds of the workloads.
        threads: Simulations at a time.
        model: Parameters of the workloads, instead of those of the study.
        progress: Called with (finished, all) simulations.

    Raises: EngineError where a job did not run.
    """
    ready = [[(p, load_policy(p, estimator=c.predict or c.system.estimator)) for p in policies] for c in cases]
    tasks = [(c, seed) for c in range(len(cases)) for seed in seeds]
    done: list[dict[str, dict[str, float]]] = []
    stop = Event()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for i, result in enumerate(
                pool.map(lambda t: _one_workload(cases[t[0]], t[1], ready[t[0]], model, stop), tasks)
            ):
                done.append(result)
                if progress:
                    progress((i + 1) * len(policies), len(tasks) * len(policies))
        finally:
            stop.set()  # on Ctrl-C, leaving the pool waits for its threads: they end after the current simulation
    samples = []
    for c, case in enumerate(cases):
        runs = done[c * len(seeds) : (c + 1) * len(seeds)]
        for policy in policies:
            samples += [
                SeedValues(
                    case.system.name, case.share, policy, metric, np.array([run[policy][metric] for run in runs])
                )
                for metric in runs[0][policy]
            ]
    return samples


def _one_workload(
    case: Case, seed: int, policies: Sequence[tuple[str, Policy]], model: CirneModel | None, stop: Event
) -> dict[str, dict[str, float]]:
    """Simulate one workload under all policies and return the measures by policy; fewer once ``stop`` is set."""
    jobs = workload(case.share, seed, model)
    actual = case.system.estimator.predict(jobs_for(case.system.estimator, jobs), case.system.machine)
    favoured = favoured_partition(actual, case.system, len(jobs))
    return {
        name: measures(simulate(jobs, case.system.machine, policy, cap=case.cap, actual=actual), favoured)
        for name, policy in policies
        if not stop.is_set()
    }


def favoured_partition(prediction: Prediction, system: System, n: int) -> NDArray[np.int64]:
    """Return the partition of least part_eff of each job, with equal weights of time and energy. Shape (n,)."""
    best = np.argmin(part_eff(choose(prediction, system.machine, "distance"), 1.0), 1)
    favoured: NDArray[np.int64] = best[prediction.rows(np.arange(n, dtype=np.int32))]
    return favoured


def measures(run: Run, favoured: NDArray[np.int64]) -> dict[str, float]:
    """Return the paper's metrics of one run.

    Energy and run times are sums over jobs, idle nodes left out; frequencies are means over jobs;
    ``_p1`` and so on are over the jobs that ran in that partition, but ``best_partition_percent_p2``
    is over those whose best partition it is.

    Raises: EngineError where a job did not run.
    """
    schedule, machine, jobs = run.schedule, run.machine, run.jobs
    if not schedule.ran.all():
        raise EngineError(f"{int((~schedule.ran).sum())} jobs did not run")
    took = machine.option_partition[schedule.option]
    turnaround = schedule.end_s - jobs.submit_s
    ghz = machine.option_frequency_hz[schedule.option] / 1e9
    on_best = took == favoured
    found = {
        "makespan_s": float(schedule.end_s.max() - jobs.submit_s.min()),
        "turnaround_s_mean": float(turnaround.mean()),
        "wait_s_mean": float((schedule.start_s - jobs.submit_s).mean()),
        "runtime_s_sum": float((schedule.end_s - schedule.start_s).sum()),
        "job_energy_j": float(schedule.energy_j.sum()),
        "frequency_ghz_mean": float(ghz.mean()),
        "best_partition_percent": 100 * float(on_best.mean()),
    }
    for p, part in enumerate(machine.partitions):
        here, wants = took == p, favoured == p
        found[f"turnaround_s_mean_{part.name}"] = _mean(turnaround[here])
        found[f"frequency_ghz_mean_{part.name}"] = _mean(ghz[here])
        found[f"best_partition_percent_{part.name}"] = 100 * _mean(on_best[wants])
    return found


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    """Return the mean, NaN for a partition that ran nothing."""
    return float(values.mean()) if len(values) else float("nan")


def by_key(samples: Sequence[SeedValues]) -> Mapping[tuple[str, int, str, str], NDArray[np.float64]]:
    """Return values by (system, share, policy, metric)."""
    return {(s.system, s.share, s.policy, s.metric): s.values for s in samples}
