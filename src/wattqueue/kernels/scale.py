"""Watts of a unit at every option, from one figure at the reference frequency: inside the event loop and outside."""

from __future__ import annotations

import math

from wattqueue.kernels._numba import entry, inlined
from wattqueue.kernels.state import Array


@inlined
def watts_at_option(watts: float, idle_w: float, max_w: float, dynamic: float) -> float:
    """Return ``idle + (P - idle) * dynamic``; NaN stands for the unit's maximum, which stays NaN where none is stated.

    A figure below the idle watts has no dynamic share and is not scaled.
    """
    power = max_w if math.isnan(watts) else watts
    idle = min(idle_w, power)
    return float(idle + (power - idle) * dynamic)


@entry
def watts_by_option(watts: Array, idle_w: Array, max_w: Array, dynamic: Array, out: Array) -> None:
    """Write the watts of each row at each option to ``out`` (C, O); ``watts`` (C,), figures of a unit (O,)."""
    for row in range(len(watts)):
        for option in range(len(idle_w)):
            out[row, option] = watts_at_option(watts[row], idle_w[option], max_w[option], dynamic[option])
