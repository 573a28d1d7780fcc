"""Figures of merit of predictions: error overall and by user, how often too low, coverage, cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.report.figures.boxes import Box

LATER = 1e-9
"""Below so small a share a prediction is not called too low: rounding of a bound that knows the truth."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one estimator is worth on one trace. Percent are of the actual watts of one unit.

    ``jobs`` counts those scored; ``unpredicted`` those for which nothing was known yet. ``user_mape``
    holds the error of each user (users,), ``miss_percent`` (predicted - actual) / actual of each job.
    ``bound`` marks an estimator that knows the truth, and is no rival of those that predict.
    """

    name: str
    jobs: int
    unpredicted: int
    mape_percent: float
    median_error_percent: float
    mape_user_mean_percent: float
    mape_user_median_percent: float
    under_share: float
    under_p95_percent: float
    under_p95_w: float
    prediction_cpu_s: float
    coverage: dict[float, float] = field(default_factory=dict)
    user_mape: Floats = field(default_factory=lambda: np.zeros(0))
    miss_percent: Floats = field(default_factory=lambda: np.zeros(0))
    bound: bool = False

    def figures(self) -> dict[str, Any]:
        """The figures alone, by name, for JSON: None where there is none."""
        names = [n for n in self.__slots__ if n not in {"coverage", "user_mape", "miss_percent"}]
        found = {n: _plain(getattr(self, n)) for n in names}
        found["coverage"] = {f"p{100 * q:g}": _plain(share) for q, share in self.coverage.items()}
        found["users"] = len(self.user_mape)
        return found

    def user_box(self) -> Box:
        """Distribution of users' errors, as in Figure 3."""
        return Box.of(self.user_mape)

    def miss_box(self) -> Box:
        """Distribution of jobs' misses: above 0 too much was predicted."""
        return Box.of(self.miss_percent)


def score(
    name: str,
    predicted_w: Floats,
    actual_w: Floats,
    user: NDArray[np.int32],
    *,
    quantiles: dict[float, Floats] | None = None,
    cpu_s: float = 0.0,
    bound: bool = False,
) -> Score:
    """Compare predicted with actual watts of one unit; rows without either, or of 0 W, are left out.

    Shapes (n,); ``user`` -1 where unknown: such jobs count overall, but belong to no user.
    """
    real = np.isfinite(actual_w) & (actual_w > 0)
    good = real & np.isfinite(predicted_w)
    actual = actual_w[good]
    miss = (predicted_w[good] - actual) / actual
    under = np.maximum(-miss, 0.0)
    of_user = user_errors(np.abs(miss), user[good])
    coverage = {
        q: float((actual <= watts[good] * (1.0 + LATER)).mean()) if len(actual) else np.nan
        for q, watts in (quantiles or {}).items()
    }
    return Score(
        name,
        len(actual),
        int(real.sum()) - len(actual),
        100.0 * _mean(np.abs(miss)),
        100.0 * (float(np.median(np.abs(miss))) if len(miss) else np.nan),
        100.0 * _mean(of_user),
        100.0 * (float(np.median(of_user)) if len(of_user) else np.nan),
        _mean(under > LATER),
        100.0 * _p95(under),
        _p95(under * actual),
        cpu_s / max(len(actual_w), 1),
        coverage,
        100.0 * of_user,
        100.0 * miss,
        bound,
    )


def user_errors(error: Floats, user: NDArray[np.int32]) -> Floats:
    """Mean error of each user with jobs. Shape (users,)."""
    known = user >= 0
    jobs = np.bincount(user[known])
    total = np.bincount(user[known], error[known])
    return total[jobs > 0] / jobs[jobs > 0]


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else np.nan


def _p95(values: Floats) -> float:
    return float(np.percentile(values, 95)) if len(values) else np.nan


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
