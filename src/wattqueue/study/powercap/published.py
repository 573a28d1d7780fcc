"""Figures that paper 4 prints of its campaign (sections 6.4 and 6.5).

The text leaves open how a share of the cap is averaged over the three hours, and whether a run's highest excess is
averaged over all runs or over those that exceed the cap. Here both are means over time and over all runs.
"""

from __future__ import annotations

from dataclasses import dataclass

HIGHEST_DYNAMIC_W = 955_080.0
"""Highest dynamic power of Marconi100 in 2022 (section 6.4)."""
CAPS_PERCENT = tuple(range(10, 71, 5))
"""Caps in percent of the highest dynamic power. Section 6.4 states the range; 1,950 simulations / 30 / 5 = 13 steps."""
CAPPED_S = 3 * 3600.0
"""The cap is on for the first three hours."""
WORKLOADS = 30
"""Number of workloads (section 6.4)."""
LEFT_OUT = 1
"""Workloads left out of Figure 5: "powercapping greatly increases scheduling performance on it"."""

EASY = "easy"
"""The baseline, without a cap."""
NAIVE, MAX, MEAN = "easy+pc-naive", "easy+pc-max", "easy+pc-mean"
REAL_MAX, REAL_MEAN = "easy+pc-real-max", "easy+pc-real-mean"
POLICIES = (NAIVE, MAX, MEAN, REAL_MAX, REAL_MEAN)
"""The paper's five estimators as policies; the real ones are oracles."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A printed figure."""

    policy: str
    """The policy."""
    metric: str
    """Metric of ``results.METRICS``, or one with ``_median``."""
    percent: float
    """The figure, in percent."""
    says: str
    """What the paper calls it."""


UNUSED, TURNAROUND, BROKEN = "unused_percent", "turnaround_change_percent", "broken"
EXCESS, EXCESS_MEDIAN = "excess_percent", "excess_percent_median"

CLAIMS = (
    PublishedFigure(NAIVE, UNUSED, 74.0, "power under-utilization"),
    PublishedFigure(NAIVE, TURNAROUND, 15.0, "increase of the mean turnaround time over EASY"),
    PublishedFigure(MAX, UNUSED, 44.0, "power under-utilization"),
    PublishedFigure(MAX, TURNAROUND, 11.0, "increase of the mean turnaround time over EASY"),
    PublishedFigure(MAX, BROKEN, 0.0, "share of runs that break the cap"),
    PublishedFigure(REAL_MAX, BROKEN, 0.0, "share of runs that break the cap"),
    PublishedFigure(MEAN, UNUSED, -3.0, "power over-utilization of 3 %"),
    PublishedFigure(MEAN, TURNAROUND, 6.0, "increase of the mean turnaround time over EASY"),
    PublishedFigure(MEAN, BROKEN, 95.0, "share of runs that break the cap"),
    PublishedFigure(MEAN, EXCESS, 14.0, "highest excess of a run, mean"),
    PublishedFigure(MEAN, EXCESS_MEDIAN, 14.0, "highest excess of a run, median"),
)
