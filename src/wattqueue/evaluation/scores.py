"""Scores of predictions: error overall and by user, how often too low and by how much, coverage, cost.

Rows without a prediction, without measured watts, or with 0 W are left out of all errors: 0 W is a failed meter, and a
relative error is undefined there. They are counted (``unpredicted``) where the estimator is the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.policy.oracles import marked
from wattqueue.report.figures.boxes import Box

ROUNDING = 1e-9
"""Relative shortfall below which a prediction does not count as too low: an oracle may round the truth down."""


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one estimator on one trace. Percent are of the actual watts of one unit."""

    name: str
    """The estimator."""
    jobs: int
    """Jobs scored."""
    unpredicted: int
    """Jobs with measured watts for which the estimator had no prediction yet."""
    mape_percent: float
    """Mean absolute percentage error over jobs."""
    median_error_percent: float
    """Median absolute percentage error over jobs."""
    mape_user_mean_percent: float
    """Mean over users of each user's MAPE."""
    mape_user_median_percent: float
    """Median over users of each user's MAPE."""
    under_share: float
    """Share of jobs predicted too low."""
    under_p95_percent: float
    """95th percentile of the shortfall, 0 for jobs not predicted too low."""
    under_p95_w: float
    """The same in watts."""
    prediction_cpu_s: float
    """CPU seconds per job, learning included."""
    coverage: dict[float, float] = field(default_factory=dict)
    """Share of jobs at or below each predicted quantile."""
    user_mape: Floats = field(default_factory=lambda: np.zeros(0))
    """MAPE of each user. Shape (users,)."""
    miss_percent: Floats = field(default_factory=lambda: np.zeros(0))
    """(predicted - actual) / actual of each job scored. Shape (jobs,)."""
    oracle: bool = False
    """Whether the estimator knows the future: it is shown, but not compared with those that predict."""
    cold_jobs: int = 0
    """Jobs scored that were submitted before any job of their user had ended, or without a user."""
    cold_mape_percent: float = np.nan
    """MAPE over these jobs."""

    @property
    def label(self) -> str:
        """Return what tables and figures call the estimator."""
        return marked(self.name, self.name if self.oracle else "")

    def figures(self) -> dict[str, Any]:
        """Return the figures by name for JSON, None for NaN. An oracle's mark keeps its published key, ``bound``."""
        names = [n for n in self.__slots__ if n not in {"coverage", "user_mape", "miss_percent", "oracle"}]
        found = {n: _plain(getattr(self, n)) for n in names} | {"bound": self.oracle}
        found["coverage"] = {f"p{100 * q:g}": _plain(share) for q, share in self.coverage.items()}
        found["users"] = len(self.user_mape)
        return found

    def user_box(self) -> Box:
        """Return the distribution of users' errors, as in Figure 3."""
        return Box.of(self.user_mape)

    def miss_box(self) -> Box:
        """Return the distribution of jobs' signed errors: above 0 is over-prediction."""
        return Box.of(self.miss_percent)


def score(
    name: str,
    predicted_w: Floats,
    actual_w: Floats,
    user: NDArray[np.int32],
    *,
    quantiles: dict[float, Floats] | None = None,
    cpu_s: float = 0.0,
    oracle: bool = False,
    cold: NDArray[np.bool_] | None = None,
) -> Score:
    """Score predicted against actual watts of one unit; rows without either, or of 0 W, are left out.

    Args:
        name: The estimator.
        predicted_w: Predicted watts, NaN for none. Shape (n,).
        actual_w: Measured watts, NaN for none. Shape (n,).
        user: User of each job, -1 where unknown: such jobs count overall, but belong to no user. Shape (n,).
        quantiles: Predicted quantiles by probability. Shapes (n,).
        cpu_s: CPU seconds of all predictions together.
        oracle: Whether the estimator knows the future.
        cold: Which jobs were submitted before any job of their user had ended; None for none. Shape (n,).
    """
    real = np.isfinite(actual_w) & (actual_w > 0)
    good = real & np.isfinite(predicted_w)
    actual = actual_w[good]
    miss = (predicted_w[good] - actual) / actual
    under = np.maximum(-miss, 0.0)
    of_user = user_errors(np.abs(miss), user[good])
    new = np.zeros(len(miss), np.bool_) if cold is None else cold[good]
    coverage = {
        q: float((actual <= watts[good] * (1.0 + ROUNDING)).mean()) if len(actual) else np.nan
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
        _mean(under > ROUNDING),
        100.0 * _p95(under),
        _p95(under * actual),
        cpu_s / max(len(actual_w), 1),
        coverage,
        100.0 * of_user,
        100.0 * miss,
        oracle,
        int(new.sum()),
        100.0 * _mean(np.abs(miss[new])),
    )


def cold_users(actual_w: Floats, user: NDArray[np.int32], submit_s: Floats, end_s: Floats) -> NDArray[np.bool_]:
    """Return which jobs were submitted before any measured job of their user had ended. Shapes (n,).

    A job without a user is one of them: nothing is known of who submitted it.
    """
    first = np.full(user.max(initial=-1) + 2, np.inf)
    known = np.isfinite(actual_w) & (actual_w > 0)
    np.minimum.at(first, user[known], end_s[known])
    first[-1] = np.inf  # of code -1
    return np.asarray(submit_s < first[user], np.bool_)


def user_errors(error: Floats, user: NDArray[np.int32]) -> Floats:
    """Return the mean error of each user that has jobs. Shape (users,)."""
    known = user >= 0
    jobs = np.bincount(user[known])
    total = np.bincount(user[known], error[known])
    return total[jobs > 0] / jobs[jobs > 0]


def _mean(values: NDArray[Any]) -> float:
    """Return the mean, NaN for no values."""
    return float(values.mean()) if len(values) else np.nan


def _p95(values: Floats) -> float:
    """Return the 95th percentile, NaN for no values."""
    return float(np.percentile(values, 95)) if len(values) else np.nan


def _plain(value: Any) -> Any:
    """Return None for a float that JSON cannot hold, else the value."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
