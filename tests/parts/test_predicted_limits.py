"""Predictions outside the limits are refused: as microwatts they would wrap."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Finished, Floats, Ints, Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


class Constant:
    """Predicts one figure for every job, before the run or as jobs arrive."""

    machine_figures = False

    def __init__(self, watts: float, time: float = 1.0, asked: Asked = "once") -> None:
        self.figure, self.time, self.asked = watts, time, asked

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction:
        options = len(machine.option_partition)
        watts = self.figure if self.asked == "once" else 100.0
        return Prediction(np.full((len(jobs), options), watts), np.full((len(jobs), options), self.time))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), 1), self.figure)

    def learn(self, finished: Finished) -> None:
        """Learn nothing."""


@pytest.mark.parametrize(
    "estimator",
    [
        *(Constant(watts) for watts in (1e300, -1.0, -np.inf)),
        *(Constant(100.0, time) for time in (0.0, -1.0, np.nan, np.inf)),
        *(Constant(watts, asked="at_submit") for watts in (1e300, -1.0, np.nan, np.inf)),
    ],
    ids=lambda e: f"{e.asked} {e.figure} {e.time}",
)
def test_a_prediction_outside_the_limits(estimator: Constant) -> None:
    """Static and online ones alike, with a hint."""
    jobs = Jobs.build([0.0, 1.0], [1, 2], [60.0, 60.0])
    policy = load_policy("easy", estimator=estimator)
    with pytest.raises(PolicyError) as caught:
        simulate(jobs, plain_machine(4, 0.0, 200.0), policy, cap=Cap.constant(5_000.0))
    assert caught.value.hint
