"""EAMC: the whole study of paper 1, and one policy at a size that its simulator could not afford.

Table 1 alone is used, so that the benches need no file. Times are of the processor.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from bench.harness import Measured, benchmark, digest
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue_studies.eamc.cirne import DAY_S, CirneModel
from wattqueue_studies.eamc.study import EamcStudy, PaperRuns
from wattqueue_studies.eamc.workloads import System, profiles_from, systems, workload

NODES, MILLION = 10_000, 1_000_000


def p1p2() -> System:
    """The paper's first system, by Table 1."""
    return systems(profiles_from(None, None))["p1/p2"]


@benchmark("study eamc, 30 seeds: processor time over two cores", unit="s", at_most=60.0)
def whole_study() -> Measured:
    """11 policies, four workloads, 30 seeds: 1,320 simulations of 5,000 jobs by EASY, in two threads."""
    EamcStudy(seeds=1, easy_seeds=1, threads=1, model=CirneModel(jobs=50, span_s=0.1 * DAY_S)).run()
    begin = time.process_time()
    study = EamcStudy(seeds=30, easy_seeds=30, threads=2)
    samples = study.easy()
    study.report(PaperRuns(samples, samples, samples))  # conservative backfilling takes thirty times as long: left out
    seconds = (time.process_time() - begin) / 2
    values = np.concatenate(list(samples.values.values()))
    return Measured(seconds, digest(np.round(values, 3)), {"simulations": 4 * 30 * 11})


@benchmark("EAMC priority-inc-v, 1,000,000 jobs on 2 x 10,000 nodes", unit="s", at_most=30.0)
def a_million_jobs() -> Measured:
    """One simulation, predictions, orders and frequencies included."""
    system = p1p2()
    big = replace(system.machine, partitions=tuple(replace(p, nodes=NODES) for p in system.machine.partitions))
    span_s = CirneModel().span_s * (MILLION / CirneModel().jobs) * (system.machine.partitions[0].nodes / NODES)
    jobs = workload(13, 0, CirneModel(jobs=MILLION, span_s=span_s))
    policy = load_policy("eamc-priority-inc-v", estimator=system.estimator)
    actual = system.estimator.predict(KnownJobs.of(jobs), big)
    few = jobs.take(np.arange(50))
    simulate(few, big, policy, actual=system.estimator.predict(KnownJobs.of(few), big))
    begin = time.process_time()
    run = simulate(jobs, big, policy, actual=actual)
    seconds = time.process_time() - begin
    return Measured(seconds, digest(run.schedule.start_s), {"jobs a second": MILLION / seconds})
