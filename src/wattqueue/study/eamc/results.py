"""From samples to rows: means with 95 % intervals, changes against a base, published figures beside ours.

"Agrees" is a weak test: it asks for the *sign* of a change only (or a tolerance where the paper prints 0 or a share),
and a figure that the text assigns to several workloads agrees if one of them does. A reader who wants sizes compares
the columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.report.compare.stats import estimate
from wattqueue.study.eamc.published import BEST, CLAIMS, PublishedChange, published
from wattqueue.study.eamc.sweep import SeedValues, by_key

Floats = NDArray[np.float64]

BASES = ("base-slurm", "min-runtime", "min-energy", "eamc-priority-inc", "eamc-priority-inc-v")
"""Policies that others are compared with."""


def result_rows(samples: Sequence[SeedValues]) -> list[dict[str, Any]]:
    """Return one row per (system, share, policy, metric, base): value, 95 % interval, change of means in per cent.

    Args:
        samples: All metrics, seed by seed; bases are looked up among them.

    A base that was not simulated gives no row; figures that do not exist are None.
    """
    values = by_key(samples)
    rows = []
    for s in samples:
        mean, low, high = (_number(v) for v in mean_interval(s.values))
        for base in BASES:
            reference = values.get((s.system, s.share, base, s.metric))
            if reference is None or base == s.policy:
                continue
            rows.append(
                {
                    "system": s.system,
                    "share": s.share,
                    "policy": s.policy,
                    "metric": s.metric,
                    "value": mean,
                    "low": low,
                    "high": high,
                    "relative_to": base,
                    "change_percent": _number(change_percent(s.values.mean(), reference.mean())),
                    "published_percent": published(s.system, s.share, s.policy, s.metric, base),
                }
            )
    return rows


def mean_interval(values: Floats) -> tuple[float, float, float]:
    """Return the mean and the ends of its 95 % interval; the mean three times for one seed. Shape (seeds,)."""
    found = estimate(values)
    if found.low is None or found.high is None:
        return found.mean, found.mean, found.mean
    return found.mean, found.low, found.high


def change_percent(value: float, base: float) -> float:
    """Return the change of ``value`` against ``base`` in per cent, NaN for a base of 0."""
    return 100 * (float(value) / float(base) - 1) if base else math.nan


def _number(value: float) -> float | None:
    """Return None for NaN and infinity, which JSON cannot hold."""
    return value if math.isfinite(value) else None


def claim_rows(samples: Sequence[SeedValues]) -> list[dict[str, Any]]:
    """Return each published figure with ours for every workload that it can mean, and whether its sign agrees.

    Keys: ``claim`` (the published figure), ``ours`` (centre, low, high of each workload), ``agrees``.
    """
    return [_claim_row(claim, samples) for claim in CLAIMS]


def _claim_row(claim: PublishedChange, samples: Sequence[SeedValues]) -> dict[str, Any]:
    """Return a published figure with (centre, low, high) of ours for each of its workloads."""
    values = by_key(samples)
    ours = []
    for share in claim.shares:
        own = values[claim.system, share, claim.policy, claim.metric]
        if claim.metric == BEST:
            ours.append(mean_interval(own))
            continue
        base = values[claim.system, share, claim.base, claim.metric]
        # The interval is that of the paired changes, since both policies ran the same workload. The centre is the
        # change of means, as the paper computes it; the interval is moved there.
        mean, low, high = mean_interval(100 * (own / base - 1))
        centre = change_percent(own.mean(), base.mean())
        ours.append((centre, centre + low - mean, centre + high - mean))
    return {"claim": claim, "ours": ours, "agrees": _agrees(claim, ours)}


def _agrees(claim: PublishedChange, ours: list[tuple[float, float, float]]) -> bool:
    """Return whether the sign agrees for some workload that is meant.

    A share agrees within 10 points; a published 0 ("comparable") agrees within 5 per cent.
    """
    if claim.metric == BEST:
        return any(abs(centre - claim.percent) <= 10 for centre, _, _ in ours)
    if claim.percent == 0:
        return any(abs(centre) <= 5 for centre, _, _ in ours)
    return any(centre * claim.percent > 0 for centre, _, _ in ours)
