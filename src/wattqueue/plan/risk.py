"""How often the power domains of a run are above their limits.

Watts of a domain: its base, the idle watts of its units, and what its jobs draw above idle, with all losses (rule 22).
What jobs draw is drawn by ``ratios``; the schedule does not depend on it. A *day* is a block of time: the interval of
the share above a limit comes from days drawn again, some neighbours together.

Reference: Politis and Romano, A circular block-resampling procedure for stationary data, 1992.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.model.domain_load import DomainLoad
from wattqueue.model.jobs import Floats
from wattqueue.plan.ratios import DRAWS, LEAST_DAYS, RESAMPLES

CONFIDENCE = 0.95
"""Of the whole answer; each of the two steps in which nodes are tried has half of what is left."""
LEVEL = 1.0 - (1.0 - CONFIDENCE) / 2
AT_ONCE = 16
"""Draws that are summed together: memory."""
ROUNDING = 1e-9
"""Relative excess that is no excess: sums of many jobs."""


def over_by_day(load: DomainLoad, span: tuple[Floats, Floats], unit_w: Floats, edge_s: Floats) -> Floats:
    """Return the seconds above the limit in each day, on average over the draws.

    Args:
        load: The domain.
        span: Start and end of each job, (n,) each, NaN where it never ran.
        unit_w: What a unit of each job adds to the domain beside idle. Shape (n, draws).
        edge_s: Begin of each day, and the end of the last. Shape (days + 1,).
    """
    start_s, end_s = (times[load.job] for times in span)
    time_s = np.concatenate((start_s, end_s, edge_s))
    order = np.argsort(time_s, kind="stable")
    time_s, nothing = time_s[order], np.zeros((len(edge_s), unit_w.shape[1]))
    added = load.units[:, None] * unit_w[load.job]
    watts = np.cumsum(np.concatenate((added, -added, nothing))[order], axis=0) + load.idle_w
    above = (watts[:-1] > load.limit_w * (1.0 + ROUNDING)).mean(1) * np.diff(time_s)
    day = np.searchsorted(edge_s, time_s[:-1], side="right") - 1
    inside = (day >= 0) & (day < len(edge_s) - 1)
    return np.asarray(np.bincount(day[inside], above[inside], len(edge_s) - 1), np.float64)


@dataclass(frozen=True, slots=True)
class Exceedance:
    """Time above limits. ``share`` and ``upper`` are of the domain that is above its limit longest."""

    share: float
    upper: float
    """Its bound."""
    domain: str
    mean: float
    """Share of all domain-seconds."""
    correlation: float
    """Of jobs that start on the same day."""
    own: bool = False
    """Whether each job draws its own watts, not the ratio of another."""


def exceedance(
    loads: Sequence[DomainLoad], span: tuple[Floats, Floats], draws: Iterator[Floats], edge_s: Floats, rho: float,
    *, resample: Floats | None, own: bool = False,
) -> Exceedance:  # fmt: skip
    """Return how long domains are above their limits.

    ``draws`` yields what a unit of each job adds, (n, some draws); ``resample`` (R, days) how often each
    day is in each resample (None: too few days for an interval: a bound of 0 where no draw was above, else 1).
    """
    seconds, parts, length = np.zeros((len(loads), len(edge_s) - 1)), 0, np.diff(edge_s)
    for unit_w in draws:
        parts += unit_w.shape[1]
        for k, load in enumerate(loads):
            seconds[k] += over_by_day(load, span, unit_w, edge_s) * unit_w.shape[1]
    seconds /= max(parts, 1)
    shares = seconds.sum(1) / length.sum()
    if resample is None:
        uppers = (shares > 0).astype(np.float64)
    else:
        drawn = np.sort((resample @ seconds.T) / (resample @ length)[:, None], axis=0)
        uppers = drawn[int(np.ceil(LEVEL * len(resample))) - 1]
        uppers = np.maximum(uppers, shares)
    if not len(loads):
        return Exceedance(0.0, 0.0, "", 0.0, rho, own)
    worst = int(np.lexsort((shares, uppers))[-1])
    return Exceedance(
        float(shares[worst]), float(uppers[worst]), loads[worst].name, float(seconds.sum() / length.sum() / len(loads)),
        rho, own,
    )  # fmt: skip


def worst_of(found: Sequence[Exceedance]) -> Exceedance:
    """Return the worst by its bound, then by its share."""
    return max(found, key=lambda one: (one.upper, one.share))


def resampled_days(days: int, seed: int) -> Floats | None:
    """Return how often each day is in each resample. Shape (R, days).

    Neighbours are drawn together, the cube root of all. None for fewer than ``LEAST_DAYS``.
    """
    if days < LEAST_DAYS:
        return None
    length = max(1, round(days ** (1 / 3)))
    rng = np.random.default_rng((seed, 35))
    first = rng.integers(0, days, (RESAMPLES, -(-days // length), 1))
    rows = ((first + np.arange(length)) % days).reshape(RESAMPLES, -1)[:, :days]
    cell = rows + days * np.arange(RESAMPLES)[:, None]
    return np.bincount(cell.ravel(), minlength=RESAMPLES * days).reshape(RESAMPLES, days).astype(np.float64)


def chunks() -> Iterator[slice]:
    """Yield the draws, some at once."""
    for first in range(0, DRAWS, AT_ONCE):
        yield slice(first, first + AT_ONCE)
