"""Take the free units on which the job's application is predicted to draw the least."""

from __future__ import annotations

import numpy as np

from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Floats, Prediction


class LeastWatts:
    """Rank units by the estimator's unit factors, for each application by itself.

    Applications without factors take the lowest numbers. A policy whose estimator has no factors at all is refused.

    Reference: paper 2, section 3 (SLURM+VTP, SLURM+IVP).
    """

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return the factors; None where the estimator has none."""
        if prediction.unit_factor is None:
            return None
        ranked: Floats = np.nan_to_num(prediction.unit_factor, nan=0.0)
        return ranked
