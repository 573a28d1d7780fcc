"""Oracle: predict the highest watts that the trace records for the job.

No real scheduler has this figure at submission; it shows what a perfect prediction would be worth.
"""

from __future__ import annotations

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.scale import static_prediction


class OracleMax:
    """The trace's own maximum of one unit; its mean, then the unit's maximum, where that is missing.

    Reference: paper 4, section 6.4 (``real max``).
    """

    asked: Asked = "once"
    machine_figures: bool = False
    knows_future: bool = True
    """Declares that the prediction reads the future (``jobs.truth``): checks for leaks are skipped, outputs say so."""

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the watts of each job. Shape (n, O)."""
        power = jobs.truth.peak_power_w()
        return static_prediction(power if power is not None else np.full(len(jobs), np.nan), machine)
