"""Figures that paper 4 prints in section 6.3."""

from __future__ import annotations

PUBLISHED_MAPE_PERCENT = {
    ("mean", "history-mean"): 11.5,
    ("mean", "linear"): 12.8,
    ("max", "history-max"): 19.5,
    ("max", "linear"): 21.5,
}
"""MAPE by target and estimator, section 6.3. The text gives the best and the worst method; the others of
Figure 3 lie between them. It leaves open whether a figure is a mean over jobs or over users."""

JOBS, USERS = 523_204, 576
"""Jobs and users after filtering, section 6.1."""
SHORTEST_S = 60.0
"""Shorter runs are left out, section 6.1."""
REGRESSORS = ("linear", "random-forest", "linear-svr", "sgd")
"""Regressors of section 6.2."""


def published(target: str, estimator: str) -> float | None:
    """Return the printed MAPE in percent, None if none is printed."""
    return PUBLISHED_MAPE_PERCENT.get((target, estimator))
