"""Watts of one unit at every option of a machine, from one figure at the reference frequency.

The machine's own DVFS model: ``watts(f) = idle + (P - idle) (f / f_ref) ** alpha`` (``Partition.dvfs_alpha``).
Estimators that learn one figure per job use it; ``ear`` has a model of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction


def partition_figures(machine: Machine) -> tuple[Floats, Floats]:
    """Return idle and maximum watts of one unit by option; an unknown maximum is NaN. Shapes (O,)."""
    idle = np.array([p.idle_w for p in machine.partitions], np.float64)
    top = np.array([np.nan if p.max_w is None else p.max_w for p in machine.partitions], np.float64)
    return idle[machine.option_partition], top[machine.option_partition]


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """A machine's figures by option, looked up once. Shapes (O,)."""

    idle_w: Floats
    max_w: Floats
    """NaN where the machine states none."""
    dynamic: Floats
    """Watts above idle relative to the reference frequency; under a GPU limit the share that is not the GPUs'."""
    held_w: Floats
    """Watts above idle that a GPU limit leaves the GPUs of a unit, 0 for other options."""

    @classmethod
    def of(cls, machine: Machine) -> Scale:
        """Look up the figures of a machine."""
        idle, top = partition_figures(machine)
        return cls(idle, top, machine.option_host_share, machine.option_held_w)

    def apply(self, power_w: ArrayLike) -> Floats:
        """Return the watts at every option: ``idle + (P - idle) * dynamic factor``, or what a GPU limit leaves. (C, O).

        ``power_w`` (C,) holds watts of one unit at the reference frequency, NaN for the unit's maximum, which stays
        NaN where the machine states none. A figure below the idle watts has no dynamic share and is not scaled.
        """
        from wattqueue.kernels.scale import watts_by_option

        power = np.require(power_w, np.float64, ["C", "W"])  # kernels are compiled again for another sort of array
        scaled = np.empty((len(power), len(self.idle_w)))
        watts_by_option(power, self.idle_w, self.max_w, self.dynamic, self.held_w, scaled)
        return scaled

    def at_reference(self, watts: Floats, option: NDArray[np.int64]) -> Floats:
        """Return the watts at the reference frequency of figures at an option each: what ``apply`` takes. Shapes (C,).

        NaN stays NaN, and a figure at the reference frequency what it is.
        """
        idle, dynamic = np.fmin(self.idle_w[option], watts), self.dynamic[option]
        limited = self.held_w[option] > 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = idle + (watts - idle) / dynamic
        return np.where((dynamic == 1.0) | limited, self.without_limits(watts, option), scaled)

    def without_limits(self, watts: Floats, option: NDArray[np.integer]) -> Floats:
        """Return what units that drew ``watts`` at an option each (-1: not known) would draw without a GPU limit. (k,).

        At most the stated maximum; as measured at other options.
        """
        from wattqueue.kernels.scale import without_limits

        if not self.held_w.any():
            return watts
        found = np.array(watts, np.float64)
        without_limits(found, np.asarray(option, np.int64), self.idle_w, self.max_w, self.dynamic, self.held_w)
        return found

    def between(self, watts: float, known: int, wanted: int) -> float:
        """Return the watts at one option of a figure at another one of its partition."""
        if self.held_w[[known, wanted]].any():
            return float(self.apply([watts])[0, wanted])
        idle = min(float(self.idle_w[known]), watts)
        return idle + (watts - idle) * float(self.dynamic[wanted] / self.dynamic[known])


def times_by_option(power_w: Floats, machine: Machine) -> Floats:
    """Return run times over those at the first option of a partition, by the machine's figures. Shape (C, O).

    Those of frequencies are the same for all watts (``option_time_factor``), those under GPU limits depend on what a
    job draws without: ``power_w`` (C,), NaN for the unit's maximum.
    """
    time = np.broadcast_to(machine.option_time_factor, (len(power_w), len(machine.option_partition)))
    limited = [p for p, part in enumerate(machine.partitions) if part.gpu_caps_w]
    if limited:
        from wattqueue.model.gpu_options import time_factors

        time = time.copy()
    for p in limited:
        part = machine.partitions[p]
        first, end = machine.option_start[p : p + 2].tolist()
        known = np.where(np.isnan(power_w), part.max_w or np.nan, power_w)
        time[:, first:end] = time_factors(part, known - part.idle_w)
    return time


def static_prediction(
    power_w: NDArray[np.float64], machine: Machine, row: NDArray[np.int32] | None = None
) -> Prediction:
    """Return a Prediction from watts at the reference frequency; gaps become the unit's maximum.

    Shapes: ``power_w`` (C,), ``row`` (n,) or None. Time factors are the machine's (``times_by_option``).
    """
    power = Scale.of(machine).apply(power_w)
    return Prediction(power, np.ascontiguousarray(times_by_option(np.asarray(power_w), machine)), row)
