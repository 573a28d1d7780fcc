"""What a GPU draws, and how much longer its job takes, under a power limit: one model for machines and the study.

Watts here are above idle. A job that draws ``d`` without a limit draws, under one that leaves ``h``,

    w = d (1 + (d / h)^8)^(-1/8),

which is d far below the limit, h far above it, and less than either between: the driver lowers the clock at peaks, so a
mean just below the limit is held back as well. How much longer a job takes follows from the share w / d that it is left
(``GpuCurve``): points that were measured, log-linear between them.

A limit below the *floor*, the lowest one that was seen to hold, is not trusted: it counts as the floor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wattqueue.model.jobs import Floats

HELD_WITHIN = 0.015
"""A limit is held where no job draws more than this above it, as a share of the limit."""
BINS, FEWEST = 18, 3
"""Bins of shares from 0.1 to 1 in which measured times are pooled, and points that a bin needs (one of each run, if
there are fewer runs)."""
LEAST_DYNAMIC_W = 20.0
"""Runs that draw less than this above idle say nothing of shares: they are noise."""


class LimitedRun(NamedTuple):
    """One workload on one GPU under several limits, the greatest one last. Shapes (k,).

    Fields: ``limit_w`` rising; ``watts`` mean watts; ``time_s`` run times, of which only ratios count.
    """

    limit_w: Floats
    watts: Floats
    time_s: Floats

    def above(self, floor_w: float) -> LimitedRun:
        """Return the same without the limits below a floor."""
        keep = self.limit_w >= floor_w
        return LimitedRun(self.limit_w[keep], self.watts[keep], self.time_s[keep])


def share_left(demand_w: Floats, limit_w: Floats) -> Floats:
    """Return the share of watts above idle that a limit leaves: 1 without demand, 0 where nothing is left.

    Both above idle, ``limit_w`` infinite for none. Shapes broadcast.
    """
    demand, limit = np.broadcast_arrays(np.maximum(demand_w, 0.0), np.maximum(limit_w, 0.0))
    ratio = np.divide(demand, limit, out=np.full(demand.shape, np.inf), where=limit > 0.0)
    ratio = np.where(demand > 0.0, ratio, 0.0)
    with np.errstate(over="ignore"):
        fourth = ratio * ratio * ratio * ratio
        share: Floats = 1.0 / np.sqrt(np.sqrt(np.sqrt(1.0 + fourth * fourth)))
    return share


def limit_that_leaves(drawn_w: float, demand_w: float) -> float:
    """Return the limit under which a job of ``demand_w`` without one draws ``drawn_w``, below that; all above idle."""
    return float((drawn_w**-8 - demand_w**-8) ** -0.125)


@dataclass(frozen=True)
class GpuCurve:
    """Run time over that without a limit, by the share of the watts above idle that is left.

    Attributes:
        share: Shares, rising to 1.
        time: Run times relative to that at share 1; they do not rise.
    """

    share: tuple[float, ...] = (1.0,)
    time: tuple[float, ...] = (1.0,)

    def time_factor(self, share: Floats, beta: float = 1.0, alpha: float = 2.0) -> Floats:
        """Return how much longer jobs take that are left these shares; 1 at least. Shape as ``share``.

        Below the lowest point of the curve, the time grows as under a lower clock: ``beta (f_ref/f - 1) + 1`` with
        ``f/f_ref = (share / lowest)^(1/alpha)``.
        """
        found = np.exp(np.interp(share, self.share, np.log(self.time)))
        low = self.share[0]
        with np.errstate(divide="ignore"):
            slower = beta * ((np.minimum(share, low) / low) ** (-1.0 / alpha) - 1.0) + 1.0
        return np.asarray(found * np.where(share < low, slower, 1.0), np.float64)


def floor_of(runs: Iterable[LimitedRun]) -> float:
    """Return the lowest limit that holds, with all limits above it, for every workload; inf where none does."""
    every = list(runs)
    limit, watts = (np.concatenate([np.zeros(0), *(run[k] for run in every)]) for k in range(2))
    broken = limit[watts > limit * (1.0 + HELD_WITHIN)]
    held = limit[limit > broken.max(initial=0.0)]
    return float(held.min(initial=np.inf))


def pooled_curve(runs: Iterable[LimitedRun], idle_w: float) -> GpuCurve:
    """Return the curve of workloads together: the median of their times in bins of the share that is left.

    Of each workload the greatest limit is the one that holds nothing back.
    """
    shares, slower = [np.zeros(0)], [np.zeros(0)]
    for run in runs:
        dynamic = run.watts - idle_w
        if dynamic[-1] >= LEAST_DYNAMIC_W:
            shares.append(np.clip(dynamic[:-1] / dynamic[-1], 0.0, 1.0))
            slower.append(np.log(run.time_s[:-1] / run.time_s[-1]))
    share, log_time = np.concatenate(shares), np.concatenate(slower)
    if not len(share):
        return GpuCurve()
    bin_of = np.ceil((share - 0.1) / 0.9 * BINS).astype(int)
    points = [
        (float(share[own].mean()), float(np.median(log_time[own])))
        for own in (bin_of == k for k in range(BINS + 1))
        if own.sum() >= min(FEWEST, len(shares) - 1)
    ]
    at = np.array([*(p for p, _ in points if p < 1.0), 1.0])
    log = np.array([*(t for p, t in points if p < 1.0), 0.0])
    rising = np.maximum.accumulate(log[::-1])[::-1]
    return GpuCurve(tuple(at.tolist()), tuple(np.exp(np.maximum(rising, 0.0)).tolist()))
