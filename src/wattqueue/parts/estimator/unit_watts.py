"""Watts of each application on each unit, from a table: power models on counters, or measurements (paper 2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Asked, Floats, Prediction
from wattqueue.parts.scale import static_prediction
from wattqueue.parts.unit_tables import factors_on, rows_of


class UnitWatts:
    """Watts by the table's figure for the job's application, and unit factors.

    With ``profile_unit`` the watts that this unit shows count for every unit: what a policy knows that profiled each
    application once and takes units for equal (SLURM+PE). A table of peaks makes admission by peaks.

    An application that the table lacks, or every one without a table, counts the stated maximum of a unit; a run says
    for how many jobs.

    Reference: paper 2, section 3 (SLURM+PE, SLURM+PRVP, SLURM+VTP).
    """

    asked: Asked = "once"
    machine_figures: bool = False
    reads: tuple[str, ...] = ("table",)
    """Options that name a file of unit factors in a row."""

    def __init__(self, *, table: UnitTable | None = None, profile_unit: int = -1) -> None:
        self.table, self.profile_unit = table, profile_unit

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return a row for each application, and one for jobs without one. Shapes (A + 1, O); factors (A, U).

        Raises: PolicyError for a unit that the table lacks, or a profile unit that the machine lacks.
        """
        row = rows_of(self.table, jobs.app.names)
        power, factor = np.full(len(row) + 1, np.nan), np.full((len(row), machine.units), np.nan)
        if self.table is not None:
            known = row >= 0
            factor[known] = factors_on(self.table, machine)[row[known]]
            power[:-1][known] = self.table.base_w[row[known]]
        of_job = np.where(jobs.app.codes < 0, len(row), jobs.app.codes).astype(np.int32)
        if self.profile_unit >= 0:
            power = self._as_profiled(power, factor)
            factor[:] = np.where(np.isnan(power[:-1]), np.nan, 1.0)[:, np.newaxis]
        found = static_prediction(power, machine, of_job)
        if self.profile_unit >= 0 and not np.isnan(power[of_job]).any():
            return found  # units are equal, and no job has to be counted
        return replace(found, unit_factor=factor)

    def _as_profiled(self, power: Floats, factor: Floats) -> Floats:
        """Return the watts that the profile unit shows. Shape (A + 1,)."""
        if self.profile_unit >= factor.shape[1]:
            raise PolicyError(
                f"profile_unit is {self.profile_unit}", where="unit-watts", hint=f"0 to {factor.shape[1] - 1}"
            )
        shown: Floats = power * np.append(factor[:, self.profile_unit], 1.0)
        return shown
