"""Power caps that follow the work (paper 3)."""

from __future__ import annotations

import numpy as np

from bench.harness import Measured, benchmark, best_of, digest
from wattqueue.parts.controls.rapl_redistribution import redistribute

SOCKETS = 1_000_000


@benchmark("redistribute the caps of 1,000,000 sockets", unit="ms", at_most=15)
def redistribution() -> Measured:
    """One step of Algorithm 1, corrected: readings, limits of each socket and a reserve."""
    rng = np.random.default_rng(1)
    cap = rng.uniform(40.0, 120.0, SOCKETS)
    power = np.minimum(cap, rng.uniform(20.0, 140.0, SOCKETS))
    least, most = rng.uniform(10.0, 40.0, SOCKETS), rng.uniform(120.0, 150.0, SOCKETS)
    redistribute(power, cap)
    seconds, new = best_of(9, lambda: redistribute(power, cap, minimum_w=least, maximum_w=most, spare_w=1e5))
    return Measured(1e3 * seconds, digest(np.rint(1e6 * new).astype(np.int64)))
