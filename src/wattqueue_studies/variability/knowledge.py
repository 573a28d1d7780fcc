"""What is true of one draw of sockets, and what each policy knows of it: tables of watts by application and socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.physics import Physics, UnitFigures
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.estimator.oracle_unit_watts import OracleUnitWatts
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue_studies.sockets import COMPUTE_BOUND, PmcTrial, share_of_kinds
from wattqueue_studies.variability.codes import applications
from wattqueue_studies.variability.nodes import PER_NODE, SocketLimits, node_watts, sockets_used
from wattqueue_studies.variability.recording import recorded_watts

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
        whole_nodes: Whether the units are nodes of two sockets (``nodes``).
    """

    seed: int
    sockets: int
    whole_nodes: bool = False

    @cached_property
    def trial(self) -> PmcTrial:
        """Return the draw, as ``study pmc`` makes it: the same sockets, recordings and models."""
        return PmcTrial(self.seed, self.sockets)

    @cached_property
    def true_w(self) -> Mapping[str, Floats]:
        """Return the true mean watts of each application on each socket, over its processes. Shapes (sockets,)."""
        return {app: share_of_kinds(applications()[app]) @ t.mean_w for app, t in self.trial.truth.items()}

    def true_factor(self, jobs: Jobs) -> Floats:
        """Return true watts over those of the jobs' profiles, which are of average chips. Shape (apps, units)."""
        factor: Floats = self._true_units(jobs) / self._profile_w(samples_of(jobs), np.mean)
        return factor

    def physics(self, jobs: Jobs) -> Physics:
        """Return what jobs truly draw: the watts of their applications on every unit. Run times are the same on all."""
        watts = self._of_units(jobs.app.names, self._true_units(jobs))
        return Physics(units=UnitFigures("watts of generated sockets", "sockets", watts=watts), where="sockets")

    def recorded_jobs(self, jobs: Jobs) -> Jobs:
        """Return jobs whose watts are those that these units draw on average, as a recording of them would state."""
        mean = self.true_factor(jobs).mean(axis=1)[jobs.app.codes]
        return replace(jobs, mean_power_w=np.asarray(jobs.mean_power_w) * mean)

    @cached_property
    def by_benchmark(self) -> list[int]:
        """Return the units by their watts of the compute-bound benchmark, the least first."""
        order: list[int] = np.argsort(self._benchmark_w[0], kind="stable").tolist()
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

    def _true_units(self, jobs: Jobs) -> Floats:
        """Return the true watts of the jobs' applications on every unit. Shape (apps, units)."""
        names = jobs.app.names
        return self._on_units(names, np.stack([self.true_w[app] for app in names]))

    @cached_property
    def _benchmark_w(self) -> Floats:
        """Return the watts of the compute-bound benchmark on every unit. Shape (1, units)."""
        return self._on_units((COMPUTE_BOUND,), self.trial.kernels.mean_w(COMPUTE_BOUND)[np.newaxis])

    def policies(self, jobs: Jobs, backfill: str = "easy") -> dict[str, Policy]:
        """Return all policies, with the tables that they read and one backfill."""
        found = self._rows(jobs)
        part = load_policy(BASE, backfill=backfill).backfill
        return {name: replace(policy, backfill=part) for name, policy in found.items()}

    def _rows(self, jobs: Jobs) -> dict[str, Policy]:
        """Return all policies as their rows in policies.toml have them."""
        found = {BASE: load_policy(BASE, estimator=SocketLimits(nodes=self.units) if self.whole_nodes else None)}
        order = self.by_benchmark
        socket = dict(zip(PROFILES, (order[0], order[len(order) // 2], order[-1]), strict=True))
        benchmark = Benchmark(table=self._of_units((COMPUTE_BOUND,), self._benchmark_w), app=COMPUTE_BOUND)
        for name in PROFILED:
            row, _, profile = name.partition(", ")
            estimator = UnitWatts(table=self.recorded, profile_unit=socket[profile])
            found[name] = load_policy(row, estimator=estimator, placement=benchmark if row == "slurm-peva" else None)
        found |= {row: load_policy(row, estimator=UnitWatts(table=t)) for row, t in self.predicted.items()}
        samples = samples_of(jobs)
        peak = self.true_factor(jobs) * self._profile_w(samples, np.max)
        found[ORACLE] = load_policy(ORACLE, estimator=OracleUnitWatts(table=self._of_units(tuple(samples), peak)))
        return found

    @property
    def units(self) -> int:
        """Return the number of units."""
        return self.sockets // PER_NODE if self.whole_nodes else self.sockets

    def _profile_w(self, samples: Mapping[str, Floats], pick: Callable[[Floats], float]) -> Floats:
        """Return one figure of each application's samples, on an average unit. Shape (apps, 1)."""
        used = sockets_used(samples) if self.whole_nodes else np.ones(len(samples))
        figures = np.array([pick(s) for s in samples.values()])
        return np.asarray(used * figures, np.float64)[:, np.newaxis]

    def _on_units(self, apps: tuple[str, ...], watts: Floats) -> Floats:
        """Return watts on units from those on sockets. Shapes (A, sockets), (A, units)."""
        return node_watts(apps, watts) if self.whole_nodes else watts

    def _table(self, watts: Floats) -> UnitTable:
        """Return watts of all applications on sockets as a table of units. Shape (A, sockets)."""
        apps = tuple(applications())
        return self._of_units(apps, self._on_units(apps, watts))

    def _of_units(self, apps: tuple[str, ...], watts: Floats) -> UnitTable:
        """Return watts by application and unit as a table. Shape (A, units)."""
        kind = "node" if self.whole_nodes else "socket"
        return UnitTable.of_watts(apps, [f"{kind}{k}" for k in range(self.units)], watts, "generated")


def samples_of(jobs: Jobs) -> dict[str, Floats]:
    """Return the watts of one average socket over a run, by application, in the order of the jobs' table.

    Raises: InputError for jobs without profiles.
    """
    profiles = jobs.profiles
    if profiles is None:
        raise InputError("no job carries a power profile", hint="add watts to the traffic")
    bounds = zip(profiles.first[:-1], profiles.first[1:], strict=True)
    return {app: profiles.level[a:b].astype(np.float64) for app, (a, b) in zip(jobs.app.names, bounds, strict=True)}
