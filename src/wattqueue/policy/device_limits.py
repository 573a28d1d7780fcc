"""Limits and readings of devices as a driver knows them: what is in force, what can be set, what is measured.

A simulation has none: every limit takes effect at once, so that a control knows what it set. On a cluster a limit is
set by the agent of a node, which may be silent or refuse it, so that a control begins each step with what the driver
knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.parts.actions import SetDeviceLimits
from wattqueue.parts.contracts import Floats
from wattqueue.policy.actions import NO_OPTION

OUT_OF_REACH = "the agent of a node does not carry it out"
"""Why a limit of a device that cannot be set is refused; the driver's status names the node and the reason."""
BELOW_RANGE = "below what the node takes"
Flags = NDArray[np.bool_]
SLACK_W = 1e-6
"""Watts by which a limit may be outside a range: rounding of microwatts."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLimits:
    """Limits of all devices, in watts. Shapes (D,).

    A device that cannot be set now has ``low_w`` = ``high_w`` = ``cap_w``: the most that it may draw.

    Attributes:
        cap_w: Limit that holds, or that is being set; within ``low_w`` and ``high_w``.
        low_w: Lowest limit that can be set.
        high_w: Highest one.
        power_w: What each draws now, NaN without a fresh reading.
        low_hz: Lowest frequency that can be set, NaN where none can.
        high_hz: Highest one.
    """

    cap_w: Floats
    low_w: Floats
    high_w: Floats
    power_w: Floats
    low_hz: Floats
    high_hz: Floats

    @property
    def settable(self) -> NDArray[np.bool_]:
        """Return which devices can be set at all. Shape (D,)."""
        return self.low_w < self.high_w

    def with_caps(self, action: SetDeviceLimits) -> tuple[DeviceLimits, dict[int, float], str]:
        """Return the limits after an action, the new ones by device, and why it is refused (empty if it is not).

        A limit above what can be set, infinity among them, is the highest that can. The action is carried out as a
        whole or not at all.

        Raises: TypeError for arrays of other kinds or lengths.
        """
        devices, caps = np.asarray(action.devices), np.asarray(action.caps_w, np.float64)
        if not len(devices) and not len(caps):
            return self, {}, ""
        if devices.dtype.kind not in "iu" or devices.ndim != 1 or devices.shape != caps.shape:
            raise TypeError("devices are whole numbers, and as many as caps_w")
        if devices.min() < 0 or devices.max() >= len(self.cap_w) or not (caps >= 0).all():
            return self, {}, NO_OPTION
        changed = (caps < self.cap_w[devices] - SLACK_W) | (caps > self.cap_w[devices] + SLACK_W)
        fixed = ~self.settable[devices]
        # Infinity lifts a limit: of a device without one that is nothing new.
        if (fixed & changed & np.isfinite(caps)).any():
            return self, {}, OUT_OF_REACH
        if (~fixed & (caps < self.low_w[devices] - SLACK_W)).any():
            return self, {}, BELOW_RANGE
        devices, caps = devices[~fixed], caps[~fixed]
        new = self.cap_w.copy()
        new[devices] = np.clip(caps, self.low_w[devices], self.high_w[devices])
        return replace(self, cap_w=new), dict(zip(devices.tolist(), new[devices].tolist(), strict=True)), ""


class DeviceReadings(NamedTuple):
    """Readings of all devices, as live telemetry has them. Shapes (D,)."""

    power_w: Floats
    """Watts; NaN without a fresh reading."""
    taken_s: Floats
    """When each was taken, seconds on the clock of the round."""
    moves: Flags
    """Whether the meter moves; False where it has shown the same watts for so long that it may stand still."""
