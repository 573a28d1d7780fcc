"""EAMC's two measures: the best option of a job on a partition (eq. 4), and partitions compared (eq. 5).

Used by the frequency parts (``choose``) and by EAMC's orders (``part_eff``, ``positions``).

The equations as printed square inside the fraction, E^2/E_min; the text says "normalized to the
minimum value of the respective metric", and only then are joules and seconds comparable. So here
``dist = sqrt((E/E_min)^2 + t_weight (t/t_min)^2)``. Joules and seconds enter as watts x time factor and
time factor: a job's own run time and node count cancel in every ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Ints, Prediction

Reading = Literal["text", "published-code"]
READINGS = ("text", "published-code")

CODE_WEIGHT = 1.5
"""Weight of time in the published code: inside the square, and always 1.5, whatever ``t_weight`` is."""


@dataclass(frozen=True, slots=True, eq=False)
class BestOptions:
    """The best option of each prediction row on each partition. Shapes (C, P)."""

    option: Ints
    """Number of the option; -1 where the partition offers none."""
    energy: Floats
    """Energy there as watts x time factor (the job's own run time and width cancel); inf where none is offered."""
    time: Floats
    """Time factor there; inf where none is offered."""

    @property
    def offered(self) -> NDArray[np.bool_]:
        """Return which partitions offer an option. Shape (C, P)."""
        return self.option >= 0


def check(t_weight: float, reading: str) -> None:
    """Check the two settings of the measures.

    Raises: PolicyError for a weight that is not positive, or an unknown reading.
    """
    if not (np.isfinite(t_weight) and t_weight > 0):
        raise PolicyError(f"is {t_weight}", where="t_weight", hint="use a positive number")
    if reading not in READINGS:
        raise PolicyError(f"is {reading!r}", where="reading", hint=f"use {' or '.join(READINGS)}")


def distance2(energy: Floats, time: Floats, t_weight: float, reading: str = "text") -> Floats:
    """Return the squared distance of each option from the origin, along the last axis; inf where energy is not finite.

    Squared, because only the order matters: the root is left out. Minima are taken over offered options only.

    Reference: paper 1, eq. 4; ``published-code`` minimises (E/E_min)^2 + (1.5 t/t_min)^2 instead.
    """
    offered = np.isfinite(energy)
    seconds = np.where(offered, time, np.inf)
    e_min = np.min(energy, -1, keepdims=True, initial=np.inf)
    t_min = np.min(seconds, -1, keepdims=True, initial=np.inf)
    weight = t_weight if reading == "text" else CODE_WEIGHT**2
    with np.errstate(invalid="ignore"):
        found = (energy / e_min) ** 2 + weight * (seconds / t_min) ** 2
    return np.where(offered, found, np.inf)


def partition_options(prediction: Prediction, machine: Machine, p: int) -> tuple[slice, Floats, Floats]:
    """Return the options of partition p, and energy and time at each; unknown watts count as 1. Shapes (C, O_p)."""
    own = slice(int(machine.option_start[p]), int(machine.option_start[p + 1]))
    watts = prediction.power_w[:, own]
    # With unknown watts (NaN) set to the same figure everywhere, time alone decides between options.
    return own, np.where(np.isnan(watts), 1.0, watts) * prediction.time_factor[:, own], prediction.time_factor[:, own]


def choose(
    prediction: Prediction, machine: Machine, cost: str, t_weight: float = 1.0, reading: str = "text"
) -> BestOptions:
    """Return the option of least ``cost`` (distance, energy, time) of each row on each partition.

    Ties go to the highest frequency: ``argmin`` returns the first, and options count downwards.

    Reference: paper 1, eq. 4 (distance), section 5 (Min_energy, Min_runtime).
    """
    check(t_weight, reading)
    rows, parts = len(prediction.power_w), len(machine.partitions)
    option = np.full((rows, parts), -1, np.int32)
    joules, seconds = np.full((rows, parts), np.inf), np.full((rows, parts), np.inf)
    each = np.arange(rows)
    for p in range(parts):
        own, energy, time = partition_options(prediction, machine, p)
        offered = np.isfinite(energy)
        if cost == "distance":
            value = distance2(energy, time, t_weight, reading)
        else:
            value = np.where(offered, energy if cost == "energy" else time, np.inf)
        best = np.argmin(value, 1)
        there = offered[each, best]
        option[there, p] = own.start + best[there]
        joules[there, p], seconds[there, p] = energy[each, best][there], time[each, best][there]
    return BestOptions(option, joules, seconds)


def part_eff(best: BestOptions, t_weight: float, reading: str = "text") -> Floats:
    """Return how well each partition suits each row, low is good; inf where it offers nothing. Shape (C, P).

    Energy and time at each partition's best option are normalised to the best partition, so the best value is at least
    sqrt(1 + t_weight) and equals it where one partition is best in both.

    Reference: paper 1, eq. 5; ``published-code`` adds E/E_min + 1.5 t/t_min, without squares or root.
    """
    if reading == "text":
        return np.sqrt(distance2(best.energy, best.time, t_weight))
    e_min = np.min(best.energy, 1, keepdims=True, initial=np.inf)
    t_min = np.min(best.time, 1, keepdims=True, initial=np.inf)
    with np.errstate(invalid="ignore"):
        cost = best.energy / e_min + CODE_WEIGHT * best.time / t_min
    return np.where(best.offered, cost, np.inf)


def positions(efficiency: Floats) -> Ints:
    """Return the position of each partition in the sorted list, 0 the best; ties by number. Shape (C, P)."""
    order = np.argsort(efficiency, 1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(efficiency.shape[1])[np.newaxis], 1)
    return place.astype(np.int32)
