"""CSV of the energy of jobs by unit: ``job,app,unit,end_s,run_s,energy_j``, a row for each unit of each job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.model.bounds import DURATION_S, TIME_S, UNIT_W
from wattqueue.model.jobs import Floats

COLUMNS = ("job", "app", "unit", "end_s", "run_s", "energy_j")
"""Header."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitEnergy:
    """Energy of jobs by unit, in order of ends. Shapes (n,).

    Attributes:
        job: Number of each row's job.
        app: Position of its application in ``apps``.
        unit: Position of its unit in ``units``.
        end_s: End of the job.
        watts: Mean watts of the unit: energy over run time.
        apps: Names of the applications, sorted.
        units: Names of the units, sorted.
        left_out: Rows without energy: a counter that failed shows 0 or nothing.
    """

    job: NDArray[np.int64]
    app: NDArray[np.int64]
    unit: NDArray[np.int64]
    end_s: Floats
    watts: Floats
    apps: tuple[str, ...]
    units: tuple[str, ...]
    left_out: int


def read_unit_energy(path: Path) -> UnitEnergy:
    """Return the rows of a CSV (also gzipped); those without energy are left out and counted.

    Raises: InputError naming file and line for missing columns, a row without a job, a unit, or a time that is one, and
    for energy that no unit can have used.
    """
    frame, _ = csv_records.read(path, csv_records.having(COLUMNS), COLUMNS[3:])
    end_s, run_s, energy_j = (frame[name].to_numpy() for name in COLUMNS[3:])
    named = frame["job"].is_not_null().to_numpy() & frame["unit"].is_not_null().to_numpy()
    known = np.isfinite(energy_j) & (energy_j != 0)
    timed = DURATION_S.holds(run_s) & (run_s > 0) & TIME_S.holds(end_s)
    watts = np.divide(energy_j, run_s, out=np.zeros_like(energy_j), where=known & timed)
    good = named & timed & (~known | (UNIT_W.holds(watts) & (watts > 0)))
    csv_records.require_rows(path, good, "a row without job, unit or times, or with energy that no unit uses")
    if not known.any():
        raise InputError("no row has energy", where=path, hint="one row for each unit of each job")
    rows = np.flatnonzero(known)[np.argsort(end_s[known], kind="stable")]
    job, app, unit = (frame[name].fill_null("").to_numpy().astype(str)[rows] for name in COLUMNS[:3])
    apps, app_number = np.unique(app, return_inverse=True)
    units, unit_number = np.unique(unit, return_inverse=True)
    job_number = np.unique(job, return_inverse=True)[1]
    left_out = int((~known).sum())
    names = tuple(apps.tolist()), tuple(units.tolist())
    return UnitEnergy(job_number, app_number, unit_number, end_s[rows], watts[rows], *names, left_out)
