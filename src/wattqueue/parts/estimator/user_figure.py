"""Predict what the user stated at submission, unchecked."""

from __future__ import annotations

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.scale import static_prediction


class UserFigure:
    """The figure in a column of the job table: watts of one unit, idle share included.

    ``column`` names a column of ``Jobs.extra``. A job without a figure (no column, NaN, or 0 W)
    counts as the unit's maximum. The figure holds at the reference frequency; at others the machine's DVFS model
    scales it.

    Raises: InputError for a figure below 0 or a column that holds no numbers, naming the row.
    """

    asked: Asked = "once"
    machine_figures: bool = False

    def __init__(self, *, column: str = "user_power_w") -> None:
        self.column = column

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the watts of each job. Shape (n, O)."""
        stated = jobs.extra.get(self.column)
        if stated is None:
            return static_prediction(np.full(len(jobs), np.nan), machine)
        try:
            power = np.asarray(stated, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"holds something that is not a number: {error}", where=f"column {self.column}") from error
        bad = (power < 0) | np.isinf(power)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(f"{power[row]} is not a figure in watts", where=f"column {self.column}, row {row + 1}")
        return static_prediction(np.where(power == 0.0, np.nan, power), machine)
