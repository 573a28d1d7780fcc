"""Counts of events over time, and readings of counters that wrap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats

COUNTER_BITS = 48
"""Width of Intel's general-purpose counters (SDM volume 3B, section 20.2.2)."""


@dataclass(frozen=True, slots=True, eq=False)
class CounterTrace:
    """Events counted in t intervals on one socket.

    Attributes:
        time_s: End of each interval, seconds, ascending. Shape (t,).
        counts: Events in each interval by name, NaN where an event was not counted. Shapes (t,).
        multiplexed: Share of intervals in which perf had to scale a count, since events shared a counter.
    """

    time_s: Floats
    counts: Mapping[str, Floats]
    multiplexed: float = 0.0

    def __len__(self) -> int:
        return len(self.time_s)


def increments(readings: NDArray[np.integer], bits: int = COUNTER_BITS, where: str = "counter") -> Floats:
    """Return the events between successive readings of a counter that wraps at 2**bits. Shape (t,) -> (t - 1,).

    A reading below the one before means that the counter wrapped once. More than half of the range in one interval
    cannot be told from a counter that was set back, so it is refused: at 3 GHz, half of 48 bits is 13 hours.

    Raises: InputError for a reading outside 0 .. 2**bits - 1, and for a counter that was set back.
    """
    values = np.asarray(readings)
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= 2**bits):
        raise InputError(f"a reading is outside 0 to 2**{bits} - 1", where=where, hint="state the counter's bits")
    # Wrapping subtraction of unsigned integers, reduced to the counter's width.
    unsigned = values.astype(np.uint64)
    steps = (unsigned[1:] - unsigned[:-1]) & np.uint64((1 << bits) - 1)
    back = np.flatnonzero(steps > np.uint64(1 << (bits - 1)))
    if len(back):
        raise InputError(
            f"the counter was set back between readings {back[0] + 1} and {back[0] + 2}",
            where=where,
            hint="cut the recording there",
        )
    found: Floats = steps.astype(np.float64)
    return found
