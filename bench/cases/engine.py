"""Benchmarks of the engine in process, kernels compiled: placement, energy and the power series included.

Times are processor times, so that other work on the machine counts less. A digest covers the start of every job, so a
change that makes the engine fast and wrong fails. The workloads are generated with a load that keeps a queue;
``detail`` gives its mean and greatest length.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import RESULTS, Measured, Skip, benchmark, digest
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.actions import Action, SetFrequency
from wattqueue.parts.contracts import Start
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, Simulation
from wattqueue.sim.truth import NodeEvents

IDLE_W, MAX_W = 180.0, 2100.0
NODES = 980
CAP_SHARE = 0.36
"""Of the sum of node maxima: what some nine tenths of the nodes draw on average, so that watts bind before nodes do."""


def workload(n: int, nodes: int, load: float, *, width: float = 6.0, widest: float = 0.25) -> Jobs:
    """Generate jobs: lognormal sizes and run times, walltimes one to six times as long, at ``load`` of ``nodes``."""
    rng = np.random.default_rng(1)
    size = np.minimum(np.ceil(rng.lognormal(np.log(width), 1.1, n)), max(1.0, nodes * widest)).astype(int)
    run = np.round(np.clip(rng.lognormal(6.5, 1.4, n), 30, 86400), 3)
    wall = np.round(np.minimum(run * rng.uniform(1, 6, n), 172800), 3)
    span = float((size * run).sum()) / (nodes * load)
    submit = np.round(np.sort(rng.uniform(0, span, n)), 3)
    power = np.round(np.clip(rng.normal(700, 200, n), 250, MAX_W), 3)
    return Jobs.build(
        submit, size, run, walltime_s=wall, mean_power_w=power, max_power_w=power * 1.1, origin="generated"
    )


def capped(machine: Machine, share: float = CAP_SHARE) -> Cap:
    """Return a cap of ``share`` of the sum of node maxima."""
    return Cap.constant(share * (machine.scope_max_w() or 0.0))


def simulation(jobs: Jobs, machine: Machine, policy: Policy, cap: Cap) -> Simulation:
    """Return a run that has not begun, without failures."""
    return Simulation(jobs, machine, policy, cap, None, NodeEvents.none())


def replay(jobs: Jobs, machine: Machine, policy: str | Policy = "easy", cap: Cap | None = None) -> tuple[float, Run]:
    """Return processor seconds of the loop, after a warm-up on a few of the jobs, and the run."""
    stock = load_policy(policy, estimator="oracle-max") if isinstance(policy, str) else policy
    simulation(jobs.take(np.arange(min(50, len(jobs)))), machine, stock, cap or Cap.none()).go()
    whole = simulation(jobs, machine, stock, cap or Cap.none())
    begin = time.process_time()
    whole.go()
    return time.process_time() - begin, whole.result()


def depth_of(run: Run) -> tuple[float, int]:
    """Return mean and greatest number of jobs that a job found waiting, itself included."""
    submit, start = run.jobs.submit_s, np.sort(run.schedule.start_s)
    waiting = np.searchsorted(submit, submit, side="right") - np.searchsorted(start, submit, side="right")
    return float(waiting.mean()), int(waiting.max())


def speed(seconds: float, run: Run, **more: Any) -> Measured:
    """Return jobs per second, with a digest of all starts."""
    mean, most = depth_of(run)
    detail = {"cpu_s": seconds, "queued_mean": mean, "queued_most": most, **more}
    return Measured(len(run.jobs) / seconds, digest(run.schedule.start_s, run.schedule.state), detail)


@benchmark("EASY under a cap, 500,000 jobs on 980 nodes", unit="jobs/s", at_least=500_000)
def easy_half_a_million() -> Measured:
    """Measure EASY with thousands of queued jobs."""
    machine = plain_machine(NODES, IDLE_W, MAX_W)
    return speed(*replay(workload(500_000, NODES, 1.0), machine, cap=capped(machine)))


@benchmark("EASY over two partitions, 500,000 jobs", unit="jobs/s", at_least=250_000)
def easy_two_partitions() -> Measured:
    """Measure EASY where every job may run in either of two partitions that share watts."""
    half = [Partition(name, NODES // 2, idle_w=IDLE_W, max_w=MAX_W) for name in "ab"]
    machine = Machine("two", tuple(half))
    return speed(*replay(workload(500_000, NODES, 1.0), machine, cap=capped(machine)))


@benchmark("EASY under a cap, 2,000,000 jobs on 158,976 nodes", unit="jobs/s", at_least=400_000)
def easy_fugaku() -> Measured:
    """Measure EASY with a hundred thousand queued jobs. Takes some GB: WATTQUEUE_BENCH_HEAVY=1."""
    if os.environ.get("WATTQUEUE_BENCH_HEAVY") != "1":
        raise Skip("heavy: set WATTQUEUE_BENCH_HEAVY=1")
    machine = plain_machine(158_976, 60.0, MAX_W)
    jobs = workload(2_000_000, 158_976, 1.25, width=40.0, widest=0.05)
    return speed(*replay(jobs, machine, cap=capped(machine, 0.6)))


@benchmark("EASY on 5,268 sockets that differ, 100,000 jobs of 16 applications", unit="s", at_most=10)
def easy_units_that_differ() -> Measured:
    """Measure EASY under a budget with a factor for each application and socket, the most frugal ones first."""
    sockets, apps, n = 5_268, 16, 100_000
    rng = np.random.default_rng(1)
    size, run = rng.choice([1, 1, 1, 2, 4, 8, 16, 32, 64], n), np.round(rng.uniform(50, 400, n), 2)
    submit = np.sort(rng.uniform(0, float((size * run).sum()) / sockets, n))
    app = Labels(rng.integers(0, apps, n).astype(np.int32), tuple(f"a{k}" for k in range(apps)))
    jobs = replace(Jobs.build(submit, size, run, walltime_s=run * 1.2), app=app)
    factor = np.clip(rng.normal(1, 0.08, sockets) + rng.normal(0, 0.01, (apps, sockets)), 0.5, 1.5)
    units = tuple(str(k) for k in range(sockets))
    table = UnitTable(app.names, units, rng.uniform(50, 100, apps), factor, "generated")
    machine = Machine("quartz", (Partition("sockets", sockets, max_w=115.0),), "jobs")
    policy = load_policy("slurm-vtp", estimator=UnitWatts(table=table))
    truth = UnitWatts(table=table).predict(KnownJobs.of(jobs), machine)
    cap = Cap.constant(60.0 * sockets)
    few = jobs.take(np.arange(50))
    Simulation(few, machine, policy, cap, None, NodeEvents.none()).go()
    begin = time.process_time()
    whole = Simulation(jobs, machine, policy, cap, truth, NodeEvents.none())
    whole.go()
    seconds = time.process_time() - begin
    found = speed(seconds, whole.result())
    return Measured(seconds, found.digest, found.detail)


@benchmark("conservative, 50,000 jobs on 980 nodes, 250 queued", unit="s", at_most=5)
def conservative() -> Measured:
    """Measure conservative backfilling: every queued job has its place in a plan of nodes and watts."""
    machine = plain_machine(NODES, IDLE_W, MAX_W)
    seconds, run = replay(workload(50_000, NODES, 0.97), machine, "conservative", capped(machine))
    found = speed(seconds, run)
    return Measured(seconds, found.digest, found.detail)


@benchmark("peak memory of a run beyond its job table", unit="bytes/job", at_most=300)
def memory() -> Measured:
    """Measure resident memory of view, truth, log and result: 500,000 jobs, EASY under a cap, in its own process."""
    if not Path("/proc/self/clear_refs").exists():
        raise Skip("needs Linux")
    asked = [sys.executable, "-m", "bench.peak", "500000"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return Measured(float(done.stdout))


class FirstComeFirstServed:
    """A pass in plain Python."""

    def schedule(self, view: View) -> Sequence[Start]:
        free, starts = int(view.free[0]), []
        for entry in view.queue.tolist():
            need = int(view.jobs.nodes[view.entry_job(entry)])
            if need > free:
                break
            free -= need
            starts.append(Start(entry, 0))
        return starts


@benchmark("a pass in plain Python", unit="jobs/s", at_least=20_000)
def custom_pass() -> Measured:
    """Measure first come, first served as a custom part, 50,000 jobs on 980 nodes, against the compiled pass."""
    machine, jobs = plain_machine(NODES), workload(50_000, NODES, 0.7)
    policy = replace(load_policy("fcfs"), backfill=FirstComeFirstServed())
    seconds, run = replay(jobs, machine, policy)
    compiled_s, compiled = replay(jobs, machine, load_policy("fcfs"))
    if digest(run.schedule.start_s) != digest(compiled.schedule.start_s):
        raise AssertionError("the custom pass and the compiled one start jobs at different times")
    return speed(seconds, run, compiled_cpu_s=compiled_s)


class EachMinute:
    """Changes the speed of one running job every 60 simulated seconds."""

    period_s = 60.0
    events: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.done = 0

    def act(self, view: View) -> Sequence[Action]:
        running = view.running
        if len(running) == 0:
            return []
        self.done += 1
        job = int(running[self.done % len(running)])
        return [SetFrequency(view.job_id(job), 1 - view.job_option(job))]


@benchmark("speed kept with an action every 60 simulated seconds", unit="of the speed without", at_least=0.4)
def actions() -> Measured:
    """Measure what a control that acts costs: 100,000 jobs on 980 nodes, EASY under a cap."""
    part = Partition("batch", NODES, frequencies_hz=(2.0e9, 1.5e9), idle_w=IDLE_W, max_w=MAX_W, dvfs_beta=0.5)
    machine = Machine("two-clocks", (part,))
    jobs, easy = workload(100_000, NODES, 1.0), load_policy("easy", estimator="oracle-max")
    without_s, _ = replay(jobs, machine, easy, capped(machine))
    control = EachMinute()
    with_s, run = replay(jobs, machine, replace(easy, controls=(control,)), capped(machine))
    detail = {"without_cpu_s": without_s, "with_cpu_s": with_s, "actions": control.done}
    return Measured(without_s / with_s, digest(run.schedule.start_s), detail)


def by_queue_depth() -> list[tuple[int, float, float]]:
    """Return (jobs that are all submitted at once, mean depth, jobs/s) for each depth."""
    points = []
    machine = plain_machine(NODES, IDLE_W, MAX_W)
    for depth in (100, 1_000, 10_000, 100_000):
        jobs = workload(depth + 20_000, NODES, 1.0)
        ahead = np.zeros(len(jobs), bool)
        ahead[:depth] = True  # a backlog of so many at the start; the others keep it up
        jobs = replace(jobs, submit_s=np.where(ahead, 0.0, jobs.submit_s))
        seconds, run = replay(jobs, machine, cap=capped(machine))
        points.append((depth, depth_of(run)[0], len(jobs) / seconds))
    return points


def by_nodes() -> list[tuple[int, float, float]]:
    """Return (nodes, mean depth, jobs/s) for each machine size."""
    points = []
    for nodes in (100, 1_000, 10_000, 158_976):
        machine = plain_machine(nodes, IDLE_W, MAX_W)
        seconds, run = replay(workload(100_000, nodes, 0.95), machine, cap=capped(machine))
        points.append((nodes, depth_of(run)[0], len(run.jobs) / seconds))
    return points


@benchmark("growth: jobs/s at the deepest queue, times its logarithm, over the shallowest", unit="x", at_least=1)
def growth() -> Measured:
    """Measure growth at queue depths 1e2 to 1e5 and 1e2 to 1.6e5 nodes; pictures in bench/results.

    A speed that falls no faster than the logarithm keeps speed x log(size) from falling: 1 or more. The lower of
    both series is the figure.
    """
    series = {"queued jobs at the start": by_queue_depth(), "nodes": by_nodes()}
    kept = {name: least_kept(points) for name, points in series.items()}
    for name, points in series.items():
        plot(name, points)
    return Measured(min(kept.values()), detail={"kept": kept, "series": series})


def least_kept(points: list[tuple[int, float, float]]) -> float:
    """Return the least of speed x log(size) over that at the first size."""
    scaled = [rate * np.log(size) for size, _, rate in points]
    return float(min(s / scaled[0] for s in scaled[1:]))


def plot(name: str, points: list[tuple[int, float, float]]) -> None:
    """Draw jobs/s over size as SVG, with a line that falls as the logarithm."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    size, _, rate = (np.array(column, float) for column in zip(*points, strict=True))
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(size, rate, "o-", label="measured")
    axes.plot(size, rate[0] * np.log(size[0]) / np.log(size), "--", label="falls as the logarithm")
    axes.set(xscale="log", yscale="log", xlabel=name, ylabel="jobs/s", title="EASY under a cap")
    axes.legend()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"growth-{name.split(maxsplit=1)[0]}.svg")


@benchmark("kernels without reference counting, times as fast", unit="x", at_least=2)
def reference_counting() -> Measured:
    """Guard docs/adr/0001: the same small kernels over nested tuples, compiled with and without the private flag."""
    from bench.counting import build, tables

    view, rounds = tables(), 200_000
    found: dict[bool, tuple[float, int]] = {}
    for counting in (True, False):
        kernel: Callable[..., int] = build(counting=counting)
        kernel(view, 10)
        begin = time.process_time()
        total = kernel(view, rounds)
        found[counting] = time.process_time() - begin, total
    if found[True][1] != found[False][1]:
        raise AssertionError("both kernels should find the same")
    return Measured(found[True][0] / found[False][0], detail={"with_s": found[True][0], "without_s": found[False][0]})
