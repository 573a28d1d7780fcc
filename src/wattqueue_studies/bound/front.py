"""The front of mean turnaround and energy: no schedule has a smaller sum of both, at any rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wattqueue_studies.bound.certificate import Certificate, GoalRates
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.problem import Problem
from wattqueue_studies.bound.prove import prove
from wattqueue_studies.bound.schedules import FoundSchedule, Lists


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Means over jobs of turnaround and energy, of which a joule costs so many seconds (``rate``).

    The other three: proven, of the best schedule known, of the policy's.
    """

    rate: float
    bound_s: float
    best_s: float
    policy_s: float | None

    @classmethod
    def of(
        cls,
        instance: Instance,
        certificate: Certificate,
        found: Sequence[tuple[float, float]],
        policy: tuple[float, float] | None,
    ) -> FrontPoint:
        """Return a point; schedules are given as mean turnaround in seconds and the energy of all jobs."""
        n, tick = len(instance), 2.0**certificate.shift * instance.tick_hz
        rate = certificate.objective.energy_rate * 1e3 / tick
        bound_s = certificate.value(instance) / tick - int(instance.release_up.sum()) / instance.tick_hz
        costs = [turnaround_s + rate * energy_j / n for turnaround_s, energy_j in [*found, *filter(None, (policy,))]]
        return cls(rate, bound_s / n, min(costs), costs[-1] if policy else None)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        known = {"best_known_s": self.best_s, "policy_s": self.policy_s}
        return {"s_per_j": self.rate, "bound_s": self.bound_s, **known}


def energy_front(
    problem: Problem, instance: Instance, found: list[FoundSchedule], count: int
) -> list[tuple[Certificate, list[FoundSchedule]]]:
    """Return what is proven at ``count`` rates of energy, each with lists that choose clocks by its rate.

    Rates are a tenth to ten times that at which the energy of jobs costs as much as their run times.
    """
    run, energy = instance.run, instance.energy_mj
    even = float(instance.least(run).sum()) / max(float(instance.least(energy).sum()), 1.0)
    points = []
    for rate in (even * np.geomspace(0.1, 10.0, count)).tolist():
        lists = Lists(problem, np.ceil(problem.jobs.run_s * problem.tick_hz + rate * energy).astype(np.int64))
        orders = [*lists.orders(), min(found, key=lambda one: one.total).order()]
        listed = [one for one in map(lists.schedule, orders) if one is not None]
        points.append((prove(instance, listed, GoalRates(energy=rate), steps=0).certificate, listed))
    return points
