"""What came out of a run: when and where each job ran, and the machine's power as a step series."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats


class State(IntEnum):
    """How a job ended."""

    NOT_STARTED = 0
    COMPLETED = 1
    KILLED = 2
    REJECTED = 3


class Reason(IntEnum):
    """Why a job was rejected at submission (SEMANTICS rule 4)."""

    NONE = 0
    TOO_WIDE = 1
    TOO_MUCH_POWER = 2


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """One row a job, in the order of the job table. Times on the trace's clock, NaN where there is none.

    Shapes: all (n,) but ``unit_low`` and ``unit_high`` (intervals,): job j held the units
    ``unit_low[k]..unit_high[k]`` (both included, numbered over the whole machine, partition by
    partition) for k in ``unit_start[j] .. unit_start[j] + unit_count[j] - 1``.
    ``energy_j`` is the whole job's, ``predicted_w`` what the ledger counted for the whole job when
    it started, ``option`` the (partition, frequency) it started with, -1 where it never started.
    """

    state: NDArray[np.int8]
    reason: NDArray[np.int8]
    start_s: Floats
    end_s: Floats
    option: NDArray[np.int16]
    energy_j: Floats
    predicted_w: Floats
    unit_start: NDArray[np.int64]
    unit_count: NDArray[np.int32]
    unit_low: NDArray[np.int32]
    unit_high: NDArray[np.int32]

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Jobs that ran to an end. Shape (n,)."""
        ended: NDArray[np.bool_] = (self.state == State.COMPLETED) | (self.state == State.KILLED)
        return ended


@dataclass(frozen=True, slots=True, eq=False)
class PowerSeries:
    """The machine's true power: a value holds from its time to the next. Shapes (k,), watts.

    ``jobs_w`` sums running jobs; ``other_w`` is what powered units without a job, and units that
    boot, shut down or are off, draw; ``busy_idle_w`` is the idle share inside ``jobs_w``;
    ``busy_units`` counts occupied units. The last row is the end of the last job.
    """

    time_s: Floats
    jobs_w: Floats
    other_w: Floats
    busy_idle_w: Floats
    busy_units: NDArray[np.int32]

    @property
    def machine_w(self) -> Floats:
        """Watts of every unit, busy or not."""
        return self.jobs_w + self.other_w

    def scope_w(self, cap_scope: str) -> Floats:
        """Watts in the scope of a cap (SEMANTICS rule 14): machine, dynamic or jobs."""
        if cap_scope == "machine":
            return self.machine_w
        if cap_scope == "dynamic":
            return self.jobs_w - self.busy_idle_w
        return self.jobs_w
