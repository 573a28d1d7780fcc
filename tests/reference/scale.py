"""Watts of a unit at every option, vectorised with numpy."""

from __future__ import annotations

import numpy as np

from wattqueue.model.gpu_limits import share_left
from wattqueue.parts.contracts import Floats


def watts_by_option(power_w: Floats, idle_w: Floats, max_w: Floats, dynamic: Floats, held_w: Floats) -> Floats:
    """Shapes (C,), then figures of a unit (O,) -> (C, O)."""
    power = np.where(np.isnan(power_w[:, np.newaxis]), max_w, power_w[:, np.newaxis])
    idle = np.fmin(idle_w, power)
    of_gpus = (power - idle) * (1.0 - dynamic)
    promised = np.minimum(of_gpus, held_w)
    learned = of_gpus * share_left(of_gpus, np.broadcast_to(held_w, of_gpus.shape))
    left = np.where(np.isnan(power_w[:, np.newaxis]), promised, learned)
    found: Floats = idle + (power - idle) * dynamic + np.where(held_w > 0, left, 0.0)
    return found


def without_limits(
    watts: Floats, option: np.ndarray[tuple[int], np.dtype[np.int64]], idle_w: Floats, max_w: Floats, dynamic: Floats,
    held_w: Floats,
) -> Floats:  # fmt: skip
    """Shapes (k,), then figures of a unit (O,): the least of 200,001 watts up to the maximum that draws as much."""
    found = watts.copy()
    for i, o in enumerate(option):
        if o < 0 or held_w[o] <= 0 or np.isnan(watts[i]) or watts[i] <= idle_w[o]:
            continue
        tried = np.linspace(watts[i], max(max_w[o], watts[i]), 200_001)
        drawn = watts_by_option(tried, *(figures[o : o + 1] for figures in (idle_w, max_w, dynamic, held_w)))[:, 0]
        enough = np.flatnonzero(drawn >= watts[i])
        found[i] = tried[enough[0]] if len(enough) else tried[-1]
    return found
