"""A library of power patterns with phases: what generated jobs draw over their runs.

A pattern is a start-up ramp and then a body that repeats: phases of an application (levels that last
minutes) times the noise of its nodes. Levels are relative to the pattern's own mean. Patterns come by
shape (an application keeps its shape), by size class (noise of many nodes averages out) and in variants
(two runs of an application differ).

Memory is bounded by the library, not by the number of jobs: a job refers to a row of 1,083 samples and scales it
(``model/profiles.py``). All nodes of a job follow its one pattern, which is that of their mean; each job begins it at
its own start. What the highest of its nodes reads is a second table of the same shape: a job's maximum is a single
node's reading, and readings of single nodes reach above those of the mean.

Calibration, from real samples:
- node noise, ramp, correlation of nodes, spread of their means: the two 32-node jobs of ClusterCockpit's test data
  (MIT), Emmy cluster, 60 s samples over a day, first and last five minutes left out;
- spread of phases within a job: the ten real Marconi100 jobs of ``marconi_job_power_agg_10rows``,
  standard deviation over mean of the job's 20 s samples, 0.9 % to 42 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.profiles import PERIOD_S
from wattqueue.workload.marginals import pick

Floats = NDArray[np.float64]

SHAPES = 128
"""Number of shapes; each application draws one."""
VARIANTS = 4
"""Patterns per shape and size class; each job draws one."""
SIZE_CLASSES = (1, 2, 4, 8, 16, 32)
"""Nodes from which a class begins; its noise is that of so many nodes."""
RAMP = (0.65, 0.80, 0.92)
"""Levels of the first three periods: Emmy's jobs read 0.55-0.76 of their mean at start, 0.94-1.00 a minute later."""
BODY = 1080
"""Samples of the body: 6 hours at 20 s, then it repeats."""
LENGTH = len(RAMP) + BODY

# Node noise on Emmy: 4.3 % of samples are dips, short and single (a dip follows a dip in 11 %), of 25 % on
# average; the rest is symmetric with 2.1 %. Together 6.3 and 6.4 % of the node's mean.
DIP_SHARE = 0.043
DIP_DEPTH = 0.255
DIP_DEPTH_SD = 0.15
CALM_SD = 0.021
NODE_CORRELATION = 0.01
"""Correlation of two nodes' noise in one job: 0.010 and 0.004 on Emmy (0.036 and 0.072 with the ramps)."""

NODE_SPREAD = 0.033
"""Relative standard deviation of the nodes' means within a job: 3.4 and 3.2 % on Emmy."""
HIGHEST_NODES = 4
"""Nodes of a job of which one has its highest reading: those with the highest means."""

# log of (sd / mean) over the ten Marconi100 jobs: mean log 0.0776, sd 1.32.
SPREAD_MEDIAN = 0.0776
SPREAD_LOG_SD = 1.32
SPREAD_RANGE = (0.005, 0.45)

# Peaks are rarer than valleys: in the ten jobs (max - mean) / sd is 2.4 in the median. Levels are lognormal
# and high ones last less; both figures are set to meet that.
LEVEL_LOG_SD = 0.8
PEAK_RARITY = 1.5
# How long a phase lasts, and how many levels an application has: assumed, no source. The ten jobs' figures
# say how far phases spread, not how long they last.
DWELL_MEDIAN_S = 600.0
DWELL_LOG_SD = 1.0
MOST_LEVELS = 5
LEAST_LEVEL = 0.2


@dataclass(frozen=True, eq=False)
class Library:
    """Patterns, all of ``LENGTH`` samples. Shapes (SHAPES * classes * VARIANTS, LENGTH)."""

    level: NDArray[np.float32]
    """Of the mean of a job's nodes."""
    highest: NDArray[np.float32]
    """Of the highest of so many nodes as the size class begins with; never below ``level``."""

    def pattern(
        self, shape: NDArray[np.int64], nodes: NDArray[np.int32], variant: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Row of each job's pattern. Shapes (n,)."""
        size = np.searchsorted(np.array(SIZE_CLASSES), nodes, side="right") - 1
        return ((shape * len(SIZE_CLASSES) + size) * VARIANTS + variant).astype(np.int32)


def library(rng: np.random.Generator) -> Library:
    """Draw the patterns of all shapes, size classes and variants; each body of the mean has mean 1."""
    classes = len(SIZE_CLASSES)
    (single,) = rng.spawn(1)  # a second stream: patterns of the mean do not depend on the highest nodes
    level = np.empty((SHAPES, classes, VARIANTS, LENGTH), np.float32)
    highest = np.empty_like(level)
    for shape in range(SHAPES):
        levels, share, dwell = _application(rng)
        for size, nodes in enumerate(SIZE_CLASSES):
            phases = _phases(rng, levels, share, dwell)
            noise, shared = _noise(rng, nodes)
            body = phases * (1.0 + noise)
            mean = body.mean(axis=1, keepdims=True)
            level[shape, size, :, len(RAMP) :] = body / mean
            top = phases * (1.0 + _highest_noise(single, nodes, noise, shared))
            highest[shape, size, :, len(RAMP) :] = top / mean
    level[..., : len(RAMP)] = highest[..., : len(RAMP)] = RAMP
    return Library(level.reshape(-1, LENGTH), highest.reshape(-1, LENGTH))


def _application(rng: np.random.Generator) -> tuple[Floats, Floats, float]:
    """Draw an application: its levels, the share of time at each, and the mean length of a phase in samples.

    Levels have mean 1 (weighted by the shares) and the drawn spread. Shapes: levels and shares (k,), 2 <= k <= 5.
    """
    spread = float(np.clip(SPREAD_MEDIAN * np.exp(SPREAD_LOG_SD * rng.standard_normal()), *SPREAD_RANGE))
    raw = np.exp(LEVEL_LOG_SD * rng.standard_normal(int(rng.integers(2, MOST_LEVELS + 1))))
    share = 1.0 / raw**PEAK_RARITY
    share /= share.sum()
    off = raw - share @ raw
    levels = np.maximum(1.0 + off * (spread / np.sqrt(share @ off**2)), LEAST_LEVEL)
    dwell_s = DWELL_MEDIAN_S * np.exp(DWELL_LOG_SD * rng.standard_normal())
    return levels, share, max(1.0, dwell_s / PERIOD_S)


def _phases(rng: np.random.Generator, levels: Floats, share: Floats, dwell: float) -> Floats:
    """Draw the level of each sample; a new level at the end of each phase. Shape (VARIANTS, BODY).

    A phase ends at each sample with probability 1 / ``dwell``, so lengths are geometric. ``since`` is the sample at
    which the current phase began: a running maximum replaces a loop over samples.
    """
    change = rng.random((VARIANTS, BODY)) < 1.0 / dwell
    change[:, 0] = True
    since = np.maximum.accumulate(np.where(change, np.arange(BODY), 0), axis=1)
    drawn = pick(rng, share, VARIANTS * BODY).reshape(VARIANTS, BODY)
    return np.asarray(levels[np.take_along_axis(drawn, since, axis=1)], np.float64)


def _noise(rng: np.random.Generator, nodes: int) -> tuple[Floats, Floats]:
    """Draw the relative noise of the mean of ``nodes`` nodes, and the part that they share. Shapes (VARIANTS, BODY).

    Independent noise of the nodes is drawn as one sum (binomial number of dips, normal rest), whose relative size falls
    with the square root of ``nodes``; shared noise does not fall. Their variances are weighted by the correlation of
    two nodes. Limited below, so that a level stays positive.
    """
    shape = (VARIANTS, BODY)
    dips = rng.binomial(nodes, DIP_SHARE, shape)
    depth = dips * DIP_DEPTH + np.sqrt(dips) * DIP_DEPTH_SD * rng.standard_normal(shape)
    own = (np.sqrt(nodes) * CALM_SD * rng.standard_normal(shape) - depth) / nodes
    own += DIP_SHARE * DIP_DEPTH
    shared = node_noise_sd() * rng.standard_normal(shape)
    r = NODE_CORRELATION
    shared *= np.sqrt(r)
    noise: Floats = np.maximum(np.sqrt(1.0 - r) * own + shared, LEAST_LEVEL - 1.0)
    return noise, shared


def _highest_noise(rng: np.random.Generator, nodes: int, mean: Floats, shared: Floats) -> Floats:
    """Draw the relative noise of the highest of ``nodes`` nodes, never below that of their ``mean``. Shapes as given.

    A node's reading is above the job's mean by what the node always draws more than others, and by its noise of that
    moment, in which it has no dip. Only the nodes with the highest means are drawn sample by sample. One node is its
    own mean.
    """
    if nodes == 1:
        return mean
    always = NODE_SPREAD * rng.standard_normal((len(mean), nodes))
    always -= always.mean(axis=1, keepdims=True)
    always = np.sort(always, axis=1)[:, -HIGHEST_NODES:, np.newaxis]
    now = CALM_SD * rng.standard_normal((len(mean), always.shape[1], mean.shape[1]), np.float32)
    own = (always + now).max(axis=1) + DIP_SHARE * DIP_DEPTH
    top: Floats = np.maximum(np.sqrt(1.0 - NODE_CORRELATION) * own + shared, mean)
    return top


def node_noise_sd() -> float:
    """Return the relative standard deviation of one node's noise: calm samples and dips together."""
    dip_square = DIP_DEPTH**2 + DIP_DEPTH_SD**2
    return float(np.sqrt(CALM_SD**2 + DIP_SHARE * dip_square - (DIP_SHARE * DIP_DEPTH) ** 2))
