"""Power caps that follow the work (paper 3)."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from bench.harness import Measured, benchmark, digest
from wattqueue.errors import WattQueueError
from wattqueue.kernels.redistribution import new_sockets
from wattqueue.kernels.redistribution_by_domain import even_shares, step_by_domain
from wattqueue.parts.controls.rapl_redistribution import redistribute
from wattqueue.parts.domain_caps import tree_of
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


@benchmark("redistribute the caps of 20,000 sockets in 5,000 nodes under 4 levels of domains", unit="ms", at_most=5)
def redistribution_by_domain() -> Measured:
    """Contract, ten rows, 250 racks, 5,000 nodes of four sockets; one socket in fifty begins a job. Best of thirty.

    The most of all steps is in the detail; after each one every domain is within its limit.
    """
    rng, count = np.random.default_rng(1), 20_000
    rows, racks, nodes = [-1] * 10, [k // 25 for k in range(250)], [10 + k // 20 for k in range(5_000)]
    order = tree_of([*rows, *racks, *nodes], np.repeat(np.arange(260, 5_260), 4))
    rates, tree = np.array([0.92, 0.96, 0.1, 0.4, 1.0, 0.0, 0.0]), order.tree
    caps, bounds = rng.uniform(50.0, 200.0, count).round(6), (np.full(1, 20.0), np.full(1, 260.0))
    begin, end = tree.devices[:, 0], tree.devices[:, 2]

    def sums_uw() -> NDArray[np.float64]:
        before = np.concatenate([[0.0], np.cumsum(np.rint(caps * 1e6))])
        found: NDArray[np.float64] = before[end] - before[begin]
        return found

    tree.limit_uw[:] = sums_uw() * 1.02
    seconds = []
    for _ in range(31):
        sockets = new_sockets(caps * rng.uniform(0.3, 1.05, count), caps, *bounds)
        sockets.begins[:] = rng.random(count) < 0.02
        began = time.process_time()
        even_shares(sockets, tree)
        step_by_domain(sockets, tree, rates)
        seconds.append(time.process_time() - began)
        if (sums_uw() > tree.limit_uw).any():
            raise WattQueueError("a domain is above its limit")
    detail = {"most_ms": 1e3 * max(seconds[1:])}
    return Measured(1e3 * min(seconds), digest(np.rint(1e6 * caps).astype(np.int64)), detail)


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
