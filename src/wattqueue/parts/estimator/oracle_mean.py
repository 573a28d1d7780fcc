"""The mean watts that the trace says the job drew: a bound that nobody can know at submission."""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.estimator._scale import static_prediction


class OracleMean:
    """The trace's own mean of one unit; the unit's maximum where the trace has none.

    Reference: paper 4, section 6.4 (``real mean``).
    """

    asked: Asked = "once"
    machine_figures: bool = False
    knows_future: bool = True

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction:
        """Watts of each job. Shape (n, O)."""
        power = jobs.mean_power_w if jobs.mean_power_w is not None else np.full(len(jobs), np.nan)
        return static_prediction(power, machine)
