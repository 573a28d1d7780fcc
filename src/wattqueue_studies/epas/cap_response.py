"""Watts and speed of an application against frequency and against a power cap, fitted to measured runs.

Two curves in the frequency f, relative to a reference::

    watts(f) = fixed_w + scaled_w * x ** power_exponent        x = f / reference_hz
    time(f)  = fixed_s + scaled_s * x ** -time_exponent        seconds of a piece of work

A socket (or GPU) whose cap lies below what it draws slows down until it draws ``cap_share`` of the cap: it runs at the
frequency at which ``watts`` meets that figure. Exponents differ between applications, so each has its own curves.

The cap acts on mean watts. Bursts that exceed it while the mean does not are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.codec import take
from wattqueue.model.jobs import Floats

EXPONENTS = np.arange(0.3, 6.0, 0.01)
"""Exponents among which a fit chooses."""
LEAST_RUNS = 4
"""Runs that a fit needs: more than the three figures of a curve."""
BINDING = 0.99
"""Share of the wanted frequency below which a run counts as slowed by its cap."""


@dataclass(frozen=True, slots=True, eq=False)
class CappedRuns:
    """Measured runs of applications, each at a wanted frequency and under a power cap. Shapes (n,).

    Attributes:
        app: Name of the application.
        cap_w: Power cap.
        wanted_hz: Frequency that was asked for.
        reached_hz: Mean frequency of the run.
        power_w: Mean watts.
        time_s: Seconds of a piece of work.
    """

    app: NDArray[np.str_]
    cap_w: Floats
    wanted_hz: Floats
    reached_hz: Floats
    power_w: Floats
    time_s: Floats

    def __len__(self) -> int:
        return len(self.app)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> CappedRuns:
        """Return some of the runs."""
        return take(self, rows)

    @property
    def slowed(self) -> NDArray[np.bool_]:
        """Return which runs their cap has slowed."""
        return self.reached_hz < BINDING * self.wanted_hz


@dataclass(frozen=True, slots=True)
class CapResponse:
    """The two curves of one application (see the module), and what a binding cap leaves of itself.

    Raises: InputError for curves that do not rise (watts) and fall (time) with the frequency.
    """

    reference_hz: float
    fixed_w: float
    scaled_w: float
    power_exponent: float
    fixed_s: float
    scaled_s: float
    time_exponent: float
    cap_share: float = 1.0

    def __post_init__(self) -> None:
        if not (self.scaled_w > 0 and self.scaled_s > 0 and self.power_exponent > 0 and self.time_exponent > 0):
            raise InputError("watts must rise and time must fall with the frequency", where="cap response")

    def watts(self, frequency_hz: Floats) -> Floats:
        """Return the watts at frequencies without a cap. Shape as given."""
        found: Floats = self.fixed_w + self.scaled_w * (frequency_hz / self.reference_hz) ** self.power_exponent
        return found

    def time_s(self, frequency_hz: Floats) -> Floats:
        """Return the seconds of a piece of work at frequencies. Shape as given."""
        found: Floats = self.fixed_s + self.scaled_s * (frequency_hz / self.reference_hz) ** -self.time_exponent
        return found

    def frequency_under(self, wanted_hz: Floats, cap_w: Floats) -> Floats:
        """Return the frequencies that caps allow, at most those that are wanted. Shapes (n,).

        A cap below the watts that do not depend on the frequency cannot be kept: the socket then runs at a tenth of the
        reference frequency.
        """
        room = np.maximum(self.cap_share * cap_w - self.fixed_w, 0.0) / self.scaled_w
        allowed = self.reference_hz * np.maximum(room ** (1.0 / self.power_exponent), 0.1)
        return np.minimum(wanted_hz, allowed)

    def under_cap(self, wanted_hz: Floats, cap_w: Floats) -> tuple[Floats, Floats]:
        """Return watts, and seconds of a piece of work, at wanted frequencies under caps. Shapes (n,)."""
        reached = self.frequency_under(wanted_hz, cap_w)
        return self.watts(reached), self.time_s(reached)


def fit_cap_response(runs: CappedRuns) -> CapResponse:
    """Fit the curves of one application to its runs: least squares of relative errors over a grid of exponents.

    Frequencies that were reached count, so that runs under a binding cap serve both curves. ``cap_share`` is the mean
    of watts over cap of the runs that their cap has slowed, 1 where there are none.

    Raises: InputError for too few runs, or watts and times that do not depend on the frequency.
    """
    if len(runs) < LEAST_RUNS:
        raise InputError(f"{len(runs)} runs", where="cap response", hint=f"a fit needs {LEAST_RUNS} or more")
    reference = float(runs.wanted_hz.max())
    x = runs.reached_hz / reference
    fixed_w, scaled_w, power_exponent = _power_law(x, runs.power_w, EXPONENTS)
    fixed_s, scaled_s, time_exponent = _power_law(x, runs.time_s, -EXPONENTS)
    slowed = runs.slowed
    share = float((runs.power_w / runs.cap_w)[slowed].mean()) if slowed.any() else 1.0
    return CapResponse(reference, fixed_w, scaled_w, power_exponent, fixed_s, scaled_s, -time_exponent, share)


def _power_law(x: Floats, y: Floats, exponents: Floats) -> tuple[float, float, float]:
    """Return a, b and k of ``y = a + b x**k`` with the least squares of relative errors; a is not negative."""
    best = (np.inf, 0.0, 0.0, 0.0)
    for k in exponents:
        rows = np.column_stack((1.0 / y, x**k / y))
        (a, b), *_ = np.linalg.lstsq(rows, np.ones(len(y)), rcond=None)
        if a < 0:
            a, b = 0.0, float(rows[:, 1].sum() / (rows[:, 1] ** 2).sum())
        error = float(((rows @ (a, b) - 1.0) ** 2).sum())
        if error < best[0]:
            best = (error, float(a), float(b), float(k))
    return best[1], best[2], best[3]


@dataclass(frozen=True, slots=True)
class ResponseError:
    """Error of fitted curves on runs that the fit has not seen, in per cent of what was measured.

    Attributes:
        app: The application.
        cap: Whether the runs are those that their cap has slowed, or the others.
        runs: How many.
        watts_mean: Mean absolute error of the watts.
        watts_most: Greatest absolute error of the watts.
        time_mean: Mean absolute error of the time.
        time_most: Greatest absolute error of the time.
    """

    app: str
    cap: bool
    runs: int
    watts_mean: float
    watts_most: float
    time_mean: float
    time_most: float


def errors_on_other_half(runs: CappedRuns) -> tuple[dict[str, CapResponse], list[ResponseError]]:
    """Fit every application on every other run, in the order of the table; return curves, and errors on the rest.

    The prediction sees cap and wanted frequency only. Raises: InputError as ``fit_cap_response``.
    """
    curves, errors = {}, []
    for app in dict.fromkeys(runs.app.tolist()):
        own = runs.take(runs.app == app)
        curves[app] = curve = fit_cap_response(own.take(slice(0, None, 2)))
        rest = own.take(slice(1, None, 2))
        watts, time_s = curve.under_cap(rest.wanted_hz, rest.cap_w)
        wrong_w = 100.0 * np.abs(watts / rest.power_w - 1.0)
        wrong_s = 100.0 * np.abs(time_s / rest.time_s - 1.0)
        for cap in (False, True):
            of = rest.slowed == cap
            if of.any():
                figures = (float(each) for w in (wrong_w[of], wrong_s[of]) for each in (w.mean(), w.max()))
                errors.append(ResponseError(app, cap, int(of.sum()), *figures))
    return curves, errors


FIGURES = ("pcap_w", "sm_target_mhz", "sm_mean_mhz", "power_mean_w", "iters_per_s")
"""Columns of figures, all above 0."""


def read_capped_runs(path: Path) -> CappedRuns:
    """Return the runs of a file at wanted frequencies under power caps, in its order.

    One row per run, as the GridPilot data set has them (36 runs on one V100): ``workload`` (the application),
    ``pcap_w`` (power cap, W), ``sm_target_mhz`` (wanted clock), ``sm_mean_mhz`` (mean clock), ``power_mean_w`` (W),
    ``iters_per_s``. Other columns are not read.

    Raises: InputError naming file, line and column for missing columns, and a figure that is not above 0.

    Reference: denisa-c/gridpilot (CC-BY-4.0).
    """
    frame, _ = csv_records.read(path, csv_records.having(("workload", *FIGURES)), FIGURES)
    cap_w, wanted, reached, power_w, speed = (frame[name].to_numpy() for name in FIGURES)
    usable = frame["workload"].is_not_null().to_numpy() & UNIT_W.holds(cap_w) & UNIT_W.holds(power_w)
    for column in (cap_w, wanted, reached, power_w, speed):
        usable &= np.isfinite(column) & (column > 0)
    csv_records.require_rows(path, usable, "a run without application, or with a figure that is none")
    return CappedRuns(
        frame["workload"].to_numpy().astype(str), cap_w, 1e6 * wanted, 1e6 * reached, power_w, 1.0 / speed
    )
