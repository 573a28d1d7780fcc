"""Windows of one option: the best one of the entry's job on the entry's partition."""

from __future__ import annotations

import numpy as np

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.efficiency import choose


def fixed_window(
    entries: Entries, prediction: Prediction, machine: Machine, cost: str, t_weight: float = 1.0, reading: str = "text"
) -> tuple[Ints, Ints]:
    """Return the first and last option of each entry, equal numbers. Shapes (m,).

    ``cost`` is ``distance``, ``energy`` or ``time`` (``efficiency.choose``). An entry without an offered option gets
    its partition's highest frequency; that is not offered either, so the engine drops the entry.
    """
    best = choose(prediction, machine, cost, t_weight, reading).option
    option = best[prediction.rows(entries.job), entries.partition]
    highest = machine.option_start[:-1][entries.partition]
    option = np.where(option < 0, highest, option).astype(np.int32)
    return option, option
