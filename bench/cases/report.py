"""Benchmark the report of a run that is still in memory: half a million jobs, and KTH-SP2; seconds and megabytes.

Digests are taken of whole watts and of thousandths of time busy: the last bits of sums depend on the machine.
"""

from __future__ import annotations

import numpy as np

from bench.cases.peers import trace
from bench.cases.workload import nine_months
from bench.harness import Measured, benchmark, digest, timed
from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.policy.policy import load_policy
from wattqueue.report.load import of_record
from wattqueue.report.run_page import pictures, report
from wattqueue.sim.engine import Run, simulate


def measured(run: Run) -> Measured:
    """Time the way from what the simulator returned to the text of the page; return seconds, size and digest."""
    found = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    record = RunRecord(run.jobs, run.machine, run.cap, run.schedule, run.power, found, {"task": {"policy": "easy"}})
    seconds, page = timed(lambda: report(of_record(record)))
    (power, _), (gantt, _), *_ = pictures(of_record(record))
    shown = [np.rint(power.columns["power_max_w"]), np.rint(1e3 * gantt.extra["grid"].busy)]
    return Measured(seconds, digest(*shown), {"jobs": len(run.jobs), "megabytes": len(page.encode()) / 1e6})


@benchmark("report of 523,204 jobs on 980 nodes", unit="s", at_most=3)
def large() -> Measured:
    """Report nine months of generated Marconi100 jobs, replayed with EASY: the Gantt chart is a grid."""
    return measured(nine_months())


@benchmark("report of KTH-SP2, on top of the run", unit="s", at_most=0.5)
def kth() -> Measured:
    """Report 28,481 jobs of KTH-SP2 on 100 nodes."""
    source, nodes = trace()
    machine = Machine("bench", (Partition("batch", nodes, idle_w=95.0, max_w=190.738),))
    return measured(simulate(read_swf(source).jobs, machine, load_policy("easy")))
