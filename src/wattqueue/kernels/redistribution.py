"""Redistribution of power caps among sockets, in shares of whole microwatts (paper 3, Algorithm 1, corrected).

Whole microwatts make the sums of shares exact: what is handed out never exceeds what was taken in, and the order of the
sockets changes no cap. ``parts/controls/rapl_redistribution.py`` has the rules and their source.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, by_reference, entry, kernel, referenced
from wattqueue.kernels.state import Array

MOST_W = 1e12
"""Greatest watts that are counted; their microwatts fit int64, whatever the hardware's limit is."""


@referenced
class Sockets(NamedTuple):
    """S sockets, or other power domains, at one step of the redistribution."""

    power_w: Array
    """(S,) float64 measured watts; NaN where there is no reading."""
    cap_w: Array
    """(S,) float64 caps now."""
    minimum_w: Array
    """(1,) or (S,) float64 least cap that the hardware takes."""
    maximum_w: Array
    """(1,) or (S,) float64 highest cap that the hardware takes; may be infinite."""
    want_uw: Array
    """(S,) int64 microwatts by which each socket may be raised, 0 for none; written."""
    new_cap_w: Array
    """(S,) float64 caps after the step; written."""


def new_sockets(power_w: Array, cap_w: Array, minimum_w: Array, maximum_w: Array) -> Sockets:
    """Return the structure of a step, with room for its results."""
    return Sockets(power_w, cap_w, minimum_w, maximum_w, np.empty(len(cap_w), np.int64), np.empty(len(cap_w)))


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
    sockets = by_reference(sockets)
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

    Lines 1 to 7 and 10 to 12 of Algorithm 1, but the pool is what is taken, not what is unused.
    """
    sockets = by_reference(sockets)
    low, high = step_of(sockets.minimum_w), step_of(sockets.maximum_w)
    pool = as_int64(0)
    for i in range(len(sockets.cap_w)):
        power, cap = sockets.power_w[i], sockets.cap_w[i]
        sockets.want_uw[i] = 0
        sockets.new_cap_w[i] = cap
        if power < cap * lower:
            least = sockets.minimum_w[i * low]
            taken = whole_uw(min(cap * decrease, (cap - power) / 2, cap - least))
            sockets.new_cap_w[i] = max(cap - taken / codes.MICRO, least)
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
    level = as_int64(0)
    while True:
        shared, above, most = as_int64(0), as_int64(0), as_int64(0)
        for i in range(len(want_uw)):
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
    sockets = by_reference(sockets)
    high = step_of(sockets.maximum_w)
    for i in range(len(sockets.cap_w)):
        share = min(sockets.want_uw[i], level)
        if share > 0:
            raised = sockets.cap_w[i] + share / codes.MICRO
            sockets.new_cap_w[i] = min(raised, sockets.maximum_w[i * high])
