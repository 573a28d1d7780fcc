"""Predict the machine's stated maximum for every unit: never too low, and far too high for most jobs."""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.scale import static_prediction


class Maximum:
    """The maximum of one unit, for every job.

    Where the machine states no maximum the watts are NaN (unknown). That is allowed while there is no cap; with a cap
    the simulator and live operation refuse such a machine.

    Reference: paper 4, section 6.4 (there: naive).
    """

    asked: Asked = "once"
    machine_figures: bool = True

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return one row of watts that all jobs share: C = 1."""
        return static_prediction(np.full(1, np.nan), machine, np.zeros(len(jobs), np.int32))
