"""Keep jobs out of capped windows where their users want that: only frequencies at which they end before the next."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.backfill.announced_caps import willing
from wattqueue.parts.contracts import Entries, Floats, Ints, Prediction


class CappedWindows:
    """Take from a window the frequencies at which a job that starts at its submission reaches into a capped window.

    Of jobs alone whose users want none (column ``capped_windows`` 0): a lower frequency takes longer, so these jobs run
    at those at which they end, by their planned time, before the next finite cap. Where none is left, the job keeps the
    nearest one, the highest, and is counted; where that is all jobs, the file or the row is wrong, and the run is
    refused. Other jobs keep the window of the parts before this one in a list; alone it gives all frequencies of the
    partition.

    It holds nothing back: a job that starts later than at its submission may reach into a cap all the same, unless the
    pass looks at the same column (``announced-caps``).

    Reference: paper 3, section 4.1 (a cap for a future window, and a window of frequencies by the user); that users may
    stay out of capped windows is WattQueue's own.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks", "limit", "capped-windows")

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry. Shapes (m,)."""
        outside = self._outside(jobs, entries, prediction, machine, signals)
        first = np.argmax(outside, axis=1)
        options = np.arange(outside.shape[1])
        # The window ends before the first option that reaches into a cap; there is one behind the last.
        ends = ~outside & (options > first[:, np.newaxis])
        last = np.where(ends.any(axis=1), np.argmax(ends, axis=1) - 1, outside.shape[1] - 1)
        highest, some = machine.option_start[entries.partition], outside.any(axis=1)
        return np.where(some, first, highest).astype(np.int32), np.where(some, last, highest).astype(np.int32)

    def without_options(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> NDArray[np.bool_]:
        """Return which entries reach into a capped window at each frequency, against the wish of their user. (m,)."""
        outside = self._outside(jobs, entries, prediction, machine, signals)
        return np.asarray(~outside.any(axis=1), np.bool_)

    def _outside(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> NDArray[np.bool_]:
        """Return which options each entry may take: of its partition, and by its user's wish. Shape (m, O)."""
        options = np.arange(len(machine.option_partition))
        of_partition = machine.option_partition[options] == entries.partition[:, np.newaxis]
        begin_s = jobs.submit_s[entries.job]
        free_s = _free_until_s(signals.cap, begin_s) - begin_s
        factor = prediction.factors(entries.job[:, np.newaxis], options)
        reaches = jobs.walltime_s[entries.job][:, np.newaxis] * factor > free_s[:, np.newaxis]
        unwilling = (willing(jobs) == 0)[entries.job]
        return np.asarray(of_partition & ~(reaches & unwilling[:, np.newaxis]), np.bool_)


def _free_until_s(cap: Cap, time_s: Floats) -> Floats:
    """Return until when no finite cap is in force from each time on; the time itself where one is. Shape as given."""
    finite = np.append(cap.time_s[np.isfinite(cap.cap_w)], np.inf)
    return np.where(np.isfinite(cap.at(time_s)), time_s, finite[np.searchsorted(finite, time_s)])
