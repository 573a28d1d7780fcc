"""Redistribution of power caps by its rules, socket by socket, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Watts = float | Fraction
ROUNDING = Fraction(1, 1000)
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
    power: Sequence[float], cap: Sequence[Watts], rates: Rates, limits: Limits, spare_w: float
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


def lower_all(cap: Sequence[Watts], limits: Limits, budget_uw: int) -> list[Fraction]:
    """Caps after a budget came down: what they have above the minimum is cut to one height."""
    if sum(whole(c) for c in cap) <= budget_uw:
        return [Fraction(c) for c in cap]
    wants = [math.floor(max(Fraction(0), Fraction(c) - Fraction(limits.minimum_w)) * MICRO) for c in cap]
    room = max(0, budget_uw - len(cap) * math.ceil(Fraction(limits.minimum_w) * MICRO - ROUNDING))
    level = water_level(wants, room)
    return [Fraction(limits.minimum_w) + Fraction(min(w, level), MICRO) for w in wants]


def reset_begun(
    cap: Sequence[Watts], begins: Sequence[bool], even_w: float | Sequence[float], spare_uw: int
) -> list[Fraction]:
    """Caps after starts: the even share for those that begin; others give what they have above it, the most first."""
    new, pool = [Fraction(c) for c in cap], spare_uw
    even = [Fraction(one) for one in ([even_w] * len(cap) if isinstance(even_w, float) else even_w)]
    above = [math.floor(max(Fraction(0), c - e) * MICRO) for c, e in zip(new, even, strict=True)]
    wants = [math.floor(max(Fraction(0), e - c) * MICRO) if b else 0 for c, e, b in zip(new, even, begins, strict=True)]
    for i, begun in enumerate(begins):
        if begun:
            new[i] -= Fraction(above[i], MICRO)
            pool += above[i]
            above[i] = 0
    lacking = max(0, sum(wants) - pool)
    height = water_level(above, max(0, sum(above) - lacking))
    for i, surplus in enumerate(above):
        new[i] -= Fraction(max(0, surplus - height), MICRO)
        pool += max(0, surplus - height)
    level = water_level(wants, pool)
    return [n + Fraction(min(w, level), MICRO) for n, w in zip(new, wants, strict=True)]


def keep_promises(
    cap: Sequence[float],
    before: Sequence[float],
    begins: Sequence[bool],
    promises: Sequence[tuple[Sequence[bool], int]],
) -> list[Fraction]:
    """Caps of which no raise takes what is promised: for each promise the sockets held beyond it, and their limit."""
    least = [min(c, b) for c, b in zip(cap, before, strict=True)]
    asked = [math.floor((Fraction(c) - Fraction(low)) * MICRO) for c, low in zip(cap, least, strict=True)]
    given = list(asked)
    for held, limit_uw in promises:
        rising = [i for i, busy in enumerate(held) if busy and not begins[i]]
        fixed = sum(whole(cap[i]) for i, busy in enumerate(held) if busy and begins[i])
        room = limit_uw - fixed - sum(whole(least[i]) for i in rising)
        level = water_level([given[i] for i in rising], max(0, room))
        for i in rising:
            given[i] = min(given[i], level)
    return [
        Fraction(c) if g == a else Fraction(low) + Fraction(g, MICRO)
        for c, low, g, a in zip(cap, least, given, asked, strict=True)
    ]


def whole(watts: Watts) -> int:
    """Microwatts of a cap, rounded up; one that stands a thousandth of one above whole ones in float64 has these."""
    return math.ceil(Fraction(watts) * MICRO - ROUNDING)
