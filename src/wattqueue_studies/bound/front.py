"""Fronts of mean turnaround and energy or a bill: no schedule has a smaller sum of both, at any rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.certificate import BILL_SHIFT, Certificate, GoalRates, unit_amount
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.problem import Problem
from wattqueue_studies.bound.prove import prove
from wattqueue_studies.bound.schedules import FoundSchedule, Lists


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Means over jobs of turnaround and an amount (energy, money, CO2), which costs so many seconds (``rate``).

    ``unit``: ``j``, or ``amount`` of a bill. The other three: proven, of the best schedule known, of the policy's.
    """

    unit: str
    rate: float
    bound_s: float
    best_s: float | None
    policy_s: float | None

    @classmethod
    def of(
        cls,
        instance: Instance,
        certificate: Certificate,
        found: Sequence[tuple[float, float]],
        policy: tuple[float, float] | None,
    ) -> FrontPoint:
        """Return a point; schedules are given as mean turnaround in seconds and the amount of all jobs."""
        n, objective = len(instance), certificate.objective
        tick = 2.0**certificate.shift * instance.tick_hz
        rate = objective.energy_rate * 1e3 / tick
        if instance.billing is not None:
            rate = objective.bill_rate / 2.0**BILL_SHIFT / unit_amount(instance) / tick
        bound_s = certificate.value(instance) / tick - int(instance.release_up.sum()) / instance.tick_hz
        costs = [turnaround_s + rate * amount / n for turnaround_s, amount in [*found, *([policy] if policy else [])]]
        best_s, unit = min(costs, default=None), "j" if instance.billing is None else "amount"
        return cls(unit, rate, bound_s / n, best_s, costs[-1] if policy else None)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        known = {"best_known_s": self.best_s, "policy_s": self.policy_s}
        return {f"s_per_{self.unit}": self.rate, "bound_s": self.bound_s, **known}


def rates_of(even: float, count: int) -> Floats:
    """Return rates from a tenth to ten times that at which an amount costs as much as the run times of jobs."""
    return even * np.geomspace(0.1, 10.0, count) if count else np.zeros(0)


def energy_front(
    problem: Problem, instance: Instance, found: list[FoundSchedule], count: int
) -> list[tuple[Certificate, list[FoundSchedule]]]:
    """Return what is proven at ``count`` rates of energy, each with lists that choose clocks by its rate."""
    run, energy = instance.run, instance.energy_mj
    even = float(instance.least(run).sum()) / max(float(instance.least(energy).sum()), 1.0)
    points = []
    for rate in rates_of(even, count).tolist():
        lists = Lists(problem, np.ceil(problem.jobs.run_s * problem.tick_hz + rate * energy).astype(np.int64))
        orders = [*lists.orders(), min(found, key=lambda one: one.total).order()]
        listed = [one for one in map(lists.schedule, orders) if one is not None]
        points.append((prove(instance, listed, GoalRates(energy=rate), steps=0).certificate, listed))
    return points
