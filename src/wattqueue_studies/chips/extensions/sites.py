"""Sites of the comparison: measured devices numbered at random, and generated sockets of hold-out seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.chips.chip_runs import ChipPair, ChipRuns
from wattqueue_studies.chips.devices import SHARES, WIDTHS, Devices, devices
from wattqueue_studies.sockets import COMPUTE_BOUND, PmcTrial, share_of_kinds
from wattqueue_studies.unit_telemetry import ONE_APPLICATION, ONE_JOB, UnitTelemetry
from wattqueue_studies.variability.codes import applications

HOLD_OUT = 50_000
"""Seeds of generated sockets begin here: no other study draws them."""
SOCKETS = 256
DAY_JOBS, DAYS = 2_400, 5
"""Jobs that end on a day, and days of the first week that are learned from."""
UNIT_SD, JOB_SD = 0.01, 0.05
"""Noise of a unit's joules in a job, and of what inputs change in a job's level: assumed."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Devices of one draw.

    Attributes:
        devices: What is known of each application, and true.
        benchmark_w: Watts of the benchmark by device. Shape (U,).
        week: Energy by unit of jobs of the first week, without any benchmark.
    """

    devices: Devices
    benchmark_w: Floats
    week: UnitTelemetry


class Sites(Protocol):
    """Makes the site of a seed."""

    def draw(self, seed: int) -> Site:
        """Return the site."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPair:
    """The common chips of two applications: odd runs are true, even runs are known, and are the telemetry.

    Attributes:
        pair: The chips.
        runs: Runs of both applications, in the pair's order.
        benchmark: The application that serves as the benchmark.
    """

    pair: ChipPair
    runs: tuple[ChipRuns, ChipRuns]
    benchmark: str

    def draw(self, seed: int) -> Site:
        """Return the chips, numbered at random."""
        found = devices(self.pair, self.runs)
        rng = np.random.default_rng([seed, 17])
        order = rng.permutation(found.units)
        taken = found.take(order)
        number = np.argsort(order)
        rows = [
            (app, number[chip], watts)
            for app, runs in enumerate(self.runs)
            for chip, name in enumerate(self.pair.chips)
            for watts in runs.watts[runs.chip == runs.chips.index(name)][::2]
        ]
        app, unit, watts = (np.array(column) for column in zip(*rows, strict=True))
        week = UnitTelemetry(np.zeros(len(app)), app, np.full(len(app), ONE_APPLICATION), unit, watts)
        return Site(taken, taken.known_w[taken.apps.index(self.benchmark)], week)


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated sockets of paper 2 of a hold-out seed; known is what VT predicts."""

    def draw(self, seed: int) -> Site:
        """Return the sockets with a first week of jobs on random ones."""
        trial = PmcTrial(HOLD_OUT + seed, SOCKETS)
        apps = sorted(applications())
        share = {app: share_of_kinds(applications()[app]) for app in apps}
        predicted = trial.predict("VT")
        known = np.stack([share[app] @ predicted[app].mean_w for app in apps])
        true = np.stack([share[app] @ trial.truth[app].mean_w for app in apps])
        time = np.stack([share[app] @ trial.truth[app].time_factor for app in apps])
        found = Devices(tuple(apps), known, np.ones_like(time), true, time, true)
        rng = np.random.default_rng([HOLD_OUT + seed, 18])
        return Site(found, trial.kernels.mean_w(COMPUTE_BOUND), telemetry(rng, true, DAYS))


def telemetry(rng: np.random.Generator, true_w: Floats, days: float, first_day: int = 0) -> UnitTelemetry:
    """Draw the energy by unit of jobs on random units. ``true_w`` (A, U) are true watts; jobs end evenly over the days.

    Jobs over several units share a level, those on one unit that of their application.
    """
    jobs = round(DAY_JOBS * days)
    width = rng.choice(WIDTHS, jobs, p=SHARES)
    app = rng.integers(len(true_w), size=jobs)
    level = np.exp(JOB_SD * rng.standard_normal(jobs))
    job = np.repeat(np.arange(jobs), width)
    unit = np.concatenate([rng.choice(true_w.shape[1], k, replace=False) for k in width])
    watts = true_w[app[job], unit] * level[job] * np.exp(UNIT_SD * rng.standard_normal(len(job)))
    one = width[job] == 1
    group = np.where(one, app[job], len(true_w) + DAY_JOBS * 1_000 * first_day + job)
    time_s = DAY_S * (first_day + days * job / jobs)
    return UnitTelemetry(time_s, group, np.where(one, ONE_APPLICATION, ONE_JOB), unit, watts)


def own_means(site: Site) -> Floats:
    """Return the mean watts of each application that policies know. Shape (A,)."""
    found: Floats = site.devices.known_w.mean(axis=1)
    return found


def ratios(values: Sequence[float] | Floats) -> Floats:
    """Return values over their mean. Shape as given."""
    found: Floats = np.asarray(values, np.float64) / np.mean(values)
    return found
