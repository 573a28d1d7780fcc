"""The two options of the fall-back DVFS: full speed, and the speed of consenting jobs during a load target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.bounds import FREQUENCY_HZ
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Ints, Prediction


class Consenting:
    """What parts share that slow consenting jobs during a load target.

    Args:
        frequency_hz: The frequency of a slowed job: the highest of its partition that is not above it. None: the lowest
            of the partition.

    Raises: PolicyError for a frequency outside its range.
    """

    def __init__(self, *, frequency_hz: float | None = None) -> None:
        if frequency_hz is not None:
            FREQUENCY_HZ.require(frequency_hz, "frequency_hz", where=type(self).__name__, kind=PolicyError)
        self.frequency_hz = frequency_hz

    def slow(self, entries: Entries, machine: Machine) -> Ints:
        """Return the option of a slowed job of each entry. Shape (m,)."""
        option = machine.option_start[1:].astype(np.int32) - 1
        for p, part in enumerate(machine.partitions):
            if self.frequency_hz is not None and len(part.frequencies_hz):
                below = np.flatnonzero(np.asarray(part.frequencies_hz) <= self.frequency_hz)
                option[p] = machine.option_start[p] + (int(below[0]) if len(below) else len(part.frequencies_hz) - 1)
        return option[entries.partition]

    def willing(self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine) -> NDArray[np.bool_]:
        """Return which entries may be slowed: of jobs that consent, within the slow-down that they allow. Shape (m,).

        ``latest_end_s`` is looked at when a job starts or is slowed down while it runs, not here.
        """
        consent = jobs.consent
        if consent is None:
            return np.zeros(len(entries.job), np.bool_)
        factor = prediction.time_factor
        row = prediction.rows(entries.job) if len(factor) > 1 else np.zeros(len(entries.job), np.int32)
        slow, full = self.slow(entries, machine), machine.option_start[entries.partition]
        most = np.where(np.isnan(consent.greatest_slowdown), np.inf, consent.greatest_slowdown)[entries.job]
        stretch = factor[row, slow] / factor[row, full]
        return np.asarray(consent.given[entries.job] & (stretch <= most * (1 + 1e-12)), np.bool_)

    def late(
        self, jobs: KnownJobs, entries: Entries, machine: Machine, start_s: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return which entries would pass their latest end if they started slowed at ``start_s``. Shapes (m,)."""
        if jobs.consent is None:
            return np.zeros(len(entries.job), np.bool_)
        latest = jobs.consent.latest_end_s[entries.job]
        end = start_s + jobs.walltime_s[entries.job] * machine.option_time_factor[self.slow(entries, machine)]
        return np.asarray(~np.isnan(latest) & (end > latest), np.bool_)
