"""What jobs draw over what was counted for them: the distribution of this ratio, and how far jobs share it.

A job's *ratio* is its true watts over the watts that the ledger counted when it started; all its nodes have the same.
Ratios of other jobs are drawn from those that were seen, weighted by node-seconds, with a Gaussian copula of one
factor: jobs that start on the same day have the correlation rho, jobs of different days none::

    z(job) = sqrt(rho) Z(day) + sqrt(1 - rho) e(job),      ratio(job) = F^-1(Phi(z(job)))

No unit draws more than was stated for it, or measured of any.

rho is fitted by normal scores: the mean product of two jobs of a day. Its upper bound comes from resampled days.

Reference: Li, On Default Correlation: A Copula Function Approach, Journal of Fixed Income 9 (2000), 43-54, for one
factor; Vasicek, Loan portfolio value, Risk (2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats

DRAWS = 64
"""Draws of all ratios."""
LEAST_DAYS = 7
"""Fewer days show neither a week of load nor how jobs of one day agree: correlation 1 is not excluded."""
RESAMPLES = 1_000
"""Resamples of days behind an interval."""
_Z = np.linspace(-4.5, 4.5, 9_001)
_PHI = np.array([NormalDist().cdf(z) for z in _Z])


@dataclass(frozen=True, slots=True, eq=False)
class RatioLaw:
    """The distribution of ratios: ``share`` of the node-seconds are at or below ``value``. Shapes (k,), both rise."""

    value: Floats
    share: Floats

    @classmethod
    def of(cls, ratio: Floats, weight: Floats) -> RatioLaw:
        """Return the law of ratios that were seen, each with a weight. Shapes (n,)."""
        order = np.argsort(ratio, kind="stable")
        total = np.cumsum(weight[order])
        return cls(ratio[order], total / total[-1])

    def at_scores(self, z: Floats) -> Floats:
        """Return the ratio at standard normal scores, rounded to the next row of the table upwards. Shape as ``z``."""
        rank = np.minimum(np.searchsorted(self.share, _PHI - 1e-12), len(self.value) - 1)
        table = self.value[rank]
        step = (len(_Z) - 1) / (_Z[-1] - _Z[0])
        return np.asarray(table[np.clip(np.ceil((z - _Z[0]) * step), 0, len(_Z) - 1).astype(np.int64)], np.float64)


@dataclass(frozen=True, slots=True)
class Correlation:
    """How far jobs of one day share their ratio."""

    fitted: float
    upper: float
    """95 % bound; 1 where the data cannot exclude it."""

    @property
    def tried(self) -> tuple[float, ...]:
        """Return the correlations that the data cannot exclude, of which the worst counts."""
        return tuple(sorted({0.0, self.fitted, self.upper}))


def fit_correlation(ratio: Floats, day: NDArray[np.int64], rng: np.random.Generator) -> Correlation:
    """Fit the correlation of ratios within days. Shapes (n,).

    With fewer than ``LEAST_DAYS`` days that have two jobs, 1 is not excluded. Ratios that are all equal show no
    spread, so that their correlation changes nothing: 0.
    """
    if len(ratio) and np.ptp(ratio) <= 1e-9 * max(float(ratio.max()), 1e-300):
        return Correlation(0.0, 0.0)
    z = normal_scores(ratio)
    first, square, count = (np.bincount(day, w) for w in (z, z * z, np.ones(len(z))))
    pairs, products = count * (count - 1.0), first**2 - square
    several = pairs > 0
    if several.sum() < LEAST_DAYS:
        return Correlation(_clipped(products.sum(), pairs.sum()), 1.0)
    pairs, products = pairs[several], products[several]
    rows = rng.integers(0, len(pairs), (RESAMPLES, len(pairs)))
    drawn = np.sort(products[rows].sum(1) / pairs[rows].sum(1))
    upper = float(drawn[int(np.ceil(0.95 * RESAMPLES)) - 1])
    fitted = _clipped(products.sum(), pairs.sum())
    return Correlation(fitted, max(min(upper, 1.0), fitted))


def normal_scores(values: Floats) -> Floats:
    """Return standard normal scores of values by rank, of unit variance; equal values have equal scores. Shape (n,)."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - 0.5 * count
    z = np.interp(middle / len(values), _PHI, _Z)[place]
    spread = float(np.sqrt(np.mean(z * z)))
    return np.asarray(z / spread if spread > 0 else z, np.float64)


def phi(z: Floats) -> Floats:
    """Return the standard normal distribution at z. Shape as ``z``."""
    return np.asarray(np.interp(z, _Z, _PHI), np.float64)


def _clipped(products: float, pairs: float) -> float:
    """Return a correlation within 0 and 1."""
    return float(min(max(products / pairs, 0.0), 1.0)) if pairs > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Scores:
    """Random numbers that all trials share: adding nodes, or watts, changes what is drawn for no job."""

    days: int
    seed: int

    def of(self, day: NDArray[np.int64], rho: float, some: slice) -> Floats:
        """Return some scores of jobs that start on these days, those of days stratified. Shapes (n,), (n, draws)."""
        rng = np.random.default_rng((self.seed, 34))
        strata = np.argsort(rng.random((self.days, DRAWS)), axis=1)
        of_day = np.interp((strata + rng.random((self.days, DRAWS))) / DRAWS, _PHI, _Z)[:, some]
        rng = np.random.default_rng((self.seed, 34, some.start))
        own = rng.standard_normal((len(day), of_day.shape[1]))
        return np.asarray(np.sqrt(rho) * of_day[day] + np.sqrt(1.0 - rho) * own, np.float64)
