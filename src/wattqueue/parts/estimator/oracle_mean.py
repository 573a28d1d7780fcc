"""Oracle: predict the mean watts that the trace records for the job.

No real scheduler has this figure at submission; it shows what a perfect prediction would be worth.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.scale import static_prediction


class OracleMean:
    """The trace's own mean of one unit; the unit's maximum where the trace has none.

    Reference: paper 4, section 6.4 (``real mean``).
    """

    asked: Asked = "once"
    machine_figures: bool = False
    exact: ClassVar[bool] = True
    """Whether it predicts what will be measured of a trace, so that a ledger has nothing to correct."""
    knows_future: bool = True
    """Declares that the prediction reads the future (``jobs.truth``): checks for leaks are skipped, outputs say so."""

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the watts of each job. Shape (n, O)."""
        power = jobs.truth.mean_power_w
        power = power if power is not None else np.full(len(jobs), np.nan)
        return static_prediction(power, machine)
