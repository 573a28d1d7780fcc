"""Fugaku's whole published trace in one run: 24,000,000 generated jobs on 158,976 nodes, every metric computed.

In a process of its own (``python -m bench.cases.fugaku N``), so that its peak memory is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import cache
from typing import Any

import numpy as np

from bench.harness import Measured, Skip, benchmark, digest
from bench.peak import status_bytes
from wattqueue.model.machine import plain_machine
from wattqueue.model.metrics import metrics
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.workload.fugaku import JOBS, NODE_MAX_W, NODES, generate

IDLE_W = 60.0
CAP_SHARE = 0.5
"""Of the sum of node maxima; at F-DATA's rate of submission it binds in the busy weeks only."""


def whole_run(jobs: int) -> dict[str, Any]:
    """Generate, replay, measure; seconds, gigabytes at the peak, and the digest of all starts."""
    wall, cpu = time.perf_counter(), time.process_time()
    machine = plain_machine(NODES, IDLE_W, NODE_MAX_W)
    table = generate(np.random.default_rng(1), jobs=jobs)
    cap = Cap.constant(CAP_SHARE * (machine.scope_max_w() or 0.0))
    run = simulate(table, machine, load_policy("easy", estimator="oracle-max"), cap=cap)
    found = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    return {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_gb": status_bytes("VmHWM") / 1e9,
        "digest": digest(run.schedule.start_s, run.schedule.state),
        "wait_s_mean": found["wait_s_mean"],
        "machine_energy_j": found["machine_energy_j"],
    }


@cache
def in_its_own_process() -> dict[str, Any]:
    """Return the figures of one run, which both benchmarks share."""
    if os.environ.get("WATTQUEUE_BENCH_HEAVY") != "1":
        raise Skip("heavy, some 7 GB: set WATTQUEUE_BENCH_HEAVY=1")
    asked = [sys.executable, "-m", "bench.cases.fugaku", str(JOBS)]
    found: dict[str, Any] = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    return found


@benchmark("24,000,000 jobs of Fugaku generated, replayed under a cap and measured", unit="s", at_most=120)
def seconds() -> Measured:
    """Measure seconds of the wall clock on 158,976 nodes; processor seconds are in the detail."""
    found = in_its_own_process()
    return Measured(found["wall_s"], found["digest"], found)


@benchmark("memory of that run at its peak", unit="GB", at_most=8)
def gigabytes() -> Measured:
    """Measure the peak of resident memory, the job table included."""
    return Measured(in_its_own_process()["peak_gb"])


if __name__ == "__main__":
    print(json.dumps(whole_run(int(sys.argv[1]))))
