"""Distributions that workload generators draw from: quantile tables, menus of round values, rank mapping.

Generators draw correlated normal *scores* first and map their ranks on a distribution afterwards (``ranks``, then
``value``). So the marginal distribution is exact whatever the correlations are, and calibrating one does not disturb
the other. Two representations: ``Quantiles`` (continuous, log-linear between published quantiles, atoms as flat
stretches) and ``Menu`` (few round values). ``limited_by`` answers which distribution of natural durations leads to a
published distribution of run times once users' time limits cut jobs off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LIMIT_GRID = 4000
"""Points of the table that ``limited_by`` solves on."""
_JUST_BELOW = 1e-9
"""Relative distance of the point placed below each atom, so that interpolation does not smear the atom."""
_ROUNDING = 1e-12
"""Probabilities that differ by less are one."""
_NORMAL_GRID = 20001
"""Points of the table of the normal distribution, from -6 to 6."""
_NORMAL_END = 6.0


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A distribution known by its quantiles: ``x[i]`` at cumulative probability ``p[i]``, log-linear between."""

    p: Floats
    """Cumulative probabilities, rising from 0 to 1. Shape (k,)."""
    x: Floats
    """Values there: positive, never falling; a flat stretch is an atom. Shape (k,)."""

    def value(self, p: Floats) -> Floats:
        """Return the quantiles at ``p``, elementwise."""
        return np.exp(np.interp(p, self.p, np.log(self.x)))

    def cdf(self, x: Floats) -> Floats:
        """Return the probability of at most ``x``, elementwise; 1 from the last value on, where an atom may lie."""
        inner = np.interp(np.log(x), np.log(self.x[:-1]), self.p[:-1])
        return np.where(x >= self.x[-1], 1.0, np.where(x < self.x[0], 0.0, inner))


@dataclass(frozen=True, eq=False)
class Menu:
    """A distribution on few values, such as time limits that users write as round numbers."""

    x: Floats
    """The values, rising. Shape (k,)."""
    mass: Floats
    """Their probabilities, summing to 1. Shape (k,)."""

    @classmethod
    def of(cls, table: dict[float, float]) -> Menu:
        """Build a menu from value -> weight; weights are scaled to sum to 1."""
        x = np.array(sorted(table), np.float64)
        mass = np.array([table[v] for v in x], np.float64)
        return cls(x, mass / mass.sum())

    @cached_property
    def cumulative(self) -> Floats:
        """Return the probability of at most each value; exactly 1 at the end, despite rounding. Shape (k,)."""
        total = np.cumsum(self.mass)
        total[-1] = 1.0
        return total

    def index(self, p: Floats) -> NDArray[np.intp]:
        """Return the index of the value at cumulative probability ``p``, elementwise."""
        return np.minimum(np.searchsorted(self.cumulative, p, side="right"), len(self.x) - 1)

    def value(self, p: Floats) -> Floats:
        """Return the quantiles at ``p``, elementwise."""
        return self.x[self.index(p)]

    def cdf(self, x: Floats) -> Floats:
        """Return the probability of at most ``x``, elementwise."""
        at = np.searchsorted(self.x, x, side="right")
        return np.concatenate(([0.0], self.cumulative))[at]

    def at_most(self, limit: float) -> Menu:
        """Return the menu without the values above ``limit``, rescaled; the least value always stays."""
        keep = self.x <= max(limit, float(self.x[0]))
        return Menu(self.x[keep], self.mass[keep] / self.mass[keep].sum())

    def mean(self) -> float:
        """Return the expected value."""
        return float(self.x @ self.mass)


def power_tail(knots: dict[float, float], top: float, exponent: float, atom: float, points: int = 200) -> Quantiles:
    """Return quantiles from ``knots`` (p -> x), log-linear between them, and a truncated Pareto tail.

    The tail begins at the last knot, has density x**(-1-exponent) up to ``top`` and ends there in an atom of mass
    ``atom``. Inverse transform sampling of a truncated Pareto distribution gives its points; ``points`` of them
    represent it.
    """
    p0, x0 = max(knots), knots[max(knots)]
    share = np.linspace(0.0, 1.0, points)
    low, high = x0**-exponent, top**-exponent
    tail_x = (low - share * (low - high)) ** (-1.0 / exponent)
    tail_p = p0 + share * (1.0 - atom - p0)
    p = np.concatenate((sorted(knots), tail_p[1:], [1.0]))
    x = np.concatenate(([knots[k] for k in sorted(knots)], tail_x[1:], [top]))
    return Quantiles(p, x)


def lognormal_mixture(parts: tuple[tuple[float, float, float], ...], low: float, high: float) -> Quantiles:
    """Return quantiles of a mixture of log-normals (weight, median, sd of the log), cut to ``low`` .. ``high``."""
    x = np.exp(np.linspace(math.log(low), math.log(high), 2001))
    total = np.zeros_like(x)
    for weight, median, sd in parts:
        total += weight * normal_cdf(np.log(x / median) / sd)
    return _strict((total - total[0]) / (total[-1] - total[0]), x)


def normal_cdf(z: Floats) -> Floats:
    """Return the standard normal distribution function, from a table that is linear between 20,001 points.

    numpy has no error function; scipy is an optional dependency and would be needed for this alone.
    """
    return np.interp(z, *_normal_table())


@cache
def _normal_table() -> tuple[Floats, Floats]:
    """Return z from -6 to 6 and the distribution function there. Shapes (20001,)."""
    grid = np.linspace(-_NORMAL_END, _NORMAL_END, _NORMAL_GRID)
    return grid, np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in grid.tolist()])


def ranks(score: Floats) -> Floats:
    """Return scores as probabilities: (mean rank + 1/2) / n, equal for equal scores. Shape (n,), within (0, 1).

    Mapping a distribution's quantiles on ranks gives its shape exactly, whatever the scores' own shape.
    """
    n = len(score)
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    count = np.diff(np.concatenate((first, [n])))
    middle = np.repeat(first + count / 2.0, count)
    out = np.empty(n, np.float64)
    out[order] = middle / n
    return out


def limited_by(target: Quantiles, limit: Menu, at_limit: float) -> Quantiles:
    """Return the natural durations F0 whose outcome under job limits follows ``target``.

    A job with limit w ends at w with probability ``at_limit``; otherwise its duration is drawn from F0
    given that it is at most w. So the outcome G obeys, for every r,
        G(r) = a L(r) + (1 - a) sum_w P(w) min(1, F0(r) / F0(w)),  a = at_limit, L the limits' distribution,
    which is solved from the top down: F0 above r is known, what remains is linear in F0(r). The target must
    leave room: no more of it above r than limits allow, no less at the longest limit than ends there.
    """
    grid = np.geomspace(target.x[0], target.x[-1], _LIMIT_GRID)
    r = np.unique(np.concatenate((grid, limit.x, limit.x * (1.0 - _JUST_BELOW))))  # so that atoms stay sharp
    r = r[(r >= target.x[0]) & (r <= limit.x[-1])]
    inner = np.maximum.accumulate((target.cdf(r) - at_limit * limit.cdf(r)) / (1.0 - at_limit))
    below = limit.cdf(r)
    mass = dict(zip(limit.x.tolist(), limit.mass.tolist(), strict=True))
    natural = np.ones(len(r))
    pull = mass[float(limit.x[-1])]  # sum over w > r of P(w) / F0(w); F0 of the longest limit is 1
    for i in range(len(r) - 2, -1, -1):
        natural[i] = min(natural[i + 1], max(0.0, inner[i] - below[i]) / pull)
        if r[i] in mass and natural[i] > 0:
            pull += mass[float(r[i])] / natural[i]
    natural[0] = 0.0
    return _strict(natural, r)


def _strict(p: Floats, x: Floats) -> Quantiles:
    """Keep one value per probability, so that interpolation over p is well defined.

    Where several values have the same probability, the highest stays; at the top, the lowest.
    """
    end = int(np.argmax(p >= p[-1] - _ROUNDING)) + 1
    p, x = p[:end], x[:end]
    last = np.concatenate((np.diff(p) > 0, [True]))
    return Quantiles(p[last], x[last])


def pick(rng: np.random.Generator, weights: Floats, size: int) -> NDArray[np.int64]:
    """Draw ``size`` indices with the given weights. Shape (size,).

    Faster than ``rng.choice`` with probabilities, and weights need not sum to 1. The last index is a limit because
    rounding may place a draw at the total itself.
    """
    total = np.cumsum(weights)
    drawn: NDArray[Any] = np.searchsorted(total, rng.random(size) * total[-1], side="right")
    index: NDArray[np.int64] = np.minimum(drawn, len(weights) - 1).astype(np.int64)
    return index
