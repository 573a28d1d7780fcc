"""Factors of units that differ, for any estimator: what a unit draws over the mean of its partition's units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.kernels.calls import mean_factors
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Finished, Floats, LoopTerms, Prediction
from wattqueue.parts.unit_tables import relative_factors


class UnitFactors:
    """Give each application the factors of a table, relative to the mean of each partition's units.

    The base predicts a unit of factor 1, and learns what a job would have drawn there: its watts over the mean factor
    of its units. An application that the table lacks has factor 1 everywhere, so that the base's prediction stands; a
    run says for how many jobs. Run times by unit, where the table has any, serve placements alone.

    Reference: paper 2, section 3 (watts of an application on each chip relative to their mean).
    """

    reads: tuple[str, ...] = ("table",)
    """Options that name a file of unit factors in a row."""
    keeps_base: bool = True
    """Jobs of applications without factors keep the base's prediction, on every unit (rule 12 of docs/semantics.md)."""
    remedy: str = '{ part = "unit-factors", table = "units.csv" }'
    """What to write where it lacks its table."""

    def __init__(self, *, table: UnitTable | None = None) -> None:
        self.table = table
        self._asked: tuple[tuple[str, ...], Machine] | None = None
        self._factor = self._learned = np.zeros((0, 0))
        self._time_factor: Floats | None = None

    @property
    def missing(self) -> str:
        """Return what it lacks: a table."""
        return "a table of watts by application and unit" if self.table is None else ""

    @property
    def lowers(self) -> bool:
        """Return whether some unit is predicted to draw less than the base says."""
        return self.table is not None and bool(np.ptp(self.table.factor, axis=1).any())

    def apply(self, predicted: Prediction, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the prediction with factors of units; watts and quantiles are those of a unit of factor 1.

        Raises: PolicyError for a unit that the table lacks, and a base that has factors of units itself.
        """
        if predicted.unit_factor is not None:
            raise PolicyError(
                "the estimator before it has factors of units already",
                where="unit-factors",
                hint="leave one of the two out",
            )
        self._look_up(jobs.app.names, machine)
        return replace(predicted, unit_factor=self._factor, unit_time_factor=self._time_factor)

    def invert(self, finished: Finished, jobs: KnownJobs, machine: Machine) -> Finished:
        """Return the watts that the jobs would have drawn on a unit of factor 1; as measured where no unit is known."""
        runs = finished.runs
        if runs is None:
            return finished
        self._look_up(jobs.app.names, machine)
        code = jobs.app.codes[finished.rows]
        row = np.where(code < 0, len(self._factor), code).astype(np.int32)
        mean = np.empty(len(row))
        mean_factors(self._learned, row, runs.first, runs.count, runs.low, runs.high, mean)
        return replace(finished, mean_power_w=finished.mean_power_w / mean, max_power_w=finished.max_power_w / mean)

    def loop_terms(self) -> LoopTerms:
        """Return that the compiled loop learns watts over the mean factor of a job's units."""
        return LoopTerms(by_unit=True)

    def _look_up(self, apps: tuple[str, ...], machine: Machine) -> None:
        """Find the factors of applications on a machine, once for each run. Raises: PolicyError without a table."""
        if self._asked is not None and self._asked[0] is apps and self._asked[1] is machine:
            return
        if self.table is None:
            raise PolicyError("has no table", where="unit-factors", hint=self.remedy)
        table = self.table
        self._factor = relative_factors(table, table.factor, apps, machine)
        times = table.time_factor
        self._time_factor = None if times is None else relative_factors(table, times, apps, machine)
        self._learned = np.ones((len(apps) + 1, machine.units))
        self._learned[:-1] = np.where(np.isnan(self._factor), 1.0, self._factor)
        self._asked = apps, machine
