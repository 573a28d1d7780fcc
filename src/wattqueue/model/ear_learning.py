"""EAR's learning phase: coefficients from benchmark runs by linear regression, and transfer between hardware.

A set of benchmarks runs at every frequency; for each pair (reference, target) two regressions over the benchmarks give
A, B, C (watts) and D, E, F (CPI) of ``model.ear``. Coefficients from benchmarks that are too alike reproduce those
benchmarks and nothing else, so ``learn`` refuses collinear sets instead of returning them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Signatures

Floats = NDArray[np.float64]

TERMS = 3
"""Unknowns of each regression: A, B, C and D, E, F."""


@dataclass(frozen=True, slots=True, eq=False)
class BenchmarkRuns:
    """Benchmark runs on one hardware configuration. Shapes (r,)."""

    app: NDArray[np.str_]
    """Benchmark of each run; repeated runs at one frequency are averaged."""
    frequency_hz: Floats
    metrics: Signatures


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Coefficients, and how well each pair of frequencies was fitted.

    Shapes (F, F) by (reference, target): ``benchmarks`` used; ``rank`` of the smaller regression
    (3 where all coefficients are determined); ``condition`` of the worse regression, columns scaled
    to length 1; ``power_rms_w`` and ``cpi_rms`` root mean square of the residuals.
    """

    coefficients: Coefficients
    benchmarks: NDArray[np.int32]
    rank: NDArray[np.int32]
    condition: Floats
    power_rms_w: Floats
    cpi_rms: Floats


def learn(runs: BenchmarkRuns, *, worst_condition: float = 1e3) -> Fit:
    """Fit A to F for every pair of frequencies that at least three benchmarks have in common.

    Raises: InputError where there are fewer than three benchmarks, where no pair has three, or where
    a set of benchmarks is collinear (rank below 3, or a condition above ``worst_condition``): such
    coefficients would fit the benchmarks and nothing else.
    Reference: paper 1, section 3.1 (linear regression over a set of benchmarks).
    """
    apps, app = np.unique(runs.app, return_inverse=True)
    rising, step = np.unique(np.round(runs.frequency_hz / 1e6), return_inverse=True)
    if len(apps) < TERMS:
        raise InputError(
            f"{len(apps)} benchmarks, three coefficients a regression need three or more", where="learning phase"
        )
    table = _mean_table(runs.metrics, app, step, (len(apps), len(rising)))[:, :, ::-1]
    frequency = np.ascontiguousarray(rising[::-1] * 1e6)
    return _fit_pairs(table, frequency, worst_condition)


def _mean_table(metrics: Signatures, app: NDArray[Any], step: NDArray[Any], shape: tuple[int, int]) -> Floats:
    """Return mean power, CPI and TPI of each benchmark at each frequency, NaN where it did not run.

    Shape (3, apps, F).
    """
    cell = np.ravel_multi_index((app.astype(np.int64), step.astype(np.int64)), shape)
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    with np.errstate(invalid="ignore"):
        means = [
            np.bincount(cell, column, count.size) / np.where(count, count, np.nan)
            for column in (metrics.power_w, metrics.cpi, metrics.tpi)
        ]
    return np.stack(means).reshape(3, *shape)


def _fit_pairs(table: Floats, frequency: Floats, worst_condition: float) -> Fit:
    """Fit every pair that has enough benchmarks in common. Raises: InputError as ``learn``."""
    power, cpi, tpi = table
    f = len(frequency)
    values, flag = np.zeros((f, f, 6)), np.zeros((f, f), bool)
    used, rank = np.zeros((f, f), np.int32), np.zeros((f, f), np.int32)
    condition, power_rms, cpi_rms = np.full((3, f, f), np.nan)
    for i in range(f):
        for j in range(f):
            both = np.isfinite(power[:, i]) & np.isfinite(power[:, j])
            used[i, j] = both.sum()
            if used[i, j] < TERMS:
                continue
            flag[i, j] = True
            abc = _regress(power[both, i], tpi[both, i], power[both, j])
            def_ = _regress(cpi[both, i], tpi[both, i], cpi[both, j])
            values[i, j] = *abc[0], *def_[0]
            rank[i, j] = min(abc[1], def_[1])
            condition[i, j] = max(abc[2], def_[2])
            power_rms[i, j], cpi_rms[i, j] = abc[3], def_[3]
    _refuse_collinear(flag, rank, condition, frequency, worst_condition)
    return Fit(Coefficients(frequency, flag, values), used, rank, condition, power_rms, cpi_rms)


def _regress(x: Floats, tpi: Floats, y: Floats) -> tuple[Floats, int, float, float]:
    """Return the least squares of y on (x, TPI, 1): coefficients, rank, condition, RMS of the residuals.

    Columns are scaled to length 1 first: watts, CPI and TPI differ by orders of magnitude, which would dominate the
    condition number.
    """
    design = np.column_stack((x, tpi, np.ones_like(x)))
    length = np.linalg.norm(design, axis=0)
    length[length == 0] = 1.0
    solution, _, rank, singular = np.linalg.lstsq(design / length, y, rcond=None)
    coefficients = solution / length
    worst = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    rms = float(np.sqrt(np.mean((design @ coefficients - y) ** 2)))
    return coefficients, int(rank), worst, rms


def _refuse_collinear(
    flag: NDArray[np.bool_], rank: NDArray[np.int32], condition: Floats, frequency: Floats, worst: float
) -> None:
    """Raise InputError for the first pair whose benchmarks do not determine its coefficients."""
    if not flag.any():
        raise InputError("no two frequencies have three benchmarks in common", where="learning phase")
    bad = flag & ((rank < TERMS) | (condition > worst))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise InputError(
            f"collinear benchmarks from {frequency[i] / 1e9:g} to {frequency[j] / 1e9:g} GHz "
            f"(rank {rank[i, j]} of {TERMS}, condition {condition[i, j]:.3g}, at most {worst:g})",
            where="learning phase",
            hint="add benchmarks with another mix of compute and memory",
        )


def time_coefficient(main_time_s: Floats, other_time_s: Floats) -> Floats:
    """Return run time on another partition over that on the main one, per application: the seventh parameter.

    Shapes (k,); NaN where either is unknown. It is learned by running the same application on both.

    Reference: paper 1, section 3.3.
    """
    return np.asarray(other_time_s, np.float64) / np.asarray(main_time_s, np.float64)


def estimate_elsewhere(known: Signatures, elsewhere: Signatures, app: Signatures) -> Signatures:
    """Return metrics of applications on hardware where they never ran, from hardware where they did.

    ``known`` and ``elsewhere`` hold k applications that ran on both, ``app`` those that ran on the first only. Each
    metric is scaled by the geometric mean of its ratios over those k: with a handful of applications, more than one
    ratio per metric cannot be determined.

    Raises: InputError where no application ran on both.
    Reference: paper 1, section 3.2 (data related to only one of the clusters).
    """
    both = np.isfinite(known.time_s) & np.isfinite(elsewhere.time_s)
    if not both.any():
        raise InputError(
            "no application has run on both hardware configurations",
            where="metrics",
            hint="make a trial run of one of them",
        )
    columns = []
    for name in ("time_s", "power_w", "cpi", "tpi"):
        here, there = getattr(known, name)[both], getattr(elsewhere, name)[both]
        positive = (here > 0) & (there > 0)
        # The geometric mean: a ratio and its inverse weigh the same, whichever hardware is first.
        ratio = float(np.exp(np.mean(np.log(there[positive] / here[positive])))) if positive.any() else 1.0
        columns.append(getattr(app, name) * ratio)
    return Signatures(*columns)
