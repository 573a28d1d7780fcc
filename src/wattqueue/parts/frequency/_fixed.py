"""A window of one option: the best of the entry's job on the entry's partition."""

from __future__ import annotations

import numpy as np

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.efficiency import choose


def fixed_window(
    entries: Entries, prediction: Prediction, machine: Machine, cost: str, t_weight: float = 1.0, reading: str = "text"
) -> tuple[Ints, Ints]:
    """First and last option, equal. Shapes (m,).

    An entry without an option gets its partition's highest frequency: not offered either, the engine drops it.
    """
    best = choose(prediction, machine, cost, t_weight, reading).option
    row = entries.job if prediction.row is None else prediction.row[entries.job]
    option = best[row, entries.partition]
    highest = machine.option_start[:-1][entries.partition]
    option = np.where(option < 0, highest, option).astype(np.int32)
    return option, option
