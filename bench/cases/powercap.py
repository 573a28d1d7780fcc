"""The campaign of paper 4: what one of its 1,950 simulations costs, workloads of the size of Marconi100 windows."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.harness import Measured, benchmark, digest
from wattqueue_studies.powercap.cell import CAPS_PERCENT, IDLE_W
from wattqueue_studies.powercap.prepare import WorkloadSelection
from wattqueue_studies.powercap.study import PowercapStudy

RUNS = 1_950


@benchmark("study powercap: processor time of a simulation, measures included", unit="ms", at_most=100.0)
def a_run() -> Measured:
    """Three of the thirty workloads under all caps and estimators in this process, baselines and workloads included.

    ``campaign`` says what 1,950 of them come to on two cores, in seconds; the issue's bound is 120.
    """
    with tempfile.TemporaryDirectory() as folder:
        small = WorkloadSelection(workloads=1, days=0.5, trace_days=16.0, warm_days=4.0, machines=0.5)
        one = PowercapStudy(Path(folder), small, traces=1, caps=(30,), idle_w=(IDLE_W,), workers=1)
        one.run()  # loads and compiles, which is no run's cost
        begin = time.process_time()
        found = replace(one, choice=WorkloadSelection(workloads=3), caps=CAPS_PERCENT).simulate()
        seconds = time.process_time() - begin
    (result,) = found[IDLE_W]
    runs = len(result.rows) - 3
    turnaround = np.array([row["turnaround_s_mean"] for row in result.rows], np.float64)
    power = np.array([row["power_w_mean"] for row in result.rows], np.float64)
    whole = {"campaign": seconds / runs * RUNS / 2}
    return Measured(1000 * seconds / runs, digest(np.round(np.append(turnaround, power), 2)), whole)
