"""Jobs that the measured devices run: generated, since no workload belongs to the measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattqueue.model.jobs import Jobs

JOBS = 600
WIDTHS, SHARES = np.array([1, 2, 4, 8, 16]), np.array([0.5, 0.2, 0.15, 0.1, 0.05])
"""Devices of a job, and shares of jobs: most ask for one, as on clusters of GPUs."""
MEDIAN_S, SIGMA = 1_200.0, 1.0
"""Lognormal run times on a device of mean speed."""
SHORTEST_S, LONGEST_S = 120.0, 14_400.0
ESTIMATE = (1.0, 3.0)
"""Users' limit over run time, drawn evenly."""


def draw_jobs(rng: np.random.Generator, apps: Sequence[str], units: int, load: float, jobs: int = JOBS) -> Jobs:
    """Draw jobs of some applications, in equal shares, that keep a part of the devices busy.

    Args:
        rng: Source of random draws.
        apps: Names of the applications.
        units: Number of devices.
        load: Device-seconds that are asked for over those that there are, at reference speed and without a budget.
        jobs: Number of jobs.
    """
    width = rng.choice(WIDTHS, jobs, p=SHARES)
    runtime = np.clip(rng.lognormal(np.log(MEDIAN_S), SIGMA, jobs), SHORTEST_S, LONGEST_S).round()
    length_s = float((width * runtime).sum()) / (load * units)
    return Jobs.build(
        np.sort(rng.uniform(0.0, length_s, jobs)).round(),
        width,
        runtime,
        walltime_s=(runtime * rng.uniform(*ESTIMATE, jobs)).round(),
        app=rng.choice(list(apps), jobs),
        origin="generated",
    )
