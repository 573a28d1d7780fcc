"""Unit factors learned from production telemetry alone: watts of single units in jobs, without any benchmark.

    log watts = level of the group + log factor of the unit + noise

A *group* is what shares a level: one job over several units, or all jobs of an application that ran on one unit each.
So a site that records joules by node and job has what is needed; inputs of a job need not be known. Factors are shrunk
towards 1 by what they spread (empirical Bayes), so that a unit that was hardly seen is not ranked by noise.

``learn_factors`` gives factors with intervals, ``find_drifts`` units whose factor has changed since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.model.unit_table import UnitTable

Ints = NDArray[np.int64]
ONE_JOB, ONE_APPLICATION = 0, 1
"""Kinds of groups, which differ in noise: between units of one job, between jobs of one application."""
ROUNDS = 30
"""Most rounds in which noise and spread are estimated."""
LEAST_VARIANCE = 1e-10
NORMAL_95 = 1.96
MANY = 64
"""Samples of a group beyond which its median is taken with the sample itself."""
SLACK, UNSURE = 0.5, 3.0
"""Slack of the cumulative sums in standard deviations, and how often the uncertainty of a factor is added to it."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitTelemetry:
    """Mean watts of single units over jobs: energy over run time. Shapes (n,), in order of time.

    Attributes:
        time_s: End of the job.
        group: Number of the group.
        kind: ``ONE_JOB`` or ``ONE_APPLICATION``, the same for a whole group.
        unit: Number of the unit.
        watts: Watts of the unit.

    Raises: InputError for columns of different lengths, times that fall, negative numbers, and watts not above 0.
    """

    time_s: Floats
    group: Ints
    kind: Ints
    unit: Ints
    watts: Floats

    def __post_init__(self) -> None:
        columns = (self.time_s, self.group, self.kind, self.unit, self.watts)
        if len({len(column) for column in columns}) > 1:
            raise InputError("columns differ in length", where="unit telemetry")
        if not len(self.watts):
            raise InputError("no samples", where="unit telemetry", hint="energy by node of jobs that ended")
        if not (np.isfinite(self.watts) & (self.watts > 0)).all():
            raise InputError("watts that are not above 0", where="unit telemetry", hint="leave such samples out")
        if (np.diff(self.time_s) < 0).any() or min(self.group.min(), self.unit.min(), self.kind.min()) < 0:
            raise InputError("times fall, or a number is negative", where="unit telemetry", hint="sort by time")

    @classmethod
    def of_jobs(cls, job: Ints, app: Ints, unit: Ints, end_s: Floats, watts: Floats) -> UnitTelemetry:
        """Return rows of jobs, one for each of their units, with their groups. Shapes (n,), in order of ends.

        Jobs over several units are groups by themselves; those on one unit belong to their application.

        Raises: InputError as the class does.
        """
        one = np.bincount(job)[job] == 1
        group = np.where(one, app, app.max(initial=-1) + 1 + job)
        return cls(end_s, group, np.where(one, ONE_APPLICATION, ONE_JOB), unit, watts)

    def between(self, begin_s: float, end_s: float) -> UnitTelemetry:
        """Return the samples from one instant to before another. Raises: InputError for none."""
        at = slice(*np.searchsorted(self.time_s, (begin_s, end_s)))
        return UnitTelemetry(self.time_s[at], self.group[at], self.kind[at], self.unit[at], self.watts[at])


@dataclass(frozen=True, slots=True, eq=False)
class LearnedFactors:
    """Factors of U units, relative to their mean.

    Attributes:
        factor: Watts over those of the mean unit. Shape (U,).
        low: Lower end of the 95 % interval. Shape (U,).
        high: Upper end. Shape (U,).
        samples: Samples of each unit. Shape (U,).
        noise: Standard deviation of a sample by kind of group, relative. Shape (2,).
        spread: Standard deviation of the factors over units, relative.
        log_sd: Standard deviation of the logarithm of each factor. Shape (U,).
    """

    factor: Floats
    low: Floats
    high: Floats
    samples: Ints
    noise: Floats
    spread: float
    log_sd: Floats

    def table(self, apps: Sequence[str], base_w: Floats, units: Sequence[str]) -> UnitTable:
        """Return the factors as a table for policies: the same for every application, at its mean watts (A,)."""
        factor = np.tile(self.factor, (len(apps), 1))
        return UnitTable(tuple(apps), tuple(units), base_w, factor, "predicted")


@dataclass(frozen=True, slots=True)
class Drift:
    """A unit whose factor has changed.

    Attributes:
        unit: Its number.
        time_s: When it was found.
        since_s: First sample that counts towards it.
        change: Change of its watts, relative.
    """

    unit: int
    time_s: float
    since_s: float
    change: float


def learn_factors(telemetry: UnitTelemetry, units: int) -> LearnedFactors:
    """Return the factors of all units; one that has no samples has factor 1 and the interval of the spread.

    Noise and spread are estimated by repeated restricted maximum likelihood steps. O(U^3) a round.

    Raises: InputError for a unit number beyond ``units``, and where no group has two units.
    """
    if telemetry.unit.max() >= units:
        raise InputError(f"unit {telemetry.unit.max()} of {units}", where="unit telemetry")
    fit = _Fit.of(telemetry, units)
    if not fit.pairs:
        raise InputError(
            "no group has samples of two units", where="unit telemetry", hint="jobs over several nodes, or applications"
        )
    noise, spread = np.full(2, 0.02**2), 0.03**2
    for _ in range(ROUNDS):
        log_factor, covariance, determined = fit.solve(noise, spread)
        squares = fit.residuals(log_factor) ** 2
        before = (*noise, spread)
        weight = 1.0 / noise[telemetry.kind]
        for kind in (ONE_JOB, ONE_APPLICATION):
            own = telemetry.kind == kind
            # Precise samples determine the factors, and have the fewer degrees of freedom left for it.
            left = own.sum() - fit.groups_of[kind] - determined * weight[own].sum() / weight.sum()
            if left >= 1.0:
                noise[kind] = max(float(squares[own].sum() / left), LEAST_VARIANCE)
        spread = max(float(np.mean(log_factor**2 + np.diag(covariance))), LEAST_VARIANCE)
        if np.allclose(before, (*noise, spread), rtol=1e-3):
            break
    log_factor, covariance, _ = fit.solve(noise, spread)
    # Only differences between units are known: relative to their mean, as the level of a group takes the rest.
    centred = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, np.newaxis] + covariance.mean()
    log_sd = np.sqrt(np.maximum(np.diag(centred), 0.0))
    log_factor = log_factor - log_factor.mean()
    factor = np.exp(log_factor)
    scale = factor.mean()
    low, high = (np.exp(log_factor + side * NORMAL_95 * log_sd) / scale for side in (-1.0, 1.0))
    samples = np.bincount(telemetry.unit, minlength=units)
    return LearnedFactors(factor / scale, low, high, samples, np.sqrt(noise), float(np.sqrt(spread)), log_sd)


def find_drifts(learned: LearnedFactors, later: UnitTelemetry, false_alarms: float = 0.05) -> list[Drift]:
    """Return the units whose watts have left the learned factor, each with its first alarm, in order of time.

    Cumulative sums upwards and downwards (Page 1954) of each sample's difference from the other units of its group, in
    standard deviations. The slack grows with the uncertainty of the learned factor. The threshold is that for which
    ``false_alarms`` are expected among all samples (Siegmund's approximation of the run length).

    Reference: Page, Continuous inspection schemes, Biometrika 41 (1954); Siegmund, Sequential Analysis (1985), 2.6.
    """
    limit = threshold(2.0 * len(later.watts) / false_alarms)
    trusted = np.ones(len(learned.factor), np.bool_)
    suspects = _alarms(learned, later, trusted, limit)
    # A unit that has changed accuses its partners: suspects are judged again by the other units alone.
    trusted[[drift.unit for drift in suspects]] = False
    accused = set(np.flatnonzero(~trusted).tolist())
    found = [drift for drift in _alarms(learned, later, trusted, limit) if drift.unit in accused]
    return sorted(found, key=lambda drift: drift.time_s)


def _alarms(learned: LearnedFactors, later: UnitTelemetry, trusted: NDArray[np.bool_], limit: float) -> list[Drift]:
    """Return the first alarm of each unit, compared with the trusted units of its groups."""
    excess, deviation = _excess(learned, later, trusted)
    found = []
    for unit in np.unique(later.unit):
        rows = np.flatnonzero((later.unit == unit) & np.isfinite(deviation))
        slack = SLACK + UNSURE * learned.log_sd[unit] / np.maximum(deviation[rows], np.finfo(float).tiny)
        score = excess[rows] / deviation[rows]
        both = (_alarm(sign * score - slack, limit) for sign in (1.0, -1.0))
        alarm = min(filter(None, both), key=lambda steps: steps[1], default=None)
        if alarm is not None:
            first, last = alarm
            change = float(np.expm1(np.mean(excess[rows[first : last + 1]])))
            found.append(Drift(int(unit), float(later.time_s[rows[last]]), float(later.time_s[rows[first]]), change))
    return found


def threshold(run_length: float) -> float:
    """Return the threshold of a cumulative sum with ``SLACK`` whose mean run to a false alarm is ``run_length``."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2.0
        b = 2.0 * SLACK * (middle + 1.166)
        long_enough = (np.exp(b) - b - 1.0) / (2.0 * SLACK**2) >= run_length
        low, high = (low, middle) if long_enough else (middle, high)
    return high


def _alarm(steps: Floats, limit: float) -> tuple[int, int] | None:
    """Return the step where the first cumulative sum above ``limit`` begins, and that of its alarm; None for none."""
    total, first = 0.0, 0
    for k, step in enumerate(steps.tolist()):
        if total == 0.0:
            first = k
        total = max(0.0, total + step)
        if total > limit:
            return first, k
    return None


def _excess(learned: LearnedFactors, later: UnitTelemetry, trusted: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return log watts above what factor and group foretell, and its standard deviation.

    The level of a group is the median of its other samples on trusted units; NaN where there are none.
    """
    rest = np.log(later.watts) - np.log(learned.factor[later.unit])
    excess, deviation = np.full(len(rest), np.nan), np.full(len(rest), np.nan)
    order = np.argsort(later.group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(later.group[order])) + 1):
        usable = trusted[later.unit[rows]]
        others = usable.sum() - usable
        if not others.any():
            continue
        excess[rows] = rest[rows] - _of_others(rest[rows], usable)
        # The median of many has pi/2 times the variance of their mean.
        share = np.where(others > 2, np.pi / 2.0, 1.0) / np.maximum(others, 1)
        variance = learned.noise[later.kind[rows]] ** 2 * (1.0 + share) + learned.log_sd[later.unit[rows]] ** 2
        deviation[rows] = np.where(others > 0, np.sqrt(variance), np.nan)
    return excess, deviation


def _of_others(values: Floats, usable: NDArray[np.bool_]) -> Floats:
    """Return the median of the other usable values for each; of all where one of them hardly moves it. Shape (k,)."""
    if usable.sum() > MANY:
        return np.full(len(values), np.median(values[usable]))
    found = np.full(len(values), np.nan)
    for k in range(len(values)):
        others = usable.copy()
        others[k] = False
        if others.any():
            found[k] = np.median(values[others])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Samples of the fit, with what stays the same in all rounds.

    Attributes:
        seen: By kind, what samples of unit noise say of differences between units: the Laplacian of the graph of units
            that groups connect. Shape (2, U, U).
        right: Its right side: sums of what samples lie above their group, by kind and unit. Shape (2, U).
        groups_of: Number of groups by kind.
    """

    log_w: Floats
    group: Ints
    kind: Ints
    unit: Ints
    seen: Floats
    right: Floats
    groups_of: tuple[int, int]

    @classmethod
    def of(cls, telemetry: UnitTelemetry, units: int) -> _Fit:
        """Return the samples with groups numbered without gaps, levels of groups eliminated."""
        _, first, group = np.unique(telemetry.group, return_index=True, return_inverse=True)
        kinds = telemetry.kind[first]
        seen, right = np.zeros((2, units, units)), np.zeros((2, units))
        order = np.argsort(group, kind="stable")
        for number, rows in enumerate(np.split(order, np.flatnonzero(np.diff(group[order])) + 1)):
            unit, count = np.unique(telemetry.unit[rows], return_counts=True)
            seen[kinds[number]][np.ix_(unit, unit)] += np.diag(count) - np.outer(count, count) / len(rows)
        log_w = np.log(telemetry.watts)
        found = cls(log_w, group, telemetry.kind, telemetry.unit, seen, right, _numbers(kinds))
        np.add.at(right, (telemetry.kind, telemetry.unit), found.from_level(log_w))
        return found

    @property
    def pairs(self) -> bool:
        """Return whether a group has samples of two units."""
        return bool(self.seen.any())

    def solve(self, noise: Floats, spread: float) -> tuple[Floats, Floats, float]:
        """Return log factors (U,), their covariance (U, U), and how many parameters the data determine.

        ``noise`` and ``spread`` are variances.
        """
        known = np.tensordot(1.0 / noise, self.seen, 1)
        covariance = np.asarray(np.linalg.inv(known + np.eye(len(known)) / spread), np.float64)
        found: Floats = covariance @ (1.0 / noise @ self.right)
        return found, covariance, float((known * covariance).sum())

    def residuals(self, log_factor: Floats) -> Floats:
        """Return what neither factors nor levels explain. Shape (n,)."""
        return self.from_level(self.log_w - log_factor[self.unit])

    def from_level(self, values: Floats) -> Floats:
        """Return values relative to the mean of their group. Shape (n,)."""
        level = np.bincount(self.group, values) / np.bincount(self.group)
        centred: Floats = values - level[self.group]
        return centred


def _numbers(kinds: Ints) -> tuple[int, int]:
    """Return how many groups there are of each kind."""
    return int((kinds == ONE_JOB).sum()), int((kinds == ONE_APPLICATION).sum())
