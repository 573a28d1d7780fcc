"""Intervals and paired tests over seeds.

scipy does the distributions; it is loaded only where a group has several seeds (extra ``ml``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over n runs and its 95 % interval (Student's t), None where one run cannot give one."""

    n: int
    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def half(self) -> float | None:
        """Half the interval's width."""
        return None if self.high is None else self.high - self.mean


@dataclass(frozen=True, slots=True)
class Paired:
    """Differences of runs with equal seeds: their mean with its interval, and two tests against zero.

    ``p_t`` is Student's paired test (differences near normal), ``p_wilcoxon`` the signed-rank test
    (differences symmetric); None where all differences are equal and no test is defined.
    """

    difference: Estimate
    p_t: float | None
    p_wilcoxon: float | None


def estimate(values: Sequence[float] | Floats) -> Estimate:
    """Mean of independent runs, with its interval where there are at least two."""
    data = np.asarray(values, np.float64)
    mean = float(data.mean())
    if len(data) < 2:
        return Estimate(len(data), mean)
    from scipy.stats import t

    half = float(t.ppf(0.5 + LEVEL / 2, len(data) - 1) * data.std(ddof=1) / np.sqrt(len(data)))
    return Estimate(len(data), mean, mean - half, mean + half)


def paired(base: Sequence[float] | Floats, other: Sequence[float] | Floats) -> Paired | None:
    """Compare runs pair by pair: ``other`` less ``base``, equal seeds at equal places. None below two pairs."""
    differences = np.asarray(other, np.float64) - np.asarray(base, np.float64)
    if len(differences) < 2:
        return None
    found = estimate(differences)
    if np.ptp(differences) == 0:
        # All alike: certain if they differ at all, and nothing to test.
        return Paired(found, None, None)
    from scipy.stats import ttest_1samp, wilcoxon

    return Paired(found, float(ttest_1samp(differences, 0.0).pvalue), float(wilcoxon(differences).pvalue))
