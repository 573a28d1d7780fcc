"""Take the free units on which the job's application is predicted to draw, or to take, the least."""

from __future__ import annotations

import numpy as np

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction
from wattqueue.parts.unit_tables import By, checked_by


class LeastWatts:
    """Rank units by the estimator's unit factors, for each application by itself: of watts, or of run times.

    Applications without factors take the lowest numbers. A policy whose estimator has no factors at all is refused.

    Raises: PolicyError where ``by`` is neither ``watts`` nor ``time``.
    Reference: paper 2, section 3 (SLURM+VTP, SLURM+IVP); by time: beyond it.
    """

    def __init__(self, *, by: By = "watts") -> None:
        self.by = checked_by(by)

    @property
    def remedy(self) -> str:
        """Return what to write where there is nothing to rank by."""
        what = "run times (time_s)" if self.by == "time" else "watts"
        return f'append {{ part = "unit-factors", table = "units.csv" }} to the estimator, a table with {what} by unit'

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return the factors; None where the estimator has none."""
        factor = prediction.unit_time_factor if self.by == "time" else prediction.unit_factor
        if factor is None:
            return None
        ranked: Floats = np.nan_to_num(factor, nan=0.0)
        return ranked
