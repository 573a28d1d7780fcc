"""An estimator that predicts half of what a node can draw above idle, and the jobs that it does so for."""

from __future__ import annotations

import math
import random

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts import Asked, Prediction


class Typical:
    """Halfway between idle and maximum, for every job."""

    asked: Asked = "once"
    machine_figures: bool = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return one row of watts that all jobs share."""
        watts = [(p.idle_w + (p.idle_w if p.max_w is None else p.max_w)) / 2.0 for p in machine.partitions]
        return Prediction(
            np.array([[watts[p] for p in machine.option_partition]]), np.ones((1, len(machine.option_partition))),
            np.zeros(len(jobs), np.int32),
        )  # fmt: skip


def node_level_w(draw: random.Random, typical_w: float) -> float:
    """Draw the watts above idle of a job's nodes: an error of a third, and of one job in fifty the most.

    ``typical_w`` is predicted; a node can draw twice as much.
    """
    return typical_w * (2.0 if draw.random() < 0.02 else min(2.0, 0.95 * math.exp(draw.gauss(0.0, 0.3))))
