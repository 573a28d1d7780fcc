"""Redistribution of power caps among sockets, in shares of whole microwatts (paper 3, Algorithm 1, corrected).

Whole microwatts make the sums of shares exact: what is handed out never exceeds what was taken in, and the order of the
sockets changes no cap. ``parts/controls/rapl_redistribution.py`` has the rules and their source.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.state import Array

MOST_W = 1e12
"""Greatest watts that are counted; their microwatts fit int64, whatever the hardware's limit is."""
ROUNDING_UW = 1e-3
"""Microwatts by which a cap of whole microwatts may differ from them in float64."""


# Slots of the rates of a control (float64).
LOWER = 0  # t, T, r, R of Algorithm 1
UPPER = 1
DECREASE = 2
INCREASE = 3
RESET = 4  # 1 where a start resets the caps of its sockets
LENDS = 5  # 1 where no raise uses watts that are promised
BETWEEN = 6  # 1 where a call between two steps only lowers caps to the budget and resets those of starts
RATES = 7


@referenced
class Sockets(NamedTuple):
    """S sockets, or other devices, at one step of the redistribution."""

    power_w: Array
    """(S,) float64 measured watts; NaN where there is no reading."""
    cap_w: Array
    """(S,) float64 caps now."""
    minimum_w: Array
    """(1,) or (S,) float64 least cap that the hardware takes."""
    maximum_w: Array
    """(1,) or (S,) float64 highest cap that the hardware takes; may be infinite."""
    begins: Array
    """(S,) int8, 1 for sockets on which a job has started."""
    want_uw: Array
    """(S,) int64 microwatts by which each socket may be raised, 0 for none; written."""
    surplus_uw: Array
    """(S,) int64 working space."""
    new_cap_w: Array
    """(S,) float64 caps after the step; written."""


def new_sockets(power_w: Array, cap_w: Array, minimum_w: Array, maximum_w: Array) -> Sockets:
    """Return the structure of a step, with room for its results."""
    n = len(cap_w)
    room = np.zeros(n, np.int8), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
    return Sockets(power_w, cap_w, minimum_w, maximum_w, *room)


@kernel
def step_of(limit: Array) -> int:
    """Return the distance between the limits of two sockets: 0 where one limit holds for all."""
    return 0 if len(limit) == 1 else 1


@kernel
def whole_uw(watts: float) -> int:
    """Return the greatest whole microwatts that are not above ``watts``, 0 or more."""
    return math.floor(max(0.0, min(watts, MOST_W)) * codes.MICRO)


@entry
def count_unusable(sockets: Sockets) -> int:
    """Return how many sockets have a negative or infinite reading, or a cap outside its limits.

    Without a branch in the loop, which lets the compiler look at several sockets at a time.
    """
    low, high = step_of(sockets.minimum_w), step_of(sockets.maximum_w)
    unusable = as_int64(0)
    for i in range(len(sockets.cap_w)):
        power, cap = sockets.power_w[i], sockets.cap_w[i]
        held = (cap >= sockets.minimum_w[i * low]) & (cap <= sockets.maximum_w[i * high]) & (cap <= MOST_W)
        unusable += (power < 0.0) | (power > MOST_W) | (not held)
    return unusable


@entry
def take_unused(sockets: Sockets, lower: float, upper: float, decrease: float, increase: float) -> int:
    """Lower the caps of sockets that draw little, write what others ask for, and return the microwatts taken.

    What each gave is in ``surplus_uw``.

    Lines 1 to 7 and 10 to 12 of Algorithm 1, but the pool is what is taken, not what is unused.
    """
    low, high = step_of(sockets.minimum_w), step_of(sockets.maximum_w)
    pool = as_int64(0)
    for i in range(len(sockets.cap_w)):
        power, cap = sockets.power_w[i], sockets.cap_w[i]
        sockets.want_uw[i], sockets.surplus_uw[i] = 0, 0
        sockets.new_cap_w[i] = cap
        if power < cap * lower:
            least = sockets.minimum_w[i * low]
            taken = whole_uw(min(cap * decrease, (cap - power) / 2, cap - least))
            sockets.new_cap_w[i] = max(cap - taken / codes.MICRO, least)
            sockets.surplus_uw[i] = taken
            pool += taken
        elif power > cap * upper:
            sockets.want_uw[i] = whole_uw(min(cap * increase, sockets.maximum_w[i * high] - cap))
    return pool


@entry
def water_level(want_uw: Array, pool_uw: int) -> int:
    """Return the highest whole level at which the shares sum to no more than ``pool_uw``.

    The share of a socket is the smaller of the level and ``want_uw`` (S,) int64, 0 or more; where the pool covers all,
    the level is the greatest of these. Newton's method from below on the sum of shares, which is concave in the level,
    so that no step goes beyond the answer, and a few passes over the sockets find it.
    """
    return level_between(want_uw, 0, len(want_uw), pool_uw)


@kernel
def level_between(want_uw: Array, begin: int, end: int, pool_uw: int) -> int:
    """Return ``water_level`` of some of the sockets, ``begin`` to ``end``."""
    level = as_int64(0)
    while True:
        shared, above, most = as_int64(0), as_int64(0), as_int64(0)
        for i in range(begin, end):
            want = want_uw[i]
            shared += min(want, level)
            above += want > level
            most = max(most, want)
        if above == 0 or pool_uw - shared < above:
            return level
        level = min(level + (pool_uw - shared) // above, most)


@entry
def give_shares(sockets: Sockets, level: int) -> None:
    """Raise the cap of each socket that asks for it, by at most ``level`` microwatts (lines 13 to 15)."""
    high = step_of(sockets.maximum_w)
    for i in range(len(sockets.cap_w)):
        share = min(sockets.want_uw[i], level)
        if share > 0:
            raised = sockets.cap_w[i] + share / codes.MICRO
            sockets.new_cap_w[i] = min(raised, sockets.maximum_w[i * high])


@kernel
def cap_uw(cap_w: float) -> int:
    """Return a cap in microwatts, rounded up: what is compared with a budget is never too small.

    Caps that are whole microwatts stand in float64: a thousandth less keeps one that is a little above what it is.
    """
    return math.ceil(cap_w * codes.MICRO - ROUNDING_UW)


@kernel
def sum_uw(caps_w: Array) -> int:
    """Return the sum of the caps in microwatts, as ``cap_uw``."""
    return sum_between(caps_w, 0, len(caps_w))


@kernel
def sum_between(caps_w: Array, begin: int, end: int) -> int:
    """Return the sum of some of the caps in microwatts, as ``cap_uw``."""
    total = as_int64(0)
    for i in range(begin, end):
        total += cap_uw(caps_w[i])
    return total


@entry
def lower_all(sockets: Sockets, budget_uw: int) -> int:
    """Write the caps after a budget came down; return the microwatts by which the least caps exceed it.

    Caps within the budget stay. Else all that a cap has above its minimum is cut to one common height. Where the
    minima alone exceed the budget, they are what is written.
    """
    return lower_between(sockets, 0, len(sockets.cap_w), budget_uw)


@kernel
def lower_between(sockets: Sockets, begin: int, end: int, budget_uw: int) -> int:
    """Do what ``lower_all`` does for some of the sockets, ``begin`` to ``end``."""
    low = step_of(sockets.minimum_w)
    if sum_between(sockets.cap_w, begin, end) <= budget_uw:
        for i in range(begin, end):
            sockets.new_cap_w[i] = sockets.cap_w[i]
        return as_int64(0)
    room = as_int64(budget_uw)
    for i in range(begin, end):
        least = sockets.minimum_w[i * low]
        room -= cap_uw(least)
        sockets.want_uw[i] = whole_uw(sockets.cap_w[i] - least)
    level = level_between(sockets.want_uw, begin, end, max(room, as_int64(0)))
    for i in range(begin, end):
        sockets.new_cap_w[i] = sockets.minimum_w[i * low] + min(sockets.want_uw[i], level) / codes.MICRO
    return max(-room, as_int64(0))


@entry
def reset_begun(sockets: Sockets, even_w: Array, spare_uw: int) -> None:
    """Write the caps after jobs have started on the sockets of ``begins``: an even share again, as far as watts allow.

    ``even_w`` (1,) or (S,) float64, within the limits. Watts come from the reserve, then from other sockets above their
    even share, which are lowered to one common height above it.
    """
    reset_between(sockets, 0, len(sockets.cap_w), even_w, spare_uw)


@kernel
def reset_between(sockets: Sockets, begin: int, end: int, even_w: Array, spare_uw: int) -> None:
    """Do what ``reset_begun`` does for some of the sockets, ``begin`` to ``end``."""
    pool, needed, surplus = as_int64(spare_uw), as_int64(0), as_int64(0)
    step = step_of(even_w)
    for i in range(begin, end):
        cap, even = sockets.cap_w[i], even_w[i * step]
        above = whole_uw(cap - even)
        sockets.want_uw[i], sockets.surplus_uw[i] = 0, above
        if sockets.begins[i] != 0:
            sockets.want_uw[i], sockets.surplus_uw[i] = whole_uw(even - cap), 0
            pool += above
        needed += sockets.want_uw[i]
        surplus += sockets.surplus_uw[i]
    room = max(as_int64(0), surplus - max(as_int64(0), needed - pool))
    kept = level_between(sockets.surplus_uw, begin, end, room)
    for i in range(begin, end):
        pool += max(sockets.surplus_uw[i] - kept, 0)
    level = level_between(sockets.want_uw, begin, end, pool)
    for i in range(begin, end):
        cap, even = sockets.cap_w[i], even_w[i * step]
        given, given_up = min(sockets.want_uw[i], level), max(sockets.surplus_uw[i] - kept, 0)
        sockets.new_cap_w[i] = cap
        if given > 0:
            sockets.new_cap_w[i] = min(cap + given / codes.MICRO, even)
        elif given_up > 0:
            sockets.new_cap_w[i] = max(cap - given_up / codes.MICRO, even)
        elif sockets.begins[i] != 0 and cap > even:
            sockets.new_cap_w[i] = max(cap - whole_uw(cap - even) / codes.MICRO, even)


@entry
def step_caps(sockets: Sockets, rates: Array, even_w: Array, budget_uw: int) -> int:
    """Write the caps of the next step; return the microwatts by which the least caps exceed the budget.

    In this order: caps above a lowered budget come down, Algorithm 1, sockets of jobs that have started are reset.
    ``rates`` (RATES,) float64; ``even_w`` (1,) float64; ``cap_w`` is working space.
    """
    lacking = lower_all(sockets, budget_uw)
    keep_new(sockets)
    spare = max(as_int64(0), budget_uw - sum_uw(sockets.cap_w))
    pool = take_unused(sockets, rates[LOWER], rates[UPPER], rates[DECREASE], rates[INCREASE]) + spare
    give_shares(sockets, water_level(sockets.want_uw, pool))
    keep_new(sockets)
    reset_caps(sockets, rates, even_w, budget_uw)
    return lacking


@kernel
def reset_caps(sockets: Sockets, rates: Array, even_w: Array, budget_uw: int) -> None:
    """Go on with the caps of ``reset_begun`` where jobs have started, out of what the budget leaves."""
    begun = 0
    for i in range(len(sockets.begins)):
        begun += sockets.begins[i]
    if rates[RESET] != 0.0 and begun > 0:
        reset_begun(sockets, even_w, max(as_int64(0), budget_uw - sum_uw(sockets.cap_w)))
        keep_new(sockets)


@entry
def caps_between(sockets: Sockets, rates: Array, even_w: Array, budget_uw: int) -> int:
    """Do what ``step_caps`` does without Algorithm 1: for a start, or a moved budget, between two steps."""
    lacking = lower_all(sockets, budget_uw)
    keep_new(sockets)
    reset_caps(sockets, rates, even_w, budget_uw)
    return lacking


@entry
def begin_raises(sockets: Sockets, before_w: Array) -> None:
    """Write by how much each cap of a step rises from ``before_w`` (S,), and the cap without it.

    Into ``want_uw`` and ``new_cap_w``: ``keep_promise`` cuts raises, ``end_raises`` puts what is left of them in force.
    """
    for i in range(len(sockets.cap_w)):
        sockets.new_cap_w[i] = min(sockets.cap_w[i], before_w[i])
        sockets.want_uw[i] = whole_uw(sockets.cap_w[i] - sockets.new_cap_w[i])


@entry
def keep_promise(sockets: Sockets, held: Array, limit_uw: int) -> None:
    """Cut the raises of sockets that are busy beyond a promised time, so that their caps sum to at most ``limit_uw``.

    To equal shares of what is left, none above what it was (water-filling). ``held`` (S,) int8, 1 for such a socket.
    Sockets of ``begins`` keep what they were reset to: the pass counted their job beside all promises.
    """
    room = as_int64(limit_uw)
    for i in range(len(held)):
        sockets.surplus_uw[i] = 0
        if held[i] != 0 and sockets.begins[i] != 0:
            room -= cap_uw(sockets.cap_w[i])
        elif held[i] != 0:
            room -= cap_uw(sockets.new_cap_w[i])
            sockets.surplus_uw[i] = sockets.want_uw[i]
    level = water_level(sockets.surplus_uw, max(room, as_int64(0)))
    for i in range(len(held)):
        if sockets.surplus_uw[i] > level:
            sockets.want_uw[i] = level


@entry
def end_raises(sockets: Sockets) -> None:
    """Go on with the caps after all promises; a raise that none has cut stays as it was asked for."""
    for i in range(len(sockets.cap_w)):
        least = sockets.new_cap_w[i]
        if sockets.want_uw[i] < whole_uw(sockets.cap_w[i] - least):
            sockets.cap_w[i] = least + sockets.want_uw[i] / codes.MICRO


@kernel
def keep_new(sockets: Sockets) -> None:
    """Go on from the caps that were written."""
    for i in range(len(sockets.cap_w)):
        sockets.cap_w[i] = sockets.new_cap_w[i]
