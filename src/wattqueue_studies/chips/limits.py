"""Two applications on measured devices under one limit of watts on each device: what placement wins in job time.

``simulate_devices`` makes all simulations on measured devices: under one budget, and under limits of each device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue_studies.chips import budgets
from wattqueue_studies.chips.budgets import measured
from wattqueue_studies.chips.devices import Devices, draw_jobs
from wattqueue_studies.frame.samples import Progress, Samples, Trial, sweep

SHARES = (0.6, 0.8, 1.0)
"""Limits, as shares of the mean over devices of their highest watts."""
LOADS = (0.4, 0.8)
BY_NUMBER, ORACLE = "by number", "own time (oracle)"
POLICIES = (BY_NUMBER, "one benchmark", "own time", "sensitive first", ORACLE)
"""Placements: numbers are random; watts of one application below the limit for both; each application by its own
time; the application whose time differs more takes the fast devices, the other one the slow ones; own true time."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A placement by given ranks.

    Attributes:
        table: Rank of each device for each application, low first. Shape (A, U).
    """

    table: Floats

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats:
        """Return the ranks."""
        return self.table


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLimit:
    """Two applications on devices with a limit.

    Attributes:
        devices: The devices without a limit of ours.
        benchmark: The application by whose watts one rank is made.
        share: The limit of a device over the mean of the devices' highest watts.
        load: Share of the devices that jobs ask for.
    """

    devices: Devices
    benchmark: str
    share: float
    load: float

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a placement: jobs are drawn, and the devices are numbered at random."""
        rng = np.random.default_rng([seed, 16])
        free = self.devices.take(rng.permutation(self.devices.units))
        limited = free.limited(self.share * float(free.highest_w.max(axis=0).mean()))
        jobs = draw_jobs(rng, free.apps, free.units, self.load)
        policies = placements(free, limited, self.benchmark)
        actual = limited.actual(jobs.app.codes, free.true_s.mean(axis=1))
        return lambda name: measured(jobs, limited.machine(), policies[name], Cap.none(), actual)


def placements(free: Devices, limited: Devices, benchmark: str) -> dict[str, Policy]:
    """Return EASY with each placement. Watts of the benchmark are known without a limit, times under it."""
    by_watts = free.known_w[free.apps.index(benchmark)]
    own = limited.known_s / limited.known_s.mean(axis=1, keepdims=True)
    differs = int(np.argmax(own.std(axis=1)))
    sign = np.where(np.arange(len(own)) == differs, 1.0, -1.0)
    tables = (np.tile(by_watts, (len(own), 1)), own, sign[:, np.newaxis] * own[differs], limited.true_s)
    ranked = dict(zip(POLICIES[1:], tables, strict=True))
    return {BY_NUMBER: load_policy("easy")} | {
        name: load_policy("easy", placement=Ranked(table)) for name, table in ranked.items()
    }


def cases(found: Devices, benchmark: str) -> Iterator[tuple[str, DeviceLimit]]:
    """Yield all cases of a pair by name."""
    for load in LOADS:
        for share in SHARES:
            name = f"{' + '.join(found.apps)}, limit {100 * share:.0f} %, load {load:.1f}"
            yield name, DeviceLimit(found, benchmark, share, load)


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Figures of all runs, draw by draw.

    Attributes:
        budgets: One application under a budget, by policy.
        limits: Two applications under a limit of each device, by placement.
    """

    budgets: Samples
    limits: Samples

    @property
    def draws(self) -> int:
        """Return the number of draws."""
        return len(next(iter(self.budgets.values.values())))


def simulate_devices(
    pairs: Sequence[Devices], benchmarks: Sequence[str], draws: int, threads: int, progress: Progress | None = None
) -> Simulated:
    """Simulate every policy and placement on the devices of every pair.

    Args:
        pairs: Devices of each pair.
        benchmarks: The application of each pair by which one rank is made under limits of devices.
        draws: Draws of jobs and of the devices' numbers.
        threads: Simulations at a time.
        progress: Called with (finished, all) simulations of each of the two parts.
    """
    under_budget = {name: case for found in pairs for name, case in budgets.cases(found)}
    under_limit = {n: case for found, b in zip(pairs, benchmarks, strict=True) for n, case in cases(found, b)}
    seeds = range(draws)
    return Simulated(
        sweep(budgets.DeviceBudget.draw, under_budget, budgets.POLICIES, seeds, threads=threads, progress=progress),
        sweep(DeviceLimit.draw, under_limit, POLICIES, seeds, threads=threads, progress=progress),
    )
