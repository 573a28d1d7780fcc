"""Power caps that follow the work (paper 3)."""

from __future__ import annotations

import time

import numpy as np

from bench.harness import Measured, benchmark, digest
from wattqueue.parts.controls.rapl_redistribution import redistribute
from wattqueue_studies.epas.study import EpasStudy

SOCKETS = 1_000_000


@benchmark("redistribute the caps of 1,000,000 sockets: processor time", unit="ms", at_most=15)
def redistribution() -> Measured:
    """One step of Algorithm 1, corrected: readings, limits of each socket and a reserve; the best of nine."""
    rng = np.random.default_rng(1)
    cap = rng.uniform(40.0, 120.0, SOCKETS)
    power = np.minimum(cap, rng.uniform(20.0, 140.0, SOCKETS))
    least, most = rng.uniform(10.0, 40.0, SOCKETS), rng.uniform(120.0, 150.0, SOCKETS)
    redistribute(power, cap)
    seconds = []
    for _ in range(9):
        begin = time.process_time()
        new = redistribute(power, cap, minimum_w=least, maximum_w=most, spare_w=1e5)
        seconds.append(time.process_time() - begin)
    return Measured(1e3 * min(seconds), digest(np.rint(1e6 * new).astype(np.int64)))


@benchmark("study epas, 30 seeds: processor time over two cores", unit="s", at_most=30.0)
def whole_study() -> Measured:
    """PAS, E-PAS and its other readings, two machines, three idle shares, 30 seeds: 1,140 simulations of 230 jobs."""
    EpasStudy(seeds=1, threads=1).run()
    begin = time.process_time()
    study = EpasStudy(seeds=30, threads=2)
    samples = study.simulate()
    study.report(samples, None)
    seconds = (time.process_time() - begin) / 2
    values = np.concatenate([samples.values[key] for key in sorted(samples.values)])
    return Measured(seconds, digest(np.round(values, 3) + 0.0), {"simulations": 1140})
