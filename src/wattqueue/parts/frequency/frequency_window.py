"""Run each entry at the highest frequency of its window that the cap has room for (PAS).

A job without a window runs at its partition's highest frequency, or waits. A window is stated by the user, in two
columns of the job table, or for all other jobs by the policy.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Floats, Ints, Prediction

COLUMNS = ("frequency_min_hz", "frequency_max_hz")
"""Columns of ``Jobs.extra`` with the window of each job in Hz; NaN where the user states none."""


class FrequencyWindow:
    """A window of options; the pass takes the highest frequency in it that fits the cap.

    Args:
        lowest_hz: Lowest frequency of jobs that state no window; None: such a job runs at the highest frequency only.
        highest_hz: Highest frequency of these jobs.

    The window of an entry is what lies between the two, and at least one option: the highest that is not above it, or
    the partition's lowest where all are.

    Raises: PolicyError for a window that is empty or negative; InputError for one in the job table, naming the row.
    Reference: paper 3, section 4.1.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks", "windows")

    def __init__(self, *, lowest_hz: float | None = None, highest_hz: float = float("inf")) -> None:
        if lowest_hz is not None and not 0.0 <= lowest_hz <= highest_hz:
            raise PolicyError(f"a window of {lowest_hz:g} to {highest_hz:g} Hz", where="frequency-window")
        self.lowest_hz, self.highest_hz = lowest_hz, highest_hz

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry. Shapes (m,)."""
        low, high = self._windows_of(jobs, entries)
        start, end = machine.option_start[:-1], machine.option_start[1:] - 1
        first, last = (side[entries.partition].copy() for side in (start, end))
        for p, part in enumerate(machine.partitions):
            of = entries.partition == p
            # Frequencies from the lowest up, since searchsorted wants them to rise.
            rising = np.array(part.frequencies_hz[::-1])
            if not len(rising):
                continue
            below = np.searchsorted(rising, high[of], side="right")
            at_least = np.searchsorted(rising, low[of], side="left")
            first[of] = start[p] + np.minimum(len(rising) - below, len(rising) - 1)
            last[of] = start[p] + np.maximum(len(rising) - 1 - at_least, 0)
        return first, np.maximum(first, last)

    def without_options(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> NDArray[np.bool_]:
        """Return which entries have a window that holds no frequency of their partition. Shape (m,)."""
        low, high = self._windows_of(jobs, entries)
        holds = np.isinf(low)  # no window
        for p, part in enumerate(machine.partitions):
            of = entries.partition == p
            clocks = np.array(part.frequencies_hz)
            inside = (clocks >= low[of, np.newaxis]) & (clocks <= high[of, np.newaxis])
            holds[of] |= inside.any(1) | (len(clocks) == 0)
        return ~holds

    def _windows_of(self, jobs: KnownJobs, entries: Entries) -> tuple[Floats, Floats]:
        """Return the lowest and highest frequency of each entry. Shapes (m,). Raises: InputError."""
        low, high = self._windows(jobs)
        return low[entries.job], high[entries.job]

    def _windows(self, jobs: KnownJobs) -> tuple[Floats, Floats]:
        """Return the lowest and highest frequency of each job. Shapes (n,). Raises: InputError."""
        low, high = (_column(jobs, name) for name in COLUMNS)
        bad = (low < 0) | (low > high)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"a window of {low[row]:g} to {high[row]:g} Hz", where=f"column {COLUMNS[0]}, row {row + 1}"
            )
        stated = ~(np.isnan(low) & np.isnan(high))
        lowest = np.inf if self.lowest_hz is None else self.lowest_hz
        low = np.where(stated, np.nan_to_num(low, nan=0.0), lowest)
        return low, np.where(stated, np.nan_to_num(high, nan=np.inf, posinf=np.inf), self.highest_hz)


def _column(jobs: KnownJobs, name: str) -> Floats:
    """Return a column of frequencies, NaN where the table has none. Raises: InputError."""
    values = jobs.extra.get(name)
    if values is None:
        return np.full(len(jobs), np.nan)
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"holds something that is not a number: {error}", where=f"column {name}") from error
