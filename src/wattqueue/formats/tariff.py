"""Compute cost and emission of energy from a series of prices or carbon intensities.

Power and price are both piecewise constant, so the integral of their product is an exact sum over the steps of
either: ``sum_i price_i E_i`` with ``E_i`` the energy while price i held; nothing is sampled or interpolated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.series import read_steps
from wattqueue.formats.source import sha256_of
from wattqueue.formats.times import Repair
from wattqueue.model.jobs import Floats
from wattqueue.model.signals import Series
from wattqueue.model.steps import sum_of_products

JOULES = {"kwh": 3.6e6, "mwh": 3.6e9, "gwh": 3.6e12}
"""Joules of the energies that a price or intensity may be stated for."""
UNIT = re.compile(r"\s*([^\s/]{1,12})\s*/\s*([kMG]?[Ww]h)\s*")
"""An amount per energy: ``EUR/MWh``, ``gCO2/kWh``."""
GAP = 1.5
"""A step longer than this multiple of the usual one is a gap in a series."""


class AskedSource(NamedTuple):
    """A price or intensity series as it was asked for, before its file is read."""

    path: Path
    unit: str | None
    """None: that of the file, else ``default``."""
    option: str
    """Option that states the unit, for errors."""
    default: str


@dataclass(frozen=True, slots=True)
class SignalSource:
    """The file of a price or intensity series, and its unit.

    Attributes:
        path: CSV file.
        unit: Unit as written, such as ``EUR/MWh``.
        amount: What is counted, the part before the slash: ``EUR``.
        per_j: Joules that one amount is for: 3.6e9 for MWh.
    """

    path: Path
    unit: str
    amount: str
    per_j: float


@dataclass(frozen=True, slots=True, eq=False)
class Tariff:
    """A price or intensity series on the trace's clock.

    Attributes:
        source: Where it comes from, and its unit.
        series: ``series.value`` amounts (EUR, gCO2) for ``source.per_j`` joules; the last value holds from its time
            on.
        line: Line of the file of each value, for error messages. Shape (k,).
        repairs: UTC offsets that were corrected.
        sha256: Hash of the file.
    """

    source: SignalSource
    series: Series
    line: NDArray[np.int64]
    repairs: tuple[Repair, ...]
    sha256: str

    def amount(self, edge_s: Floats, energy_j: Floats) -> float:
        """Return cost or emission of the energy between each edge and the next. Shapes (b + 1,), (b,).

        The bins must begin wherever the series changes, else a bin would be billed at its first price only.
        """
        return sum_of_products(energy_j, self.series.at(edge_s[:-1])) / self.source.per_j

    def of_steady(self, begin_s: float, end_s: float, energy_j: float) -> float:
        """Return cost or emission of an energy that is drawn evenly from ``begin_s`` to a later ``end_s``."""
        return energy_j * self.series.integral(begin_s, end_s) / (end_s - begin_s) / self.source.per_j


def parse_source(path: Path, unit: str | None, option: str, default: str = "EUR/MWh") -> AskedSource:
    """Return file and unit of a series as they were asked for; ``unit`` such as ``EUR/MWh`` or ``gCO2/kWh``.

    Raises: InputError for another form.
    """
    if unit is not None:
        _unit(unit, option)
    return AskedSource(path, unit, option, default)


def _unit(text: str, where: str | Path) -> tuple[str, float]:
    """Return what a unit counts, and the joules that one of it is for. Raises: InputError for another form."""
    found = UNIT.fullmatch(text)
    if not found or found[2].lower() not in JOULES:
        raise InputError(f"{text!r} is not an amount per energy", where=where, hint="for example EUR/MWh or gCO2/kWh")
    return found[1], JOULES[found[2].lower()]


def _spaceless(unit: str) -> str:
    """Return a unit as it is compared: ``EUR / MWh`` is ``eur/mwh``."""
    return "".join(unit.split()).lower()


def read_tariff(asked: AskedSource, epoch_s: float | None, *, repair: bool) -> Tariff:
    """Read a series onto the trace's clock.

    Args:
        asked: File and unit. Where no unit is asked for, it is the one that the file states in a column ``unit``, else
            the usual one.
        epoch_s: Unix time of the trace's 0; None where it is unknown, then the file must hold seconds instead of
            dates.
        repair: Whether a UTC offset that contradicts its neighbours is corrected.

    Raises:
        InputError: A row that cannot be read, with file and line; a unit that is not the file's.
    """
    steps, (path, unit, option, default) = read_steps(asked.path, epoch_s=epoch_s, repair=repair), asked
    if unit is not None and steps.unit is not None and _spaceless(unit) != _spaceless(steps.unit):
        raise InputError(f"{unit}, and {path} is in {steps.unit}", where=option, hint=f"leave out {option}")
    text, where = (unit, option) if unit is not None else (steps.unit or default, path if steps.unit else option)
    source = SignalSource(path, text.strip(), *_unit(text, where))
    return Tariff(source, Series(steps.time_s, steps.value), steps.line, steps.repairs, sha256_of(path))


def require_cover(tariff: Tariff, begin_s: float, end_s: float, words: tuple[str, str]) -> None:
    """Refuse a series that has no value for a part of the runs.

    The last value holds for one usual step, as in a day-ahead file whose last row is 23:00. ``words`` are begin and
    end as text for the message. Raises InputError with the file, and the line where the series has a gap.
    """
    time = tariff.series.time_s
    step = usual_step_s(time)
    where = tariff.source.path
    if time[0] > begin_s or (len(time) > 1 and time[-1] + step < end_s):
        side = "begins after" if time[0] > begin_s else "ends before"
        gap_s = max(float(time[0]) - begin_s, end_s - float(time[-1]) - step)
        raise InputError(
            f"the series {side} the runs, which last from {words[0]} to {words[1]}: "
            f"{gap_s / 3_600:,.1f} h are not covered",
            where=where,
            hint="give a series that covers them, or move the workload with --start",
        )
    row = gaps(time, begin_s, end_s)
    if len(row):
        length = float(time[row[0] + 1] - time[row[0]])
        raise InputError(
            f"a gap of {length / 3_600:,.3g} h where the usual step is {step / 3_600:,.3g} h; the runs span "
            f"{len(row)} such gap{'s' if len(row) > 1 else ''}",
            where=f"{where}:{tariff.line[row[0]]}",
            hint="fill the gap, or move the workload with --start",
        )


def usual_step_s(time_s: Floats) -> float:
    """Return the median step of a series in seconds; 0 for one row, which holds for ever."""
    return float(np.median(np.diff(time_s))) if len(time_s) > 1 else 0.0


def gaps(time_s: Floats, begin_s: float, end_s: float) -> NDArray[np.intp]:
    """Return the rows that hold much longer than usual within a span. Shape (k,).

    A series counts as regular if at least nine in ten of its steps are equal; others, such as a day and night tariff,
    may have steps of any length.
    """
    step = np.diff(time_s)
    # An irregular series has no usual step, hence no gaps.
    if len(step) < 24 or np.mean(np.isclose(step, np.median(step))) < 0.9:
        return np.empty(0, np.intp)
    inside = (time_s[1:] > begin_s) & (time_s[:-1] < end_s)
    return np.flatnonzero(inside & (step > GAP * np.median(step)))
