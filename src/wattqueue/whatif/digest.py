"""Reduce the power of a run to exact integrals over bins.

A run of half a million jobs with phases has tens of millions of power steps. What ``whatif`` needs of them are
integrals: energy, seconds above the cap, and energy by the price in force. Power is constant within a step and bins
begin wherever a price changes, so each integral is exact, and a run is kept as a few thousand numbers instead of its
steps. The power may come in windows, so that its steps never have to be in memory together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import CapSums, cap_sums
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps, excess_w

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
    """

    edge_s: Floats
    machine_j: Floats
    scope_j: Floats
    over_s: Floats
    over_j: Floats


def bin_edges(begin_s: float, end_s: float, inside: Iterable[Floats], zero_s: float = 0.0) -> Floats:
    """Return the edges of the bins: begin, end, whole hours in between, and the times of ``inside`` in between.

    Hours are those of a clock whose 0 is at ``zero_s``. Hours are kept as bins because the correlation of hourly
    power decides how much evidence a run holds (``safe``).
    """
    first = np.ceil((begin_s - zero_s) / HOUR_S)
    hours = zero_s + HOUR_S * np.arange(first, max(first, np.ceil((end_s - zero_s) / HOUR_S)))
    times = np.concatenate([hours, *inside])
    return np.unique(np.concatenate(([begin_s], times[(times > begin_s) & (times < end_s)], [end_s])))


def digest(windows: Iterable[PowerSeries], machine: Machine, cap: Cap, edge_s: Floats) -> tuple[Digest, CapSums]:
    """Sum a power series into bins, and as a whole for the metrics of the cap.

    Args:
        windows: The series, in windows that each begin where the one before ends.
        machine: Decides by its cap scope which watts the cap covers.
        cap: Constant cap.
        edge_s: Edges of the bins. Outside the span of the series nothing is counted.
    """
    sums, whole = np.zeros((4, len(edge_s) - 1)), CapSums()
    for power in windows:
        if len(power.time_s) < 2:
            continue
        begin, end = float(power.time_s[0]), float(power.time_s[-1])
        watts = power.scope_w(machine.cap_scope)
        columns: list[NDArray[Any]] = [power.machine_w, watts]
        kept = cap_sums(power, machine, cap, begin, end)
        whole = whole.plus(kept)
        if kept.over_s > 0:
            above = excess_w(watts, float(cap.cap_w[0]))
            columns += [above > 0.0, above]
        for total, column in zip(sums, columns, strict=False):
            total += Steps(power.time_s, column).integrals(np.clip(edge_s, begin, end))
    return Digest(edge_s, *sums), whole


def hourly(digest: Digest, zero_s: float = 0.0) -> tuple[Floats, Digest]:
    """Sum bins into whole hours of the clock.

    Returns the begin of each hour (h,), and the sums as a ``Digest`` of h bins.
    """
    hour = np.floor((digest.edge_s[:-1] - zero_s) / HOUR_S)
    begins, place = np.unique(hour, return_inverse=True)

    def total(column: Floats) -> Floats:
        return np.asarray(np.bincount(place, column, len(begins)), np.float64)

    starts = np.concatenate(([digest.edge_s[0]], zero_s + begins[1:] * HOUR_S, [digest.edge_s[-1]]))
    columns = (digest.machine_j, digest.scope_j, digest.over_s, digest.over_j)
    return zero_s + begins * HOUR_S, Digest(starts, *map(total, columns))
