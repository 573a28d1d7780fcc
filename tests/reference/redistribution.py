"""Redistribution of power caps by its rules, socket by socket, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

MICRO = 10**6


class Rates(NamedTuple):
    """t, T, r and R of Algorithm 1."""

    lower: float
    upper: float
    decrease: float
    increase: float


class Limits(NamedTuple):
    """Least and highest cap of a socket."""

    minimum_w: float
    maximum_w: float


def water_level(wants: Sequence[int], pool: int) -> int:
    """The highest level at which everybody's smaller of level and want fits into the pool.

    Who wants least is served first: as long as all that are left could have as much, all have it.
    """
    left = sorted(wants)
    while left and left[0] * len(left) <= pool:
        pool -= left.pop(0)
    return pool // len(left) if left else max(wants, default=0)


def redistribute(
    power: Sequence[float], cap: Sequence[float], rates: Rates, limits: Limits, spare_w: float
) -> list[Fraction]:
    """New caps; the pool is what is taken, and the reserve."""
    new = [Fraction(c) for c in cap]
    wants = [0] * len(cap)
    pool = math.floor(Fraction(spare_w) * MICRO)
    for i, (p, c) in enumerate(zip(power, cap, strict=True)):
        if p < c * rates.lower:
            most = min(Fraction(c) * Fraction(rates.decrease), (Fraction(c) - Fraction(p)) / 2)
            taken = math.floor(min(most, Fraction(c) - Fraction(limits.minimum_w)) * MICRO)
            new[i] -= Fraction(taken, MICRO)
            pool += taken
        elif p > c * rates.upper:
            room = Fraction(c) * Fraction(rates.increase)
            if limits.maximum_w < math.inf:
                room = min(room, Fraction(limits.maximum_w) - Fraction(c))
            wants[i] = math.floor(room * MICRO)
    level = water_level(wants, pool)
    return [n + Fraction(min(w, level), MICRO) for n, w in zip(new, wants, strict=True)]
