"""Slow consenting jobs that start during a load target (paper 5, section 3.2 and Figure 2)."""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency._slowing import Slowing


class TargetAtStart(Slowing):
    """Decide when nodes are allocated: arrows 5 to 7 of Figure 2.

    The allocator compares with the power limitation (5), looks at the flag of the job (6), and has the processing
    performance of its nodes changed (7): an allowed job that starts while a load target is in force runs at the lower
    frequency to its end. All other jobs run at the highest frequency. The flag is looked at by rule 20 of
    docs/semantics.md, as for every part.

    Args:
        frequency_hz: As in ``Slowing``; how far DVFS goes is not in the text.

    Reference: paper 5, section 3.2.
    """

    by_target: bool = True
    """A job starts at the last option of its window while a load target is in force, else at the first."""

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return full speed and the lower one. Shapes (m,)."""
        return np.asarray(machine.option_start[entries.partition], np.int32), self.slow(entries, machine)
