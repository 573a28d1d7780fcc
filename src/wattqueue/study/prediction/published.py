"""What paper 4 prints in section 6.3, and what it leaves open."""

from __future__ import annotations

PUBLISHED_MAPE_PERCENT = {
    ("mean", "history-mean"): 11.5,
    ("mean", "linear"): 12.8,
    ("max", "history-max"): 19.5,
    ("max", "linear"): 21.5,
}
"""Target and estimator to MAPE: section 6.3. The text gives the best and the worst method; the others of
Figure 3 lie between them. It does not say whether a figure is over jobs or over users."""

JOBS, USERS = 523_204, 576
"""Section 6.1, after filtering."""
SHORTEST_S = 60.0
"""Section 6.1: runs under a minute are left out."""
REGRESSORS = ("linear", "random-forest", "linear-svr", "sgd")
"""Section 6.2."""


def published(target: str, estimator: str) -> float | None:
    """The printed MAPE in percent, None where none is printed."""
    return PUBLISHED_MAPE_PERCENT.get((target, estimator))
