"""What power sensors show of devices: readings for controls that limit them."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import entry
from wattqueue.kernels.state import Array, KernelView

NAN = float("nan")


@entry
def read_devices(view: KernelView, of_unit: Array, found_w: Array) -> None:
    """Write the measured watts of each device to ``found_w`` (D,) float64, NaN where a sensor shows nothing.

    ``of_unit`` (U,) int32 device of each unit. A device that shares a sensor with others has an even share by units.
    """
    measured = view.measured
    for device in range(len(found_w)):
        found_w[device] = 0.0
    for sensor in range(len(measured.sample_uw)):
        low, high, sample = measured.start[sensor], measured.start[sensor + 1], measured.sample_uw[sensor]
        unit = NAN
        if sample >= 0:
            unit = sample / codes.MICRO / (high - low)
        for k in range(low, high):
            found_w[of_unit[k]] += unit
