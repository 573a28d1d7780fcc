"""Generators of the size of real machines, and the machine's power as the sum of its jobs' profiles.

Digests of watts are taken at whole watts: the last bits of exp and log depend on the machine.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from bench.harness import Measured, benchmark, best_of, digest, timed
from wattqueue.model.machine import Machine, Partition
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import power_windows, profile_power, profiled
from wattqueue.workload import fugaku, marconi

MACHINE = Machine("marconi100", (Partition("batch", marconi.NODES, idle_w=200.0, max_w=marconi.NODE_MAX_W),))


@cache
def nine_months() -> Run:
    """Marconi100's 523,204 generated jobs, replayed by EASY."""
    jobs = marconi.generate(np.random.default_rng(1), jobs=marconi.JOBS, load=0.9)
    return simulate(jobs, MACHINE, load_policy("easy"))


@benchmark("generate Marconi100's nine months with power profiles", unit="s", at_most=5)
def generate_marconi() -> Measured:
    """523,204 jobs of 576 users."""
    seconds, jobs = best_of(2, lambda: marconi.generate(np.random.default_rng(1), jobs=marconi.JOBS))
    return Measured(seconds, digest(jobs.nodes, jobs.walltime_s, jobs.user.codes), {"jobs": len(jobs)})


@benchmark("generate 2,000,000 of Fugaku's jobs", unit="jobs/s", at_least=500_000)
def generate_fugaku() -> Measured:
    """Two chunks' worth; 24,000,000 take twelve times as long and 1.6 GB."""
    seconds, jobs = timed(lambda: fugaku.generate(np.random.default_rng(1), jobs=2_000_000))
    return Measured(2e6 / seconds, digest(jobs.nodes, jobs.walltime_s, jobs.user.codes))


@benchmark("power from profiles, nine months, 20 s samples", unit="samples/s", at_least=20_000_000)
def all_samples() -> Measured:
    """The whole machine's power, window by window, and its energy."""
    run = nine_months()
    found = profiled(run)
    samples = float(((found.runs.end_s - found.runs.start_s) / found.runs.period_s).sum())

    def energy_j() -> float:
        parts = power_windows(found, run.power)
        return sum(float(p.jobs_w[:-1] @ np.diff(p.time_s)) for p in parts)

    energy_j()
    seconds, total = timed(energy_j)
    return Measured(samples / seconds, digest(np.rint([total / 1e6])), {"samples": samples, "seconds": seconds})


@benchmark("power from profiles, three hours of a replayed trace", unit="s", at_most=0.2)
def three_hours() -> Measured:
    """The capped window of one run of paper 4's campaign, cut from nine months."""
    run = nine_months()
    begin = 100 * 86400.0
    seconds, window = best_of(3, lambda: profile_power(run, begin_s=begin, end_s=begin + 10_800.0))
    return Measured(seconds, digest(window.time_s, np.rint(window.jobs_w)), {"rows": len(window.time_s)})
