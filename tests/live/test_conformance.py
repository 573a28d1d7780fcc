"""One suite over three drivers: the simulator, the fake Slurm and a real one admit the same jobs in the same order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import TOTAL_W, Site, cap_text
from wattqueue.model.jobs import Jobs
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate

NET_W = 200


class Job(NamedTuple):
    nodes: int
    limit_min: int
    partition: str
    seconds: float


class Outcome(NamedTuple):
    """Jobs in the order in which they started (rows), and the most watts above idle that were admitted."""

    order: list[int]
    peak_w: int
    starts: int


# FCFS, first-fit and EASY each start these jobs in an order of their own. On the real Slurm a job
# ends when the test opens its gate, in the simulator's order of ends: no clock takes part.
WORKLOAD = (
    Job(1, 600, "p2", 11.25),
    Job(1, 10, "p1", 13.75),
    Job(1, 10, "p2", 5.0),
    Job(3, 10, "p2", 5.0),
    Job(1, 10, "p2", 8.75),
    Job(2, 600, "p2", 11.25),
)
POOL_W = 800
Driver = Callable[[str], Outcome]


def simulate_it(policy: str) -> Run:
    jobs = Jobs.build(
        [0.0] * len(WORKLOAD),
        [j.nodes for j in WORKLOAD],
        [j.seconds for j in WORKLOAD],
        walltime_s=[60.0 * j.limit_min for j in WORKLOAD],
        partition=[j.partition for j in WORKLOAD],
    )
    return simulate(jobs, lab_machine(), load_policy(policy), cap=Cap.constant(800.0 + POOL_W))


def quiescent(policy: str) -> list[tuple[list[int], list[int]]]:
    """What ends at each moment of the simulation, and what runs after it."""
    schedule = simulate_it(policy).schedule
    times = sorted({*schedule.start_s.tolist(), *schedule.end_s.tolist()})
    rows = range(len(WORKLOAD))
    return [
        (
            [i for i in rows if schedule.end_s[i] == t],
            [i for i in rows if schedule.start_s[i] <= t < schedule.end_s[i]],
        )
        for t in times
    ]


def simulated(policy: str) -> tuple[list[frozenset[int]], Outcome]:
    """The simulator's sets of jobs that start at one instant, in order, and its outcome."""
    run = simulate_it(policy)
    start = run.schedule.start_s
    sets = [frozenset(i for i in range(len(WORKLOAD)) if start[i] == t) for t in sorted(set(start.tolist()))]
    peak = max(float(w) for w in run.power.jobs_w - run.power.busy_idle_w)
    order = sorted(range(len(WORKLOAD)), key=lambda i: (start[i], i))
    return sets, Outcome(order, math.ceil(peak), sum(len(s) for s in sets))


def on_the_fake(policy: str, folder: Path) -> Outcome:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, TOTAL_W)
    controller = make_controller(slurm, folder, lambda: slurm.now_s, cap=Cap.constant(800.0 + POOL_W), policy=policy)
    jobs = [
        slurm.submit(j.nodes, j.seconds, watts=NET_W * j.nodes, limit_s=60.0 * j.limit_min, partition=j.partition)
        for j in WORKLOAD
    ]
    for _ in range(120):
        controller.round()
        slurm.step(0.5)
    assert all(job.state == "COMPLETED" for job in jobs)
    order = sorted(range(len(jobs)), key=lambda i: (jobs[i].start_s, i))
    return Outcome(order, slurm.peak_w, sum(job.starts for job in jobs))


def on_the_real(policy: str, site: Site) -> Outcome:
    """All jobs wait before the controller comes, so that its first round sees them all, as the simulator does.

    Between two events the test waits until all that the simulator starts runs, and compares what runs.
    """
    site.beat_once()
    ids = [site.gated(f"-N{j.nodes}", "-t", str(j.limit_min), "-p", j.partition) for j in WORKLOAD]
    site.start(site.configure(cap_text(POOL_W), policy=policy))
    peak = 0
    for ends, runs in quiescent(policy):
        site.open_gate(*(ids[i] for i in ends))
        wanted = sorted((ids[i] for i in runs), key=int)
        site.wait_running(wanted)
        peak = max(peak, site.used_w()[0])
        assert site.running() == wanted
    site.stop()
    released = [row["target"] for row in site.check_audit() if row["event"] == "intend" and row["kind"] == "release"]
    return Outcome([ids.index(name) for name in released], peak, sum(site.starts(ids).values()))


def check(sets: Sequence[frozenset[int]], got: Outcome, policy: str) -> None:
    """The sets that the simulator admits at one instant, one after the other, and never more watts."""
    assert got.starts == len(WORKLOAD), "every job ran, and ran once"
    assert got.peak_w <= POOL_W
    place = 0
    for one in sets:
        assert frozenset(got.order[place : place + len(one)]) == one, f"{policy}: {got.order}, expected {sets}"
        place += len(one)


@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_the_simulator_and_the_fake_slurm_agree(policy: str, tmp_path: Path) -> None:
    sets, own = simulated(policy)
    check(sets, own, policy)
    check(sets, on_the_fake(policy, tmp_path), policy)


@pytest.mark.slurm
@pytest.mark.compiled
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize(
    "policy", ["easy", pytest.param("fcfs", marks=pytest.mark.slow), pytest.param("first-fit", marks=pytest.mark.slow)]
)
def test_the_simulator_and_a_real_slurm_agree(policy: str, site: Site) -> None:
    sets, _ = simulated(policy)
    check(sets, on_the_real(policy, site), policy)


def test_the_policies_differ_on_this_workload() -> None:
    orders = {policy: tuple(simulated(policy)[0]) for policy in ("fcfs", "first-fit", "easy")}
    assert len(set(orders.values())) == 3
