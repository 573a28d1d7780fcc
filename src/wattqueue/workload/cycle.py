"""The weekly cycle of submissions: intensity by hour of the week, and its inverse.

Generators draw for each session or job a share in [0, 1], meaning "after this part of all submissions", and
``WeekCycle.time_s`` turns shares into times. So the number of jobs is exact, the cycle is kept whatever the length of
the trace, and a trace can be stretched or compressed to a load without touching its jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HOUR_S = 3600.0
DAY_S = 86400.0

# Submissions by hour of day (UTC) on Tuesday 1 February 2022, Marconi100: 1,981 real jobs of a minute and
# more (gridpilot's extract of M100 ExaData, CC-BY-4.0), as counted; smoothed below.
MARCONI_HOURS = (52, 37, 22, 29, 28, 27, 56, 90, 124, 132, 156, 114, 96, 123, 147, 105, 85, 92, 111, 72, 74, 66, 73, 50)
# Submissions by day of week, Monday first, the mean of Monday to Friday = 1: KTH-SP2, 28,489 real jobs of
# eleven months (Parallel Workloads Archive). Marconi100 itself offers no whole week.
KTH_DAYS = (0.91, 1.03, 1.07, 1.07, 0.92, 0.36, 0.45)


@dataclass(frozen=True, eq=False)
class WeekCycle:
    """Submission intensity by hour of the week, Monday 00:00 first."""

    rate: Floats
    """Relative intensity, mean 1. Shape (168,)."""

    @classmethod
    def of(cls, hours: tuple[float, ...] = MARCONI_HOURS, days: tuple[float, ...] = KTH_DAYS) -> WeekCycle:
        """Build a cycle as hour profile (moving mean over three hours, cyclic) times day factor.

        ``hours`` are 24 counts, ``days`` 7 factors, Monday first; only ratios matter.
        """
        counts = np.array(hours, np.float64)
        smooth = (np.roll(counts, 1) + counts + np.roll(counts, -1)) / 3.0
        rate = np.outer(np.array(days, np.float64), smooth).ravel()
        return cls(rate / rate.mean())

    def time_s(self, share: Floats, span_s: float) -> Floats:
        """Return the times at which ``share`` of a span's submissions have come; the span begins on a Monday, 00:00.

        The intensity is constant within an hour, so its integral is piecewise linear and is inverted by interpolation.
        The last hour may be shorter than the others. Shapes as ``share`` (within [0, 1]); seconds in [0, span_s].
        """
        hours = int(np.ceil(span_s / HOUR_S))
        edge = np.minimum(np.arange(hours + 1) * HOUR_S, span_s)
        rate = np.resize(self.rate, hours)
        total = np.concatenate(([0.0], np.cumsum(rate * np.diff(edge))))
        times: Floats = np.interp(share * total[-1], total, edge)
        return times
