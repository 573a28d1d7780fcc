"""What the energy costs and emits: prices and carbon intensities against power, exactly.

Price and power are both constant between their steps, so the integral of their product is a sum over the steps of
either: ``sum_i price_i E_i`` with ``E_i`` the machine's energy while price i held.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._offsets import Repair
from wattqueue.formats._source import sha256_of
from wattqueue.formats.series import read_steps
from wattqueue.model.jobs import Floats
from wattqueue.model.signals import Series
from wattqueue.model.sums import sum_of_products
from wattqueue.whatif.digest import Digest

JOULES = {"kwh": 3.6e6, "mwh": 3.6e9, "gwh": 3.6e12}
UNIT = re.compile(r"\s*([^\s/]{1,12})\s*/\s*([kMG]?[Ww]h)\s*")
HOLE = 1.5
"""A step this much longer than the usual one is a hole in a series."""


@dataclass(frozen=True, slots=True)
class Source:
    """A series as it was asked for: file, what an amount is counted in, joules that the stated amount is for."""

    path: Path
    unit: str
    amount: str
    per_j: float


@dataclass(frozen=True, slots=True, eq=False)
class Tariff:
    """A price or intensity on the trace's clock: ``series.value`` amounts (EUR, gCO2) for ``source.per_j`` joules.

    ``line`` (k,) are the lines of the file that the values stand in.
    """

    source: Source
    series: Series
    line: NDArray[np.int64]
    repairs: tuple[Repair, ...]
    sha256: str

    def amount(self, power: Digest, idle_w: float, until_s: float) -> float:
        """Cost or emission of a run's machine, idling from the run's end to ``until_s``.

        The digest's bins must begin wherever the series changes.
        """
        spent = sum_of_products(power.machine_j, self.series.at(power.edge_s[:-1]))
        return (spent + idle_w * self.integral(float(power.edge_s[-1]), until_s)) / self.source.per_j

    def integral(self, begin_s: float, end_s: float) -> float:
        """Integral of the series itself over a span; 0 for an empty one."""
        if end_s <= begin_s:
            return 0.0
        inside = self.series.time_s[(self.series.time_s > begin_s) & (self.series.time_s < end_s)]
        edges = np.concatenate(([begin_s], inside, [end_s]))
        return sum_of_products(self.series.at(edges[:-1]), np.diff(edges))


def parse_source(path: Path, unit: str, option: str) -> Source:
    """A file and its unit, such as ``EUR/MWh`` or ``gCO2/kWh``. Raises: InputError for a unit that is none."""
    found = UNIT.fullmatch(unit)
    if not found or found[2].lower() not in JOULES:
        raise InputError(f"{unit!r} is no unit per energy", where=option, mend="for example EUR/MWh or gCO2/kWh")
    return Source(path, unit.strip(), found[1], JOULES[found[2].lower()])


def read_tariff(source: Source, epoch_s: float | None, *, repair: bool) -> Tariff:
    """Read the series of a source onto the trace's clock, whose 0 is at ``epoch_s`` of Unix time.

    Raises: InputError naming file and line.
    """
    steps = read_steps(source.path, None, None, epoch_s=epoch_s, repair=repair)
    return Tariff(source, Series(steps.time_s, steps.value), steps.line, steps.repairs, sha256_of(source.path))


def require_cover(tariff: Tariff, begin_s: float, end_s: float, words: tuple[str, str]) -> None:
    """Refuse a series that says nothing of a part of the runs; ``words`` say begin and end as people read them.

    Its last value holds for one usual step. Raises: InputError.
    """
    time = tariff.series.time_s
    step = usual_step_s(time)
    where = tariff.source.path
    if time[0] > begin_s or (len(time) > 1 and time[-1] + step < end_s):
        side = "begins after" if time[0] > begin_s else "ends before"
        gap_s = max(float(time[0]) - begin_s, end_s - float(time[-1]) - step)
        raise InputError(
            f"{side} the runs do, which last from {words[0]} to {words[1]}: {gap_s / 3_600:,.1f} h are not covered",
            where=where,
            mend="give a series that covers them, or move the workload with --start",
        )
    row = holes(time, begin_s, end_s)
    if len(row):
        length = float(time[row[0] + 1] - time[row[0]])
        raise InputError(
            f"a hole of {length / 3_600:,.3g} h where the usual step is {step / 3_600:,.3g} h; within the runs are "
            f"{len(row)} such",
            where=f"{where}:{tariff.line[row[0]]}",
            mend="fill it in, or move the workload with --start",
        )


def usual_step_s(time_s: Floats) -> float:
    """The median step of a series; 0 for one row, which holds for ever."""
    return float(np.median(np.diff(time_s))) if len(time_s) > 1 else 0.0


def holes(time_s: Floats, begin_s: float, end_s: float) -> NDArray[np.intp]:
    """Rows that hold much longer than usual within a span. A series of few steps at will has none. Shape (k,)."""
    step = np.diff(time_s)
    if len(step) < 24 or np.mean(np.isclose(step, np.median(step))) < 0.9:
        return np.empty(0, np.intp)
    inside = (time_s[1:] > begin_s) & (time_s[:-1] < end_s)
    return np.flatnonzero(inside & (step > HOLE * np.median(step)))
