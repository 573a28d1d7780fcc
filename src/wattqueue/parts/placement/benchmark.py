"""Take the free units that draw the least under one benchmark, whatever the job's application."""

from __future__ import annotations

import numpy as np

from wattqueue.errors import PolicyError, one_of
from wattqueue.model.machine import Machine
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Floats, Prediction
from wattqueue.parts.unit_tables import factors_on, rows_of


class Benchmark:
    """Rank units by the watts of one benchmark, the same for every application.

    ``app`` names its row in the table. A policy without a table is refused.

    Reference: paper 2, section 3 (SLURM+PEVA).
    """

    reads: tuple[str, ...] = ("table",)

    def __init__(self, *, table: UnitTable | None = None, app: str = "cholesky") -> None:
        self.table, self.app = table, app

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return the benchmark's factors in every row.

        Raises: PolicyError for a benchmark or a unit that the table lacks.
        """
        if self.table is None:
            return None
        row = int(rows_of(self.table, (self.app,))[0])
        if row < 0:
            raise PolicyError(
                f"no benchmark {self.app!r} in the table",
                where="benchmark",
                hint=one_of(self.app, self.table.apps),
            )
        return np.repeat(factors_on(self.table, machine)[row : row + 1], apps, axis=0)
