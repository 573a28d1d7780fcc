"""Compute confidence intervals and paired tests over seeds.

scipy provides the distributions; it is imported only where a group has several seeds (extra ``ml``).

Reference: Student, The probable error of a mean, Biometrika 6 (1908); Wilcoxon, Individual comparisons by ranking
methods, Biometrics Bulletin 1 (1945).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95
"""Confidence of the intervals."""
FEWEST_DRAWS = 20
"""Independent draws without which nothing is called a gain or a loss."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over n runs and its 95 % interval by Student's t distribution.

    Attributes:
        n: Number of runs.
        mean: Their mean.
        low: Lower end of the interval, None for one run.
        high: Upper end of the interval, None for one run.
    """

    n: int
    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def half(self) -> float | None:
        """Return half the width of the interval, None for one run."""
        return None if self.high is None else self.high - self.mean

    @property
    def side(self) -> int | None:
        """Return 1 where the interval lies above 0, -1 where below, 0 where 0 is in it; None without an interval."""
        return None if self.low is None or self.high is None else int(self.low > 0.0) - int(self.high < 0.0)

    def document(self) -> dict[str, float | None]:
        """Return mean and interval for JSON."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Paired:
    """Differences of runs with equal seeds and two tests against zero.

    Attributes:
        difference: Mean difference with its interval.
        p_t: p of Student's paired test (assumes nearly normal differences); None where all differences are equal.
        p_wilcoxon: p of the signed-rank test (assumes symmetric differences); None as above.
    """

    difference: Estimate
    p_t: float | None
    p_wilcoxon: float | None


def estimate(values: Sequence[float] | Floats) -> Estimate:
    """Return the mean of independent runs, with its interval where there are at least two."""
    data = np.asarray(values, np.float64)
    mean = float(data.mean())
    if len(data) < 2:
        return Estimate(len(data), mean)
    from scipy.stats import t

    half = float(t.ppf(0.5 + LEVEL / 2, len(data) - 1) * data.std(ddof=1) / np.sqrt(len(data)))
    return Estimate(len(data), mean, mean - half, mean + half)


def paired(base: Sequence[float] | Floats, other: Sequence[float] | Floats) -> Paired | None:
    """Compare runs pair by pair: ``other`` minus ``base``, equal seeds at equal positions.

    None for fewer than two pairs.
    """
    differences = np.asarray(other, np.float64) - np.asarray(base, np.float64)
    if len(differences) < 2:
        return None
    found = estimate(differences)
    if np.ptp(differences) == 0:
        # All alike: certain if they differ at all, and nothing to test.
        return Paired(found, None, None)
    from scipy.stats import ttest_1samp, wilcoxon

    return Paired(found, float(ttest_1samp(differences, 0.0).pvalue), float(wilcoxon(differences).pvalue))


def with_interval(found: Estimate, sign: str = "+", digits: int = 1) -> str:
    """Return a mean with its 95 % interval: ± where it is symmetric, else both ends; alone where there is none."""
    if math.isnan(found.mean):
        return "–"
    text = f"{found.mean:{sign}z.{digits}f}"
    if found.low is None or found.high is None:
        return text
    below, above = found.mean - found.low, found.high - found.mean
    if abs(above - below) > 0.05 * max(above, below, 1.0):
        return f"{text} [{found.low:{sign}z.{digits}f}, {found.high:{sign}z.{digits}f}]"
    return f"{text} ±{above:.{digits}f}" if above < 10 else f"{text} ±{above:.0f}"
