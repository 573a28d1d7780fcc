"""What paper 4 prints of its campaign (sections 6.4 and 6.5), and what it leaves open.

The text does not say how a share of the cap is averaged over the three hours, nor whether the run's highest
excess is averaged over all runs or those that break the cap; means over time and over all runs stand here.
"""

from __future__ import annotations

from dataclasses import dataclass

HIGHEST_DYNAMIC_W = 955_080.0
"""Highest dynamic power of Marconi100 in 2022 (section 6.4)."""
CAPS_PERCENT = tuple(range(10, 71, 5))
"""Of the highest dynamic power; section 6.4 has the range, 1,950 simulations / 30 / 5 the thirteen steps."""
CAPPED_S = 3 * 3600.0
"""The cap is on for the first three hours."""
WORKLOADS = 30
LEFT_OUT = 1
"""Workloads left out of Figure 5: "powercapping greatly increases scheduling performance on it"."""

EASY = "easy"
"""The baseline, without a cap."""
NAIVE, MAX, MEAN = "easy+pc-naive", "easy+pc-max", "easy+pc-mean"
REAL_MAX, REAL_MEAN = "easy+pc-real-max", "easy+pc-real-mean"
POLICIES = (NAIVE, MAX, MEAN, REAL_MAX, REAL_MEAN)


@dataclass(frozen=True, slots=True)
class Claim:
    """A printed figure: of a policy, in percent, and what it is."""

    policy: str
    metric: str
    percent: float
    says: str


UNUSED, TURNAROUND, BROKEN = "unused_percent", "turnaround_change_percent", "broken"
EXCESS, EXCESS_MEDIAN = "excess_percent", "excess_percent_median"

CLAIMS = (
    Claim(NAIVE, UNUSED, 74.0, "power under-utilization"),
    Claim(NAIVE, TURNAROUND, 15.0, "increase of the mean turnaround time over EASY"),
    Claim(MAX, UNUSED, 44.0, "power under-utilization"),
    Claim(MAX, TURNAROUND, 11.0, "increase of the mean turnaround time over EASY"),
    Claim(MAX, BROKEN, 0.0, "share of runs that break the cap"),
    Claim(REAL_MAX, BROKEN, 0.0, "share of runs that break the cap"),
    Claim(MEAN, UNUSED, -3.0, "power over-utilization of 3 %"),
    Claim(MEAN, TURNAROUND, 6.0, "increase of the mean turnaround time over EASY"),
    Claim(MEAN, BROKEN, 95.0, "share of runs that break the cap"),
    Claim(MEAN, EXCESS, 14.0, "highest excess of a run, mean"),
    Claim(MEAN, EXCESS_MEDIAN, 14.0, "highest excess of a run, median"),
)
