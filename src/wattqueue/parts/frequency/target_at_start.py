"""Slow consenting jobs that start during a load target (paper 5, section 3.2 and Figure 2)."""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency._consenting import Consenting


class TargetAtStart(Consenting):
    """Decide when nodes are allocated: arrows 5 to 7 of Figure 2.

    The allocator compares with the power limitation (5), looks at the flag of the job (6), and has the processing
    performance of its nodes changed (7): an allowed job that starts while a load target is in force runs at the lower
    frequency to its end. All other jobs run at the highest frequency.

    A job with a ``latest_end_s`` is slowed only where it would meet it if it started at its submission.

    Args:
        frequency_hz: As in ``Consenting``; how far DVFS goes is not in the text.

    Reference: paper 5, section 3.2.
    """

    by_target: bool = True
    """A job starts at the last option of its window while a load target is in force, else at the first."""

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return full speed and the lower one of consenting jobs. Shapes (m,)."""
        first = np.asarray(machine.option_start[entries.partition], np.int32)
        slowed = self.willing(jobs, entries, prediction, machine)
        slowed &= ~self.late(jobs, entries, machine, jobs.submit_s[entries.job])
        return first, np.where(slowed, self.slow(entries, machine), first).astype(np.int32)
