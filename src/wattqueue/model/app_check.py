"""Compare a running job with the application that it claims to be, and decide what follows. Pure functions.

A job that runs at f on some hardware should show the CPI, the memory transactions and the watts that the EAR model
gives for its claimed application there (``judge``). If it does not, it gets the frequency that suits its measurement
(``better_frequency``), and the false claim is recorded for its user; a ladder of consequences follows from how many
there are within a window (``Ladder``). The control ``parts/controls/app_check.py`` calls these functions.

Reference: paper 1, section 3.4.

Users' records of false claims are applied to their next jobs (``without_choice``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Signatures, project
from wattqueue.model.jobs import Jobs, Labels

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far measured metrics may lie from the claimed ones: a share, and at least an absolute figure.

    The absolute figures matter for an application with next to no memory traffic (ep.D: 0.008 transactions), where a
    share would be smaller than what any instrument resolves. Raises: InputError for figures not above 0.
    """

    share: float = 0.2
    """Share of the claimed value."""
    cpi: float = 0.05
    """Cycles per instruction, at least."""
    tpi: float = 1.0
    """Memory transactions per instruction, in EAR's unit, at least."""
    power_w: float = 15.0
    """Watts of one node, at least."""

    def __post_init__(self) -> None:
        if not min(self.share, self.cpi, self.tpi, self.power_w) > 0:
            raise InputError(f"must be above 0: {self}", where="tolerances")


class Consequence(IntEnum):
    """What follows from a user's record; each includes those before it."""

    NONE = 0
    WARNING = 1
    LOWER_PRIORITY = 2
    NO_CHOICE = 3
    """The user's claims are ignored: their jobs run as if they named no application."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Number of false claims within a window from which each consequence follows; 0 switches one off.

    Raises: InputError for a negative count, or a window that is not above 0.
    """

    warning: int = 1
    lower_priority: int = 3
    no_choice: int = 0
    window_s: float = 30 * 86_400.0
    """Older claims are forgotten."""

    def __post_init__(self) -> None:
        if min(self.warning, self.lower_priority, self.no_choice) < 0 or not self.window_s > 0:
            raise InputError(f"counts must be 0 or more, the window above 0: {self}", where="ladder of consequences")

    def consequence(self, misfits: int) -> Consequence:
        """Return the consequence of a number of false claims within the window."""
        steps = (
            (self.no_choice, Consequence.NO_CHOICE),
            (self.lower_priority, Consequence.LOWER_PRIORITY),
            (self.warning, Consequence.WARNING),
        )
        return next((what for count, what in steps if count and misfits >= count), Consequence.NONE)


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """Result of one measurement."""

    distance: float
    """Distance of the worst metric from the claim, in tolerances: above 1 is a false claim, NaN no claim."""
    found: int
    """Row of the application that the job does fit, -1 for none."""

    @property
    def fits(self) -> bool:
        """Return whether the claim holds; a job without a claim (NaN) fits."""
        return not self.distance > 1.0


def distances(measured: Signatures, expected: Signatures, tolerance: Tolerance) -> Floats:
    """Return the distance of one measurement from each expectation, in tolerances; NaN for unknown ones. Shape (k,).

    Run time is not compared: it varies from run to run (paper 1, section 3.3).
    """
    worst = np.zeros(len(expected))
    for name, floor in (("cpi", tolerance.cpi), ("tpi", tolerance.tpi), ("power_w", tolerance.power_w)):
        seen, claim = getattr(measured, name)[0], getattr(expected, name)
        allowed = np.maximum(tolerance.share * np.abs(claim), floor)
        # maximum, not fmax: an unknown metric makes the distance unknown.
        worst = np.maximum(worst, np.abs(seen - claim) / allowed)
    return worst


def judge(measured: Signatures, expected: Signatures, claimed: int, tolerance: Tolerance | None = None) -> ClaimVerdict:
    """Compare one running job with every application's expectation at its frequency and hardware.

    ``expected`` has one row an application (NaN where there is no entry); ``claimed`` is the job's row, -1
    where it names none.

    Reference: paper 1, section 3.4.
    """
    away = distances(measured, expected, tolerance or Tolerance())
    known = np.flatnonzero(np.isfinite(away))
    nearest = int(known[np.argmin(away[known])]) if len(known) else -1
    found = nearest if nearest >= 0 and away[nearest] <= 1.0 else -1
    return ClaimVerdict(float(away[claimed]) if claimed >= 0 else float("nan"), found)


def better_frequency(measured: Signatures, coefficients: Coefficients, now_hz: float, t_weight: float = 1.0) -> float:
    """Return the frequency that eq. 4 chooses from a measurement of a job that runs at ``now_hz``.

    The measurement itself is the model's input, so no application profile is needed. Only the remaining work counts,
    but it scales energy and time alike, so it cancels. Without coefficients from ``now_hz`` the frequency stays.

    Reference: paper 1, section 3.4 (a new frequency is calculated based on runtime data), eq. 4.
    """
    i = coefficients.row(now_hz)
    if not coefficients.available[i].any():
        return now_hz
    one = Signatures(np.ones(1), measured.power_w, measured.cpi, measured.tpi)
    seen = project(coefficients, one, now_hz)
    energy, time = seen.energy_j[0], seen.time_s[0]
    usable = (seen.power_w[0] > 0) & (time > 0)
    if not usable.any():
        return now_hz
    cost = (energy / energy[usable].min()) ** 2 + t_weight * (time / time[usable].min()) ** 2
    return float(seen.frequency_hz[int(np.argmin(np.where(usable, cost, np.inf)))])


def without_claims(jobs: Jobs, record: Mapping[str, Consequence]) -> Jobs:
    """Return the jobs with the claims of users at ``NO_CHOICE`` removed: they are predicted and run as first runs."""
    without = without_choice(record)
    barred = np.array([*(name in without for name in jobs.user.names), False])
    codes = np.where(barred[jobs.user.codes], -1, jobs.app.codes).astype(np.int32)
    return replace(jobs, app=Labels(codes, jobs.app.names))


def without_choice(record: Mapping[str, Consequence]) -> frozenset[str]:
    """Return the users whose claims are ignored."""
    return frozenset(user for user, what in record.items() if what >= Consequence.NO_CHOICE)


def behind(record: Mapping[str, Consequence]) -> frozenset[str]:
    """Return the users whose jobs rank behind all others (order part ``penalised``)."""
    return frozenset(user for user, what in record.items() if what >= Consequence.LOWER_PRIORITY)
