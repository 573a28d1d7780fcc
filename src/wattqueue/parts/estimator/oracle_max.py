"""The greatest watts that the trace says the job drew: a bound that nobody can know at submission."""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.estimator._scale import static_prediction


class OracleMax:
    """The trace's own maximum of one unit; its mean, then the unit's maximum, where that is missing.

    Reference: paper 4, section 6.4 (``real max``).
    """

    asked: Asked = "once"
    machine_figures: bool = False
    knows_future: bool = True

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction:
        """Watts of each job. Shape (n, O)."""
        power = jobs.peak_power_w()
        return static_prediction(power if power is not None else np.full(len(jobs), np.nan), machine)
