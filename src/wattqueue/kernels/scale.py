"""Watts of a unit at every option, from one figure at the reference frequency: inside the event loop and outside."""

from __future__ import annotations

import math

from wattqueue.kernels._numba import entry, inlined
from wattqueue.kernels.state import Array

HALVINGS = 50
"""Steps of a bisection: of 1e5 W one ten-millionth of a microwatt is left."""


@inlined
def share_left(demand: float, limit: float) -> float:
    """Return the share of watts above idle that a GPU limit leaves, as ``model.gpu_limits.share_left``."""
    if demand <= 0.0:
        return 1.0
    if limit <= 0.0:
        return 0.0
    ratio = demand / limit
    fourth = ratio * ratio * ratio * ratio
    return float(1.0 / math.sqrt(math.sqrt(math.sqrt(1.0 + fourth * fourth))))


@inlined
def watts_at_option(watts: float, idle_w: float, max_w: float, dynamic: float, held_w: float) -> float:
    """Return ``idle + (P - idle) * dynamic``; NaN stands for the unit's maximum, which stays NaN where none is stated.

    A figure below the idle watts has no dynamic share and is not scaled. Under a GPU limit ``dynamic`` is the share
    that is not the GPUs', and ``held_w`` (0 for others) the watts that are left to them: all of these where the
    unit's maximum is asked for, since they are a promise; as the model says otherwise.
    """
    power = max_w if math.isnan(watts) else watts
    idle = min(idle_w, power)
    found = idle + (power - idle) * dynamic
    if held_w > 0.0:
        of_gpus = (power - idle) * (1.0 - dynamic)
        found += min(of_gpus, held_w) if math.isnan(watts) else of_gpus * share_left(of_gpus, held_w)
    return float(found)


@entry
def watts_by_option(watts: Array, idle_w: Array, max_w: Array, dynamic: Array, held_w: Array, out: Array) -> None:
    """Write the watts of each row at each option to ``out`` (C, O); ``watts`` (C,), figures of a unit (O,)."""
    for row in range(len(watts)):
        for option in range(len(idle_w)):
            out[row, option] = watts_at_option(
                watts[row], idle_w[option], max_w[option], dynamic[option], held_w[option]
            )


@inlined
def without_limit(watts: float, idle_w: float, max_w: float, host: float, held_w: float) -> float:
    """Return what a unit that drew ``watts`` under a GPU limit would draw without, at most its stated maximum.

    The inverse of ``watts_at_option``, by bisection: near the limit it is hardly known, and the greater end counts.
    """
    if held_w <= 0.0 or math.isnan(watts) or watts <= idle_w:
        return watts
    low, high = watts, max(max_w, watts)
    for _ in range(HALVINGS):
        mid = 0.5 * (low + high)
        if watts_at_option(mid, idle_w, max_w, host, held_w) < watts:
            low = mid
        else:
            high = mid
    return float(high)


@entry
def without_limits(watts: Array, option: Array, idle_w: Array, max_w: Array, host: Array, held_w: Array) -> None:
    """Replace watts measured at an option each (-1: not known) by those without its GPU limit, in place. Shapes (k,).

    ``idle_w``, ``max_w``, ``host`` and ``held_w`` (O,).
    """
    for i in range(len(watts)):
        o = option[i]
        if o >= 0:
            watts[i] = without_limit(watts[i], idle_w[o], max_w[o], host[o], held_w[o])
