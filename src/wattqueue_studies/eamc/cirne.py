"""Workloads after Cirne and Berman's model with ANL arrivals, as paper 1 used them: generated, not measured.

The paper gives 5,000 jobs of at most 128 nodes, 18.29 nodes and 3.65 hours on average, and a makespan
of 10 to 15 days. Neither its trace nor the parameters of its model are published. One small trace is published; it
shows the *form*: sizes are powers of two, durations have a standard deviation of 1.41 in logarithm and none is above
10.5 means, and arrivals are placed evenly along a daily cycle of relative amplitude 0.42.

What is not published is assumed (requested times, users, hour of the daily peak) or chosen so that the workload has
the paper's averages and makespans (correlation of size and duration, span of the submissions); ``CirneModel`` says
which is which. All figures of the study depend on these choices.

Columns of random numbers are stratified: one draw per interval of equal probability. Means of sizes and durations
then hardly differ from seed to seed, so 30 seeds suffice for narrow intervals. The truncated log-normal and the
geometric weights of sizes have no closed form for a given mean; both are found by bisection, once per process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels

Floats = NDArray[np.float64]

DAY_S = 86_400.0
APPS = 8
"""Applications of Table 1, drawn by their numbers 1 to 8; number 8 is STREAM."""

LOG_DEVIATION = 1.41
"""Standard deviation of the logarithm of run times, before the cut."""
LONGEST_IN_MEANS = 10.5
"""Longest run time as a multiple of the mean."""
DAILY_AMPLITUDE = 0.42
"""Relative amplitude of the daily cycle of submissions: rates lie between 0.58 and 1.42 times the mean."""
PEAK_S = 14 * 3600.0
"""Time of day of most submissions. The small trace shows a cycle, not its hour: an assumption, without effect
on a workload that lasts many days."""


@dataclass(frozen=True, slots=True)
class CirneModel:
    """Parameters of the generator; the defaults are frozen for the study of paper 1.

    Two parameters are fitted to figures that the paper prints (docs/eamc.md): ``correlation`` to a makespan of Base
    Slurm within its 10 to 15 days, ``span_s`` to the response of Min_runtime over Base Slurm (-64 %). Neither figure
    is a test of the reproduction, and all others depend on the two.

    Raises: InputError for a figure out of range.
    """

    jobs: int = 5_000
    """Number of jobs (paper)."""
    mean_nodes: float = 18.29
    """Mean size in nodes (paper)."""
    max_nodes: int = 128
    """Largest size, a power of two (paper)."""
    mean_runtime_s: float = 3.65 * 3600
    """Mean run time on p1 at its highest frequency, in seconds (paper)."""
    correlation: float = -0.31
    """Correlation of the Gaussian copula of size and duration (fitted). If they were independent, the paper's
    averages would keep one partition busy for 24 days, and the paper prints at most 15."""
    span_s: float = 6.0 * DAY_S
    """Seconds from the first submission to the last (fitted)."""
    lowest_accuracy: float = 0.1
    """A requested time is the run time divided by an accuracy drawn evenly between this and 1, rounded up to whole
    minutes (assumed)."""
    default_share: float = 0.0
    """Share of jobs without a requested time (assumed)."""
    default_walltime_s: float = 2 * DAY_S
    """Walltime of those jobs, in seconds; never less than their run time."""
    users: int = 64
    """Number of users; each job draws one evenly (assumed)."""

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.users < 1 or self.span_s < 0:
            raise InputError(f"{self.jobs} jobs of {self.users} users over {self.span_s} s: all must be positive")
        if self.max_nodes & (self.max_nodes - 1) or not 1 < self.mean_nodes < self.max_nodes:
            raise InputError(f"mean size {self.mean_nodes} of at most {self.max_nodes} nodes", hint="a power of two")
        if not -1 < self.correlation < 1:
            raise InputError(f"correlation {self.correlation}", hint="between -1 and 1")
        if not 0 < self.lowest_accuracy <= 1 or not 0 <= self.default_share <= 1:
            raise InputError(f"accuracy {self.lowest_accuracy} and share {self.default_share} must lie in 0..1")


def generate(model: CirneModel, rng: np.random.Generator, stream_share: float | None = None) -> Jobs:
    """Generate jobs with sizes, run times on p1 at its highest frequency, requested times and applications.

    ``stream_share`` of the jobs run application 8, the rest are drawn evenly from 1 to 7; None draws
    all eight evenly (the paper's 13 %). Columns are drawn in a fixed order, so that one state of ``rng`` gives the
    same sizes, durations and arrivals for every share: policies and shares are compared on paired workloads.

    Reference: paper 1, section 5; Cirne and Berman 2001, 10.1109/WWC.2001.990753.
    """
    n = model.jobs
    size_u, run_u = _coupled(n, model.correlation, rng)
    nodes = _sizes(model)[np.searchsorted(_size_edges(model), size_u, side="right")]
    runtime = _durations(run_u, model.mean_runtime_s)
    accuracy = rng.uniform(model.lowest_accuracy, 1.0, n)
    walltime = np.ceil(runtime / accuracy / 60) * 60
    unstated = rng.random(n) < model.default_share
    walltime = np.where(unstated, np.maximum(model.default_walltime_s, runtime), walltime)
    app = _applications(n, stream_share, rng)
    user = rng.integers(0, model.users, n).astype(np.int32)
    return Jobs.build(
        arrivals(n, model.span_s, rng),
        nodes,
        runtime,
        walltime_s=walltime,
        user=Labels(user, tuple(f"user{u + 1}" for u in range(model.users))),
        app=Labels(app, tuple(str(a + 1) for a in range(APPS))),
        origin="generated",
    )


def arrivals(n: int, span_s: float, rng: np.random.Generator) -> Floats:
    """Return submission times, placed evenly along the daily cycle with a jitter of one gap. Shape (n,), from 0.

    The rate is 1 + 0.42 cos(2 pi (t - peak) / day); times are whole seconds, as in the small trace. Job i is placed
    at (i + u) / n of the expected count, u uniform, and the integral of the rate is inverted by interpolation on a
    grid of ten minutes. Times ascend.
    """
    at = np.linspace(0.0, span_s, max(2, int(span_s / 600) + 1))
    turn = 2 * np.pi / DAY_S
    # The integral of the rate.
    expected = at + DAILY_AMPLITUDE / turn * (np.sin(turn * (at - PEAK_S)) + np.sin(turn * PEAK_S))
    place = (np.arange(n) + rng.random(n)) / n * expected[-1]
    times = np.floor(np.interp(place, expected, at))
    return np.asarray(times - times[0])


def _coupled(n: int, correlation: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return two uniform columns with a Gaussian copula, each stratified so that its mean hardly varies by seed."""
    first = rng.standard_normal(n)
    second = correlation * first + np.sqrt(1 - correlation**2) * rng.standard_normal(n)
    return _stratified(first, rng), _stratified(second, rng)


def _stratified(values: Floats, rng: np.random.Generator) -> Floats:
    """Replace values by uniform ones of the same order, exactly one in each interval of width 1/n. Shape (n,)."""
    rank = np.empty(len(values))
    rank[np.argsort(values)] = np.arange(len(values))
    return (rank + rng.random(len(values))) / len(values)


def _sizes(model: CirneModel) -> NDArray[np.int32]:
    """Return the sizes that occur: 1, 2, 4, ... ``max_nodes``. Shape (k,)."""
    return 2 ** np.arange(model.max_nodes.bit_length(), dtype=np.int32)


@lru_cache
def _size_edges(model: CirneModel) -> Floats:
    """Return cumulative shares of the powers of two: geometric weights with the wanted mean. Shape (k - 1,).

    The mean size rises with the ratio of the weights, so bisection on a log scale finds the ratio.
    """
    sizes = _sizes(model)
    low, high = 1e-3, 1e3
    for _ in range(200):
        ratio = np.sqrt(low * high)
        weight = ratio ** np.arange(len(sizes))
        if weight @ sizes / weight.sum() < model.mean_nodes:
            low = ratio
        else:
            high = ratio
    edges: Floats = np.cumsum(weight / weight.sum())[:-1]
    return edges


def _durations(u: Floats, mean_s: float) -> Floats:
    """Return log-normal run times cut at 10.5 means, of mean ``mean_s``, at least 1 s. Shape as ``u``.

    ``u`` are uniform; multiplying by the share below the cut draws from the truncated distribution.
    """
    top, median = _cut_log_normal()
    return np.maximum(mean_s * median * np.exp(LOG_DEVIATION * _normal_quantile(u * top)), 1.0)


@lru_cache
def _cut_log_normal() -> tuple[float, float]:
    """Return the share of the log-normal below the cut, and its median, in units of the mean after the cut.

    Bisection for the median at which the mean of the kept part is 1.
    """
    u = (np.arange(400_000) + 0.5) / 400_000
    z = _normal_quantile(u)
    low, high = 1e-3, 1.0
    for _ in range(60):
        median = (low + high) / 2
        values = median * np.exp(LOG_DEVIATION * z)
        kept = values <= LONGEST_IN_MEANS
        if values[kept].mean() < 1:
            low = median
        else:
            high = median
    return float(kept.mean()), median


@lru_cache
def _normal_table() -> tuple[Floats, Floats]:
    """Return z and the standard normal distribution function there, on an even grid of 0.001. Shapes (13001,)."""
    z = np.linspace(-6.5, 6.5, 13_001)
    return z, np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])


def _normal_quantile(u: Floats) -> Floats:
    """Return quantiles of the standard normal distribution, to about 1e-6. Shape as ``u``."""
    z, cumulative = _normal_table()
    return np.interp(u, cumulative, z)


def _applications(n: int, stream_share: float | None, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw the application of each job, 0 to 7, in the wanted shares to within one job. Shape (n,)."""
    if stream_share is None:
        drawn = np.arange(n) % APPS
    else:
        stream = round(n * stream_share)
        drawn = np.concatenate((np.full(stream, APPS - 1), np.arange(n - stream) % (APPS - 1)))
    return rng.permutation(drawn).astype(np.int32)
