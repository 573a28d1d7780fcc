"""What is true of one draw of sockets, and what each policy knows of it: tables of watts by application and socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.estimator.oracle_unit_watts import OracleUnitWatts
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.study.sockets import COMPUTE_BOUND, PmcTrial, share_of_kinds
from wattqueue.workload.variability.codes import applications
from wattqueue.workload.variability.recording import recorded_watts

BASE = "slurm-extended"
"""Row that all others are compared with; every socket counts 115 W."""
PROFILES = ("best", "median", "worst")
"""Sockets on which PE and PEVA profiled every application, by their watts of cholesky."""
PROFILED = tuple(f"{row}, {socket}" for row in ("slurm-pe", "slurm-peva") for socket in PROFILES)
"""PE and PEVA, the profile socket behind the name of the row."""
MODELS = {"slurm-prvp": "PR-CB", "slurm-vtp": "VT"}
"""Rows with a prediction of every socket, and its model."""
ORACLE = "slurm-ivp"
POLICIES = (BASE, *PROFILED, *MODELS, ORACLE)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """One draw of sockets with what every policy knows of it.

    Attributes:
        seed: Seed of sockets, recordings and noise.
        sockets: Number of sockets.
    """

    seed: int
    sockets: int

    @cached_property
    def trial(self) -> PmcTrial:
        """Return the draw, as ``study pmc`` makes it: the same sockets, recordings and models."""
        return PmcTrial(self.seed, self.sockets)

    @cached_property
    def true_w(self) -> Mapping[str, Floats]:
        """Return the true mean watts of each application on each socket, over its processes. Shapes (sockets,)."""
        return {app: share_of_kinds(applications()[app]) @ t.mean_w for app, t in self.trial.truth.items()}

    def true_factor(self, jobs: Jobs) -> Floats:
        """Return true watts over those of the jobs' profiles, which are of average chips. Shape (apps, sockets)."""
        return np.stack([self.true_w[app] / samples.mean() for app, samples in samples_of(jobs).items()])

    @cached_property
    def by_benchmark(self) -> list[int]:
        """Return the sockets by their watts of the compute-bound benchmark, the least first."""
        order: list[int] = np.argsort(self.trial.kernels.mean_w(COMPUTE_BOUND), kind="stable").tolist()
        return order

    @cached_property
    def recorded(self) -> UnitTable:
        """Return the highest second that a run of each application shows on each socket."""
        rng = np.random.default_rng([self.seed, 8])
        peaks = [
            share_of_kinds(code)
            @ np.stack([recorded_watts(rng, code, self.trial.chips, kind).max(axis=0) for kind in range(code.kinds)])
            for code in applications().values()
        ]
        return self._table(np.stack(peaks))

    @cached_property
    def predicted(self) -> Mapping[str, UnitTable]:
        """Return the predicted highest second of each application on each socket, by row."""
        found = {}
        for row, model in MODELS.items():
            each = self.trial.predict(model)
            found[row] = self._table(np.stack([share_of_kinds(applications()[a]) @ w.peak_w for a, w in each.items()]))
        return found

    def policies(self, jobs: Jobs) -> dict[str, Policy]:
        """Return all policies, with the tables that they read."""
        found = {BASE: load_policy(BASE)}
        order = self.by_benchmark
        socket = dict(zip(PROFILES, (order[0], order[len(order) // 2], order[-1]), strict=True))
        watts = self.trial.kernels.mean_w(COMPUTE_BOUND)[np.newaxis]
        benchmark = Benchmark(table=self._table(watts, (COMPUTE_BOUND,)), app=COMPUTE_BOUND)
        for name in PROFILED:
            row, _, profile = name.partition(", ")
            estimator = UnitWatts(table=self.recorded, profile_unit=socket[profile])
            found[name] = load_policy(row, estimator=estimator, placement=benchmark if row == "slurm-peva" else None)
        found |= {row: load_policy(row, estimator=UnitWatts(table=t)) for row, t in self.predicted.items()}
        samples = samples_of(jobs)
        peak = self.true_factor(jobs) * np.array([s.max() for s in samples.values()])[:, np.newaxis]
        found[ORACLE] = load_policy(ORACLE, estimator=OracleUnitWatts(table=self._table(peak, tuple(samples))))
        return found

    def _table(self, watts: Floats, apps: tuple[str, ...] | None = None) -> UnitTable:
        """Return watts by application and socket as a table. Shape (A, sockets)."""
        names = [f"socket{k}" for k in range(self.sockets)]
        return UnitTable.of_watts(apps or tuple(applications()), names, watts, "generated")


def samples_of(jobs: Jobs) -> dict[str, Floats]:
    """Return the watts of one average socket over a run, by application, in the order of the jobs' table.

    Raises: InputError for jobs without profiles.
    """
    profiles = jobs.profiles
    if profiles is None:
        raise InputError("no job carries a power profile", hint="add watts to the traffic")
    bounds = zip(profiles.first[:-1], profiles.first[1:], strict=True)
    return {app: profiles.level[a:b].astype(np.float64) for app, (a, b) in zip(jobs.app.names, bounds, strict=True)}
