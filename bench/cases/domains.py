"""What a tree of power domains costs: the same jobs under racks, rows and a contract, and under one cap."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise

import numpy as np

from bench.cases.engine import MAX_W, depth_of, replay, workload
from bench.harness import Measured, benchmark, digest
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain

UNITS, RACKS, ROWS = 158_976, 500, 25
RACK, ROW, ROOT = 0.36, 0.97, 0.95
"""Limits: a rack's of the greatest watts of its units, a row's of its racks, the contract's of the rows."""


def tree(machine: Machine) -> tuple[Machine, float]:
    """Return the machine under three levels of domains, and the watts of the contract."""
    cut = np.linspace(0, UNITS, RACKS + 1).astype(int).tolist()
    racks = [round(RACK * MAX_W * (high - low)) for low, high in pairwise(cut)]
    rows = [round(ROW * watts) for watts in np.reshape(racks, (ROWS, -1)).sum(axis=1).tolist()]
    contract = float(round(ROOT * sum(rows)))
    domains = [
        SupplyDomain(
            name=f"rack{k}", parent=f"row{k * ROWS // RACKS}", nodes=f"batch[{cut[k] + 1}-{cut[k + 1]}]", limit_w=watts
        )
        for k, watts in enumerate(racks)
    ]
    domains += [SupplyDomain(name=f"row{k}", parent="contract", limit_w=watts) for k, watts in enumerate(rows)]
    domains.append(SupplyDomain(name="contract", limit_w=contract))
    return replace(machine, supply=tuple(domains)), contract


@benchmark("EASY under a tight tree of 526 domains over one cap, on 158,976 units", unit="x", at_most=1.5)
def tight_tree() -> Measured:
    """Measure EASY under a tree whose contract binds, 200,000 jobs; 2,000,000 with WATTQUEUE_BENCH_HEAVY=1."""
    n = 2_000_000 if os.environ.get("WATTQUEUE_BENCH_HEAVY") == "1" else 200_000
    bare, jobs = plain_machine(UNITS, 60.0, MAX_W), workload(n, UNITS, 1.25, width=40.0, widest=0.05)
    machine, contract = tree(bare)
    under_s, run = replay(jobs, machine)
    capped_s, _ = replay(jobs, bare, cap=Cap.constant(contract))
    detail = {"jobs": n, "tree_cpu_s": under_s, "one_cap_cpu_s": capped_s, "queued_mean": depth_of(run)[0]}
    return Measured(
        under_s / capped_s, digest(run.schedule.start_s, run.schedule.state) if n == 200_000 else None, detail
    )
