"""Watts of a unit at every option, vectorised with numpy."""

from __future__ import annotations

import numpy as np

from wattqueue.parts.contracts import Floats


def watts_by_option(power_w: Floats, idle_w: Floats, max_w: Floats, dynamic: Floats) -> Floats:
    """Shapes (C,), then figures of a unit (O,) -> (C, O)."""
    power = np.where(np.isnan(power_w[:, np.newaxis]), max_w, power_w[:, np.newaxis])
    idle = np.fmin(idle_w, power)
    found: Floats = idle + (power - idle) * dynamic
    return found
