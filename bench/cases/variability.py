"""The study of paper 2, section 4.4, as `wattqueue study variability` runs it: its submissions, generated sockets."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from bench.harness import Measured, Skip, benchmark, digest
from wattqueue_studies.variability.knowledge import POLICIES
from wattqueue_studies.variability.study import VariabilityStudy
from wattqueue_studies.variability.trial import SOCKETS, Variant

RUNS = 3_000
"""Simulations that the targets are for: two traffics, five budgets, ten rows, 30 draws."""


@benchmark("study variability, 3,000 simulations: processor time over two cores", unit="s", at_most=60.0)
def whole_study() -> Measured:
    """All draws, in two threads, the settings of common jobs, too; the time is scaled to 3,000."""
    return simulated(SOCKETS, 30)


@benchmark("study variability, whole nodes and published backfill, as many", unit="s", at_most=300.0)
def other_variant() -> Measured:
    """Five draws, scaled to 3,000 simulations."""
    return simulated(Variant("published", whole_nodes=True), 5)


def simulated(variant: Variant, seeds: int) -> Measured:
    """Simulate draws of a variant. Raises: Skip without the paper's traffics."""
    folder = os.environ.get("WATTQUEUE_DATA")
    if folder is None:
        raise Skip("needs the traffics of paper 2: WATTQUEUE_DATA")
    traffics = Path(folder) / "variability"
    VariabilityStudy(traffics, 1, (20e3,), ("bursty",), variant=variant).simulate()  # compiles, which is no run's cost
    begin = time.process_time()
    samples = VariabilityStudy(traffics, seeds, variant=variant).simulate()
    seconds = (time.process_time() - begin) / 2
    simulations = len(samples.settings) * len(POLICIES) * seeds
    values = [samples.of(s, p, m) for s in samples.settings for p in POLICIES for m in ("turnaround_s", "power_w")]
    detail = {"simulations": simulations, "all of them": seconds}
    return Measured(seconds * RUNS / simulations, digest(np.round(np.concatenate(values), 3)), detail)
