"""Power models on performance counters, for a machine of the size of Quartz."""

from __future__ import annotations

import numpy as np

from bench.harness import Measured, benchmark, best_of, digest
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.activity import ActivityTrace
from wattqueue_studies.pmc.models import SocketWatts, choose_components, variability_trained
from wattqueue_studies.pmc.weights import Subset, TrainingSet

SOCKETS, KERNELS, APPS, SECONDS = 5_268, 11, 16, 60
"""All sockets of Quartz; training kernels and applications of paper 2; a run of a minute at 1 s each."""


def levels(rng: np.random.Generator, rows: int) -> Floats:
    """Draw activity: active cores and eight ratios."""
    return np.column_stack([rng.uniform(1, 16, rows), rng.random((rows, 8))])


@benchmark("choose PMC models of 16 applications, predict 5,268 sockets", unit="s", at_most=0.5)
def choose_and_predict() -> Measured:
    """Training on every socket included; all 256 subsets of components; mean and highest watts."""
    rng = np.random.default_rng(1)
    level = levels(rng, KERNELS * SECONDS)
    weights = rng.uniform(0.5, 3, (9, 1)) * rng.normal(1, 0.05, (9, SOCKETS))
    watts = level @ weights * (1 - 0.2 * level[:, 1:2])
    runs = []
    for k in range(APPS):
        own = levels(rng, SECONDS)
        trace = ActivityTrace(f"app{k}", np.arange(float(SECONDS)), own)
        runs.append((trace, own @ weights[:, 0] * (1 - 0.2 * own[:, 1])))

    def work() -> tuple[list[Subset], SocketWatts]:
        training = TrainingSet.of(level, watts)
        chosen = choose_components(training.on([0]), runs)
        return chosen, variability_trained(training, [trace for trace, _ in runs], chosen)

    seconds, (chosen, found) = best_of(3, work)
    marks = np.array([sum(1 << c for c in subset) for subset in chosen])
    return Measured(seconds, digest(marks, np.rint(10 * found.mean_w), np.rint(10 * found.peak_w)))
