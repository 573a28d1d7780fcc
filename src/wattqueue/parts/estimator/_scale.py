"""Watts of one unit at every option of a machine, from one figure at the reference frequency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction


def partition_figures(machine: Machine) -> tuple[Floats, Floats]:
    """Idle and maximum watts of one unit by option; an unknown maximum is NaN. Shapes (O,)."""
    idle = np.array([p.idle_w for p in machine.partitions], np.float64)
    top = np.array([np.nan if p.max_w is None else p.max_w for p in machine.partitions], np.float64)
    return idle[machine.option_partition], top[machine.option_partition]


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """A machine's figures by option, looked up once. Shapes (O,): idle and maximum watts, dynamic factor."""

    idle_w: Floats
    max_w: Floats
    dynamic: Floats

    @classmethod
    def of(cls, machine: Machine) -> Scale:
        """The figures of a machine."""
        idle, top = partition_figures(machine)
        return cls(idle, top, machine.option_dynamic_factor)

    def by_option(self, power_w: ArrayLike) -> Floats:
        """Watts at every option: ``idle + (P - idle) * dynamic factor``. Shape (C, O).

        ``power_w`` (C,) holds watts of one unit at the reference frequency, NaN for the unit's maximum,
        which stays NaN where the machine states none. A figure below the idle watts has no dynamic
        share, and stays as it is.
        """
        power = np.asarray(power_w, np.float64)[:, np.newaxis]
        power = np.where(np.isnan(power), self.max_w, power)
        idle = np.fmin(self.idle_w, power)
        scaled: Floats = idle + (power - idle) * self.dynamic
        return scaled


def static_prediction(
    power_w: NDArray[np.float64], machine: Machine, row: NDArray[np.int32] | None = None
) -> Prediction:
    """A Prediction from watts at the reference frequency; gaps become the unit's maximum.

    Shapes: ``power_w`` (C,), ``row`` (n,) or None. Run times follow the machine's own figures.
    """
    power = Scale.of(machine).by_option(power_w)
    time = np.ascontiguousarray(np.broadcast_to(machine.option_time_factor, power.shape))
    return Prediction(power, time, row)
