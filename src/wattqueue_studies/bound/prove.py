"""Prove a bound on an instance: prices by column generation, own prices by ascent, a certificate in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue_studies.bound.certificate import Certificate, Objective, certify, greatest_shift
from wattqueue_studies.bound.columns import Prices, Starts, generate_columns, grid_of
from wattqueue_studies.bound.hull import Ascent
from wattqueue_studies.bound.instance import Instance, Whole
from wattqueue_studies.bound.schedules import FoundSchedule

FEW_INTERVALS, FEW_JOBS = 400, 200
"""Intervals of the grid up to so many jobs."""
MORE_INTERVALS = {False: 1.4, True: 0.22}
"""Intervals for each further job, without watts and with them: where watts bind, a finer grid gains less than 0.1 %."""
MOST_STEPS = 7_000
"""Steps of the ascent, at most."""
FIRST_COLUMNS = 6
"""Schedules that column generation begins with."""


@dataclass(frozen=True, slots=True, eq=False)
class Proven:
    """A certificate, and a remark where the search for prices ended early: the bound holds all the same."""

    certificate: Certificate
    remark: str = ""


def intervals_of(instance: Instance) -> int:
    """Return how many intervals a grid has."""
    capped = len(instance.free) > instance.parts
    return FEW_INTERVALS + int(MORE_INTERVALS[capped] * max(0, len(instance) - FEW_JOBS))


def prove(
    instance: Instance, found: list[FoundSchedule], objective: Objective, *, shift: int = 0, steps: int = MOST_STEPS
) -> Proven:
    """Return the best certificate found; ``found`` are schedules, at least one, the best of which sets the grid.

    ``shift`` is that of the objective's energy rate. Without energy it follows from the prices.
    """
    best = min(found, key=lambda one: one.total)
    edge = grid_of(instance, best.start, best.start + instance.run[best.option], intervals_of(instance))
    rate = objective.energy_rate / (1 << shift) if objective.energy_rate else 0.0
    begin = [_columns(instance, one) for one in sorted(found, key=lambda one: one.total)[:FIRST_COLUMNS]]
    prices = generate_columns(instance, edge, begin, objective, rate)
    certificate = certify(edge, prices.price, instance, objective, shift or None)
    if not objective.energy_rate and steps:
        certificate = max(
            (certificate, _with_own(instance, edge, prices, objective, steps)),
            key=lambda one: one.value(instance) / (1 << one.shift),
        )
    return Proven(certificate, prices.stopped)


def _with_own(instance: Instance, edge: Whole, prices: Prices, objective: Objective, steps: int) -> Certificate:
    """Return a certificate with own prices of jobs, where nodes have a price."""
    ascent = Ascent(instance, edge, prices, objective)
    if not len(ascent.own):
        return certify(edge, prices.price, instance, objective)
    hull = ascent.climb(steps)
    room = greatest_shift(edge, hull.price, instance, float(hull.own.max()))
    return certify(edge, hull.price, instance, objective, room, hull.rounded(room))


def _columns(instance: Instance, schedule: FoundSchedule) -> Starts:
    """Return a schedule as columns: no start is before its release, which is rounded down."""
    start = np.maximum(schedule.start, instance.release)
    return Starts(np.arange(len(instance), dtype=np.int64), schedule.option, start)
