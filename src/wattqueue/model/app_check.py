"""Does a running job do what its application claims? And what follows if it does not. Pure functions.

A job that runs at f on some hardware should show the CPI, the memory transactions and the watts that
the EAR model gives for its claimed application there. If it does not, it gets the frequency that suits
what it really is, and the misfit goes on its user's record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Metrics, project

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far measured metrics may lie from the claimed ones: a share, and at least an absolute figure.

    The floors keep an application with next to no memory traffic (ep.D: 0.008 transactions) from being
    called a fraud over a difference that no instrument sees. Raises: InputError for figures not above 0.
    """

    share: float = 0.2
    cpi: float = 0.05
    tpi: float = 1.0
    power_w: float = 15.0

    def __post_init__(self) -> None:
        if not min(self.share, self.cpi, self.tpi, self.power_w) > 0:
            raise InputError(f"tolerances must be above 0: {self}")


class Consequence(IntEnum):
    """What a user's record leads to, each including what stands before it."""

    NONE = 0
    WARNING = 1
    LOWER_PRIORITY = 2
    NO_CHOICE = 3
    """The applications that he names are not believed: his jobs run as if they had named none."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """From how many misfits in a window each consequence follows; 0 switches one off.

    Raises: InputError for a negative count or window.
    """

    warning: int = 1
    lower_priority: int = 3
    no_choice: int = 0
    window_s: float = 30 * 86_400.0

    def __post_init__(self) -> None:
        if min(self.warning, self.lower_priority, self.no_choice) < 0 or not self.window_s > 0:
            raise InputError(f"counts of misfits must be 0 or more, their window above 0: {self}")

    def consequence(self, misfits: int) -> Consequence:
        """What follows from a number of misfits within the window."""
        steps = (
            (self.no_choice, Consequence.NO_CHOICE),
            (self.lower_priority, Consequence.LOWER_PRIORITY),
            (self.warning, Consequence.WARNING),
        )
        return next((what for count, what in steps if count and misfits >= count), Consequence.NONE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one measurement says about a job's claim.

    ``distance`` of the worst metric from the claim, in tolerances: above 1 is a misfit, NaN no claim.
    ``found``: row of the application that it does fit, -1 for none.
    """

    distance: float
    found: int

    @property
    def fits(self) -> bool:
        """Whether the job is what it claims to be; an unknown application claims nothing."""
        return not self.distance > 1.0


def distances(measured: Metrics, expected: Metrics, tolerance: Tolerance) -> Floats:
    """Distance of one measurement from each expectation, in tolerances; NaN for unknown ones. Shape (k,).

    Run time is no criterion: it varies from run to run (paper 1, section 3.3).
    """
    worst = np.zeros(len(expected))
    for name, floor in (("cpi", tolerance.cpi), ("tpi", tolerance.tpi), ("power_w", tolerance.power_w)):
        seen, claim = getattr(measured, name)[0], getattr(expected, name)
        allowed = np.maximum(tolerance.share * np.abs(claim), floor)
        # maximum, not fmax: an unknown metric makes the distance unknown.
        worst = np.maximum(worst, np.abs(seen - claim) / allowed)
    return worst


def judge(measured: Metrics, expected: Metrics, claimed: int, tolerance: Tolerance | None = None) -> Verdict:
    """Compare one running job with every application's expectation at its frequency and hardware.

    ``expected`` has one row an application (NaN where there is no entry); ``claimed`` is the job's row, -1
    where it names none.

    Reference: paper 1, section 3.4.
    """
    away = distances(measured, expected, tolerance or Tolerance())
    known = np.flatnonzero(np.isfinite(away))
    nearest = int(known[np.argmin(away[known])]) if len(known) else -1
    found = nearest if nearest >= 0 and away[nearest] <= 1.0 else -1
    return Verdict(float(away[claimed]) if claimed >= 0 else float("nan"), found)


def better_frequency(measured: Metrics, coefficients: Coefficients, now_hz: float, t_weight: float = 1.0) -> float:
    """The frequency that eq. 4 picks from what a job shows while it runs at ``now_hz``.

    The measurement itself is the model's input, so this needs no entry of any application. Remaining
    work is what counts, and it shrinks both terms alike. Without coefficients from ``now_hz`` it stays.

    Reference: paper 1, section 3.4 (a new frequency is calculated based on runtime data), eq. 4.
    """
    i = coefficients.row(now_hz)
    if not coefficients.available[i].any():
        return now_hz
    one = Metrics(np.ones(1), measured.power_w, measured.cpi, measured.tpi)
    seen = project(coefficients, one, now_hz)
    energy, time = seen.energy_j[0], seen.time_s[0]
    usable = (seen.power_w[0] > 0) & (time > 0)
    if not usable.any():
        return now_hz
    cost = (energy / energy[usable].min()) ** 2 + t_weight * (time / time[usable].min()) ** 2
    return float(seen.frequency_hz[int(np.argmin(np.where(usable, cost, np.inf)))])
