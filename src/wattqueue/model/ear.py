"""The EAR model: watts and run time of an application at one frequency from metrics at another.

``P(f) = A P + B TPI + C`` (eq. 1), ``CPI(f) = D CPI + E TPI + F`` (eq. 2) and
``T(f) = T CPI(f) / CPI f_ref / f`` (eq. 3); the six coefficients belong to a pair (f_ref, f) of one
hardware configuration and come from a learning phase (``model.ear_learning``).

Symbols as in paper 1: P watts of a node, TPI memory transactions per instruction, CPI cycles per instruction, T run
time. Frequencies are in Hz and fall along every axis, the nominal one first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError

Floats = NDArray[np.float64]

COEFFICIENT_NAMES = ("A", "B", "C", "D", "E", "F")
SAME_HZ = 0.5e6
"""Two frequencies closer than this are the same: EAR counts in kHz, files in GHz with one digit."""


@dataclass(frozen=True, eq=False)
class Signatures:
    """Metrics measured of k applications at one frequency, on one hardware configuration. Shapes (k,).

    NaN marks an application without a measurement. Raises: InputError for unequal lengths.
    """

    time_s: Floats
    power_w: Floats
    """Watts of one node."""
    cpi: Floats
    """Cycles per instruction."""
    tpi: Floats
    """Memory transactions per instruction, in the unit in which EAR reports them."""

    @classmethod
    def of(cls, time_s: ArrayLike, power_w: ArrayLike, cpi: ArrayLike, tpi: ArrayLike) -> Signatures:
        """Return metrics from plain numbers or sequences."""
        return cls(*(np.atleast_1d(np.asarray(column, np.float64)) for column in (time_s, power_w, cpi, tpi)))

    def __post_init__(self) -> None:
        if len({len(c) for c in (self.time_s, self.power_w, self.cpi, self.tpi)}) != 1:
            raise InputError("columns of unequal length", where="metrics")

    def __len__(self) -> int:
        return len(self.time_s)

    def take(self, index: NDArray[Any]) -> Signatures:
        """Return the rows of ``index``: a mask, or row numbers."""
        from wattqueue.model.codec import take

        return take(self, index)


@dataclass(frozen=True, eq=False)
class Projection:
    """Metrics at every frequency that has coefficients, the highest first.

    Shapes: ``frequency_hz`` (F,); ``power_w``, ``cpi``, ``time_s`` (k, F).
    """

    frequency_hz: Floats
    power_w: Floats
    cpi: Floats
    time_s: Floats

    @property
    def energy_j(self) -> Floats:
        """Return the energy of one node from start to end. Shape (k, F)."""
        return self.power_w * self.time_s


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of one hardware configuration.

    Shapes: ``frequency_hz`` (F,), falling; ``available`` (F, F) by (reference, target);
    ``values`` (F, F, 6) in the order A to F, watts for A, B and C.

    Raises: InputError for shapes that do not fit, frequencies that do not fall, or an available
    pair whose coefficients are not finite.
    """

    frequency_hz: Floats
    available: NDArray[np.bool_]
    values: Floats

    def __post_init__(self) -> None:
        f = len(self.frequency_hz)
        if self.available.shape != (f, f) or self.values.shape != (f, f, 6):
            raise InputError(f"{f} frequencies need tables of {f} x {f} pairs", where="coefficients")
        if (np.diff(self.frequency_hz) >= 0).any() or (self.frequency_hz <= 0).any():
            raise InputError("frequencies must be positive and fall", where="coefficients")
        if not np.isfinite(self.values[self.available]).all():
            raise InputError("an available pair has a coefficient that is not a number", where="coefficients")

    @classmethod
    def of_pairs(cls, ref_hz: ArrayLike, target_hz: ArrayLike, available: ArrayLike, values: ArrayLike) -> Coefficients:
        """Return coefficients from one row per pair; a missing or all-zero pair has none. Shapes (r,), (r, 6).

        EAR writes all zeros, marked available, for pairs that its learning phase never reached.
        Raises: InputError for a pair that is there twice.
        """
        ref, target = np.asarray(ref_hz, np.float64), np.asarray(target_hz, np.float64)
        rows = np.asarray(values, np.float64).reshape(-1, 6)
        usable = np.asarray(available, bool) & (rows != 0).any(1)
        frequency = np.unique(np.concatenate((ref, target)))[::-1]
        i = len(frequency) - 1 - np.searchsorted(frequency[::-1], ref)
        j = len(frequency) - 1 - np.searchsorted(frequency[::-1], target)
        if len(np.unique(i * len(frequency) + j)) != len(i):
            raise InputError("a pair of frequencies is there twice", where="coefficients")
        table = np.zeros((len(frequency), len(frequency), 6))
        flag = np.zeros((len(frequency), len(frequency)), bool)
        table[i[usable], j[usable]] = rows[usable]
        flag[i, j] = usable
        return cls(frequency, flag, table)

    def row(self, frequency_hz: float) -> int:
        """Return the index of a frequency.

        Raises: InputError with the known frequencies in the hint.
        """
        near = int(np.argmin(np.abs(self.frequency_hz - frequency_hz)))
        if abs(self.frequency_hz[near] - frequency_hz) > SAME_HZ:
            known = ", ".join(f"{f / 1e9:g}" for f in self.frequency_hz)
            raise InputError(f"none at {frequency_hz / 1e9:g} GHz", where="coefficients", hint=f"known: {known}")
        return near

    @cached_property
    def nominal_hz(self) -> float:
        """Return the highest frequency with coefficients to itself: the one at which application data are given.

        Raises: InputError where there is none.
        """
        itself = np.flatnonzero(np.diagonal(self.available))
        if not len(itself):
            raise InputError("no frequency is available from itself", where="coefficients")
        return float(self.frequency_hz[itself[0]])

    def targets_hz(self, ref_hz: float) -> Floats:
        """Return the frequencies with coefficients from ``ref_hz``, falling; no other is ever offered. Shape (F,)."""
        reach: Floats = self.frequency_hz[self.available[self.row(ref_hz)]]
        return reach


def project(coefficients: Coefficients, metrics: Signatures, ref_hz: float) -> Projection:
    """Return watts, CPI and time of k applications at every frequency reachable from ``ref_hz``.

    Raises: InputError where ``ref_hz`` is unknown.
    Reference: paper 1, equations 1 to 3.
    """
    i = coefficients.row(ref_hz)
    reach = coefficients.available[i]
    f = coefficients.frequency_hz[reach]
    A, B, C, D, E, F = coefficients.values[i, reach].T
    P, T, CPI, TPI = (c[:, np.newaxis] for c in (metrics.power_w, metrics.time_s, metrics.cpi, metrics.tpi))
    power = A * P + B * TPI + C  # (1)
    cpi = D * CPI + E * TPI + F  # (2)
    time = T * cpi / CPI * (coefficients.frequency_hz[i] / f)  # (3)
    return Projection(f, power, cpi, time)


def at_frequency(coefficients: Coefficients, metrics: Signatures, ref_hz: float, target_hz: float) -> Signatures:
    """Return the metrics of k applications at one other frequency. TPI does not depend on frequency in this model.

    Raises: InputError where the pair has no coefficients.
    """
    seen = project(coefficients, metrics, ref_hz)
    j = np.flatnonzero(np.abs(seen.frequency_hz - target_hz) <= SAME_HZ)
    if not len(j):
        raise InputError(
            f"none from {ref_hz / 1e9:g} to {target_hz / 1e9:g} GHz",
            where="coefficients",
            hint="run the learning phase at both frequencies",
        )
    k = int(j[0])
    return Signatures(seen.time_s[:, k], seen.power_w[:, k], seen.cpi[:, k], metrics.tpi)
