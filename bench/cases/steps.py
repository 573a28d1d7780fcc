"""Control steps every 4 s over days: Algorithm 1 of paper 3 on 5,000 sockets, true watts that follow phases."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from bench.harness import Measured, benchmark, digest
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import RAPL
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action
from wattqueue.parts.controls.rapl_redistribution import PERIOD_S, RaplRedistribution
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.workload.phases import LENGTH, RAMP, SHAPES, VARIANTS, library

SOCKETS = 5_000
DAY_S = 86_400.0
MAX_W, IDLE_W = 100.0, 15.0
CAP_W = 0.8 * MAX_W * SOCKETS
TICK_S = 20.0
"""Seconds between two samples of the jobs' profiles."""
MACHINE = Machine(
    "sockets",
    (Partition("one", SOCKETS // 2, unit="socket", sockets_per_node=2, idle_w=IDLE_W, max_w=MAX_W, dvfs_alpha=2.0),),
    sensor=RAPL,
)


def workload(days: float) -> Jobs:
    """Generate jobs with phases that keep the machine full for ``days``: 1 to 64 sockets, minutes to hours."""
    rng = np.random.default_rng(1)
    count = int(10_000 * days) + 500
    sockets = np.rint(2 ** rng.uniform(0.0, 6.0, count)).astype(np.int32)
    run_s = np.rint(np.exp(rng.uniform(np.log(300.0), np.log(6 * 3600.0), count)))
    busy_s = np.cumsum(sockets * run_s) / SOCKETS
    kept = int(np.searchsorted(busy_s, days * DAY_S))
    sockets, run_s = sockets[:kept], run_s[:kept]
    submit_s = np.sort(rng.uniform(0.0, 0.9 * days * DAY_S, kept))
    mean_w = rng.uniform(0.4, 0.95, kept) * MAX_W
    patterns = library(rng)
    pattern = patterns.pattern(rng.integers(0, SHAPES, kept), sockets, rng.integers(0, VARIANTS, kept))
    profiles = PowerProfiles(
        pattern, np.zeros(kept), mean_w, patterns.level.ravel(),
        np.arange(len(patterns.level) + 1, dtype=np.int64) * LENGTH, np.full(len(patterns.level), len(RAMP), np.int64),
    )  # fmt: skip
    return Jobs.build(submit_s, sockets, run_s, walltime_s=1.5 * run_s, mean_power_w=mean_w, profiles=profiles)


class InPython:
    """The same control without its compiled step, as a control of a user's would be."""

    def __init__(self, control: RaplRedistribution) -> None:
        self.control, self.period_s, self.events = control, control.period_s, control.events
        self.reads_sensors = True

    def act(self, view: View) -> Sequence[Action]:
        """Return the actions of a step."""
        return self.control.act(view)


def simulated(days: float, *, compiled: bool = True, ledger: str = "predicted") -> tuple[float, Run]:
    """Simulate so many days; return processor seconds, generation of the workload left out, and the run."""
    control = RaplRedistribution(minimum_w=IDLE_W, maximum_w=MAX_W)
    controls = [control if compiled else InPython(control)]
    policy = load_policy("easy", estimator="maximum", ledger=ledger, controls=controls)
    jobs = workload(days)
    begin = time.process_time()
    run = simulate(jobs, MACHINE, policy, cap=Cap.constant(CAP_W), phases_s=TICK_S)
    return time.process_time() - begin, run


def figures(seconds: float, run: Run) -> Measured:
    """Return the figures of a run, with a digest of starts, ends and energies."""
    schedule = run.schedule
    steps = int(float(np.nanmax(schedule.end_s) - run.jobs.submit_s.min()) / PERIOD_S)
    detail = {"steps": steps, "jobs": len(run.jobs), "us_a_step": round(1e6 * seconds / steps, 1)}
    return Measured(seconds, digest(schedule.start_s, schedule.end_s, np.round(schedule.energy_j, 3)), detail)


def ten_days_of(ledger: str) -> Measured:
    """Return processor seconds of 10 days; the digest is that of 12 hours, which the form in Python has, too."""
    first = figures(*simulated(0.5, ledger=ledger))
    found = figures(*simulated(10.0, ledger=ledger))
    return Measured(found.value, first.digest, {**found.detail, "digest_of_10_days": found.digest})


@benchmark("10 days of control steps, 5,000 sockets, phases: processor time", unit="s", at_most=60.0)
def ten_days() -> Measured:
    """Some 220,000 steps of redistribution on RAPL's readings, true watts that follow phases; predicted ledger."""
    return ten_days_of("predicted")


@benchmark("10 days of control steps, 5,000 sockets, phases, measured ledger: processor time", unit="s", at_most=60.0)
def ten_days_measured() -> Measured:
    """The same with the ledger of e-pas-intel: each reading counts again what runs."""
    return ten_days_of("measured")


@benchmark("12 hours of control steps in Python, 5,000 sockets, phases: processor time", unit="s")
def half_a_day_in_python() -> Measured:
    """The same control called through the session. Its digest is that of the compiled steps."""
    simulated(0.01, compiled=False)
    seconds, run = simulated(0.5, compiled=False)
    found, same = figures(seconds, run), figures(*simulated(0.5))
    if found.digest != same.digest:
        raise AssertionError("the two forms of the control differ")
    return Measured(seconds, found.digest, {**found.detail, "compiled_s": round(same.value, 2)})
