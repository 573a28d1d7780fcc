"""A control whose steps a kernel takes, in its Python form; and what sensors show of devices, unit by unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wattqueue.parts.actions import Action
from wattqueue.parts.run_contracts import Control
from wattqueue.policy.view import View


class InPython:
    """A control without its compiled step: each step is a call of ``act``."""

    reads_sensors = True

    def __init__(self, control: Control) -> None:
        self.control, self.period_s, self.events = control, control.period_s, control.events

    def begin(self) -> None:
        """Forget the run before."""
        begin = getattr(self.control, "begin", None)
        if begin is not None:
            begin()

    def act(self, view: View) -> Sequence[Action]:
        """Return the actions of a step."""
        return self.control.act(view)


def device_watts(sample_uw: Sequence[int], of_unit: Sequence[int], device_of_unit: Sequence[int]) -> list[float]:
    """Watts of each device: even shares of its units in their sensors' samples, NaN below 0 (no sample)."""
    found = [0.0] * (max(device_of_unit) + 1)
    for sensor, device in zip(of_unit, device_of_unit, strict=True):
        uw = sample_uw[sensor]
        found[device] += uw / 1e6 / list(of_unit).count(sensor) if uw >= 0 else math.nan
    return found
