"""Prove a bound on an instance: prices by column generation, own prices by ascent, a certificate in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.certificate import Certificate, GoalRates, OwnPrices, certify
from wattqueue_studies.bound.columns import Starts, generate_columns, grid_of
from wattqueue_studies.bound.hull import Ascent
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.schedules import FoundSchedule

FEW_INTERVALS, FEW_JOBS = 400, 200
"""Intervals of the grid up to so many jobs."""
MORE_INTERVALS = 1.4
"""Intervals for each further job where watts are not limited: where they are, a finer grid gains some 0.1 %."""
MOST_STEPS = 7_000
"""Steps of the ascent, at most."""
FIRST_COLUMNS = 6
"""Schedules that column generation begins with."""


@dataclass(frozen=True, slots=True, eq=False)
class Proven:
    """A certificate, and a remark where the search for prices ended early: the bound holds all the same.

    ``mean_start``, ``main_start``: as in ``Prices``, where good schedules may be looked for.
    """

    certificate: Certificate
    remark: str
    mean_start: Floats
    main_start: Floats


def intervals_of(instance: Instance) -> int:
    """Return how many intervals a grid has."""
    capped = len(instance.free) > instance.parts
    return FEW_INTERVALS + int(MORE_INTERVALS * max(0, len(instance) - FEW_JOBS) * (not capped))


def prove(
    instance: Instance, found: list[FoundSchedule], goal: GoalRates | None = None, *, steps: int = MOST_STEPS
) -> Proven:
    """Return the best certificate found; ``found`` are schedules, at least one, the best of which sets the grid.

    ``goal``: what is added up over the jobs, their ends by default.
    """
    goal = goal or GoalRates()
    ordered = sorted(found, key=lambda one: one.total)
    best = ordered[0]
    edge = grid_of(instance, best.start, best.start + instance.run[best.option], intervals_of(instance))
    prices = generate_columns(instance, edge, [_columns(instance, one) for one in ordered[:FIRST_COLUMNS]], goal)
    certificate = certify(instance, goal, edge, prices.price, OwnPrices.none(len(instance)), np.zeros(0))
    ascent = Ascent(instance, edge, prices, goal)
    if steps and len(ascent.own):
        with_own = certify(instance, goal, edge, ascent.price, ascent.place, ascent.climb(steps))
        certificate = max(certificate, with_own, key=lambda one: one.value(instance) / (1 << one.shift))
    return Proven(certificate, prices.stopped, prices.mean_start, prices.main_start)


def _columns(instance: Instance, schedule: FoundSchedule) -> Starts:
    """Return a schedule as columns: no start is before its release, which is rounded down."""
    start = np.maximum(schedule.start, instance.release)
    return Starts(np.arange(len(instance), dtype=np.int64), schedule.option, start)
