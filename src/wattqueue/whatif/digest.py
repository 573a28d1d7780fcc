"""Reduce the power of a run to exact integrals over bins.

A run of half a million jobs with phases has tens of millions of power steps. What ``whatif`` needs of them are
integrals: energy, seconds above the cap, and energy by the price in force. Power is constant within a step and bins
begin wherever a price changes, so each integral is exact, and a run is kept as a few thousand numbers instead of its
steps. The power may come in windows, so that its steps never have to be in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import TOLERANCE_W
from wattqueue.model.schedule import PowerSeries

HOUR_S = 3_600.0
"""Length of the bins by which the correlation of power is estimated."""


@dataclass(frozen=True, slots=True, eq=False)
class Digest:
    """Integrals over bins; bin i reaches from ``edge_s[i]`` to ``edge_s[i + 1]``.

    Attributes:
        edge_s: Edges of the bins in seconds on the trace's clock. Shape (b + 1,).
        machine_j: Energy of all units. Shape (b,).
        scope_j: Energy of what the cap covers. Shape (b,).
        over_s: Seconds above the cap. Shape (b,).
        over_j: Energy above the cap. Shape (b,).
        overshoot_w: Greatest excess over the cap in the whole run.
    """

    edge_s: Floats
    machine_j: Floats
    scope_j: Floats
    over_s: Floats
    over_j: Floats
    overshoot_w: float


def bin_edges(begin_s: float, end_s: float, inside: Iterable[Floats], zero_s: float = 0.0) -> Floats:
    """Return the edges of the bins: begin, end, whole hours in between, and the times of ``inside`` in between.

    Hours are those of a clock whose 0 is at ``zero_s``. Hours are kept as bins because the correlation of hourly
    power decides how much evidence a run holds (``safe``).
    """
    first = np.ceil((begin_s - zero_s) / HOUR_S)
    hours = zero_s + HOUR_S * np.arange(first, max(first, np.ceil((end_s - zero_s) / HOUR_S)))
    times = np.concatenate([hours, *inside])
    return np.unique(np.concatenate(([begin_s], times[(times > begin_s) & (times < end_s)], [end_s])))


def digest(windows: Iterable[PowerSeries], machine: Machine, cap_w: float, edge_s: Floats) -> Digest:
    """Sum a power series into bins.

    Args:
        windows: The series, in windows that each begin where the one before ends.
        machine: Decides by its cap scope which watts the cap covers.
        cap_w: Constant cap; ``inf`` without one.
        edge_s: Edges of the bins. Outside the span of the series nothing is counted.

    An excess of at most ``TOLERANCE_W`` is rounding and does not count (rule 13 of docs/semantics.md).
    """
    sums = np.zeros((4, len(edge_s) - 1))
    most = 0.0
    for power in windows:
        watts = power.scope_w(machine.cap_scope)
        sums[0] += integrals(power.time_s, power.machine_w, edge_s)
        sums[1] += integrals(power.time_s, watts, edge_s)
        if np.isfinite(cap_w) and len(watts) > 1:
            excess = watts - cap_w
            # Rounding of sums is no excess, neither in seconds nor in energy.
            excess[excess <= TOLERANCE_W] = 0.0
            # A step of no length is an instant between two events; its power was never in force.
            held = excess[:-1][np.diff(power.time_s) > 0]
            if held.max(initial=0.0) > 0.0:
                sums[2] += integrals(power.time_s, excess > 0.0, edge_s)
                sums[3] += integrals(power.time_s, excess, edge_s)
                most = max(most, float(held.max()))
    return Digest(edge_s, sums[0], sums[1], sums[2], sums[3], most)


def integrals(time_s: Floats, value: NDArray[np.float64] | NDArray[np.bool_], edge_s: Floats) -> Floats:
    """Return the integral of a step series over each bin.

    ``value[i]`` holds from ``time_s[i]`` to ``time_s[i + 1]``; the last time is the end of the series.
    Shapes: time_s and value (k,), edge_s (b + 1,); returns (b,). Cost O(k + b log k): one running sum, and one search
    per edge.
    """
    if len(time_s) < 2:
        return np.zeros(len(edge_s) - 1)
    total = np.empty(len(time_s))
    total[0] = 0.0
    np.cumsum(value[:-1] * np.diff(time_s), out=total[1:])
    edge = np.clip(edge_s, time_s[0], time_s[-1])
    row = np.searchsorted(time_s, edge, side="right") - 1
    return np.diff(total[row] + value[row] * (edge - time_s[row]))


def hourly(digest: Digest, zero_s: float = 0.0) -> tuple[Floats, Digest]:
    """Sum bins into whole hours of the clock.

    Returns the begin of each hour (h,), and the sums as a ``Digest`` of h bins.
    """
    hour = np.floor((digest.edge_s[:-1] - zero_s) / HOUR_S)
    begins, place = np.unique(hour, return_inverse=True)

    def total(column: Floats) -> Floats:
        return np.asarray(np.bincount(place, column, len(begins)), np.float64)

    starts = np.concatenate(([digest.edge_s[0]], zero_s + begins[1:] * HOUR_S, [digest.edge_s[-1]]))
    machine, scope = total(digest.machine_j), total(digest.scope_j)
    sums = Digest(starts, machine, scope, total(digest.over_s), total(digest.over_j), digest.overshoot_w)
    return zero_s + begins * HOUR_S, sums
