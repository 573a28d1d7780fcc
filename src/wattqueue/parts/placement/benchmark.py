"""Take the free units that draw, or take, the least under one benchmark, whatever the job's application."""

from __future__ import annotations

import numpy as np

from wattqueue.errors import PolicyError, one_of
from wattqueue.model.machine import Machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Floats, Prediction
from wattqueue.parts.unit_tables import By, checked_by, factors_on, rows_of


class Benchmark:
    """Rank units by the watts or the run times of one benchmark, the same for every application.

    ``app`` names its row in the table. A policy without a table, or without run times where these count, is refused.

    Raises: PolicyError where ``by`` is neither ``watts`` nor ``time``.
    Reference: paper 2, section 3 (SLURM+PEVA); by time: beyond it.
    """

    reads: tuple[str, ...] = ("table",)

    def __init__(self, *, table: UnitTable | None = None, app: str = "cholesky", by: By = "watts") -> None:
        self.table, self.app, self.by = table, app, checked_by(by)

    @property
    def remedy(self) -> str:
        """Return what to write where there is nothing to rank by."""
        what = "run times (time_s)" if self.by == "time" else "watts"
        return f'{{ part = "benchmark", table = "units.csv" }}, a table with {what} by unit'

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return the benchmark's factors in every row.

        Raises: PolicyError for a benchmark or a unit that the table lacks.
        """
        column = None if self.table is None else self.table.time_factor if self.by == "time" else self.table.factor
        if self.table is None or column is None:
            return None
        row = int(rows_of(self.table, (self.app,))[0])
        if row < 0:
            raise PolicyError(
                f"no benchmark {self.app!r} in the table",
                where="benchmark",
                hint=one_of(self.app, self.table.apps),
            )
        return np.repeat(factors_on(self.table, machine, column)[row : row + 1], apps, axis=0)
