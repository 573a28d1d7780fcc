"""The front of mean turnaround and energy: no schedule has a smaller sum of both, at any rate of energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wattqueue_studies.bound.certificate import Certificate, GoalRates
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.problem import Problem
from wattqueue_studies.bound.prove import prove
from wattqueue_studies.bound.schedules import FoundSchedule, Lists
from wattqueue_studies.bound.store import ENERGY, TURNAROUND

RATES = 0.1, 10.0
"""Least and greatest rate: shares of the rate at which the energy of jobs costs as much as their run times."""


@dataclass(frozen=True, slots=True, eq=False)
class FrontPoint:
    """What is proven at one rate of energy, and the schedules that were found for it."""

    certificate: Certificate
    found: list[FoundSchedule]

    def rate_s_per_j(self, instance: Instance) -> float:
        """Return the rate: so many seconds of turnaround cost as much as a joule."""
        return self.certificate.objective.energy_rate / (1 << self.certificate.shift) * 1_000 / instance.tick_hz

    def bound_s(self, instance: Instance) -> float:
        """Return the least mean over jobs of turnaround and energy at the rate."""
        ticks = self.certificate.value(instance) / (1 << self.certificate.shift) - int(instance.release_up.sum())
        return ticks / instance.tick_hz / len(instance)

    def cost_s(self, instance: Instance, measured: Mapping[str, float]) -> float:
        """Return the same mean of a schedule with these measures."""
        return measured[TURNAROUND] + self.rate_s_per_j(instance) * measured[ENERGY] / len(instance)


def energy_front(problem: Problem, instance: Instance, found: list[FoundSchedule], count: int) -> list[FrontPoint]:
    """Return the points of the front at ``count`` rates, each with lists that choose clocks by its rate."""
    run, energy = instance.run, instance.energy_mj
    even = float(instance.least(run).sum()) / max(float(instance.least(energy).sum()), 1.0)
    points = []
    for rate in even * np.geomspace(*RATES, count):
        lists = Lists(problem, np.ceil(problem.jobs.run_s * problem.tick_hz + rate * energy).astype(np.int64))
        orders = [*lists.orders(), min(found, key=lambda one: one.total).order()]
        listed = [one for one in map(lists.schedule, orders) if one is not None]
        certificate = prove(instance, listed, GoalRates(energy=float(rate)), steps=0).certificate
        points.append(FrontPoint(certificate, [*listed, *found]))
    return points
