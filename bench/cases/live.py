"""The live controller on a large cluster: 10,000 jobs queued on 10,000 nodes, generated as squeue prints them.

Times are of the processor; what Slurm itself takes to answer is not in them (tests/live/test_size_real.py).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness import Measured, benchmark
from tests.live.bigview import NOW_S, BigSlurm
from tests.live.drive import lab_machine, make_controller
from wattqueue.live.controller import Controller
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.observe import Observer
from wattqueue.model.signals import Cap

NODES = QUEUED = 10_000
ROUNDS = 15
ROOM_W = 20_000.0


@contextmanager
def site() -> Iterator[tuple[BigSlurm, Controller]]:
    """A controller in a folder of its own, after its first round."""
    with tempfile.TemporaryDirectory() as folder:
        slurm = BigSlurm(QUEUED, NODES, running=2000)
        cap = Cap.constant(100.0 * NODES + slurm.used_w + ROOM_W)
        cluster = SlurmCluster(slurm, clock=lambda: NOW_S)
        controller = make_controller(cluster, Path(folder), lambda: NOW_S, cap=cap, machine=lab_machine(NODES))
        controller.planner.plan(cluster.observe(), {}, telemetry_ok=True)
        yield slurm, controller


def least_ms(what: Callable[[], object], before: Callable[[int], object] = lambda _: None) -> float:
    """The least of some rounds: on a busy machine even time of the processor grows."""
    took = []
    for k in range(ROUNDS):
        before(k)
        begin = time.process_time()
        what()
        took.append(1e3 * (time.process_time() - begin))
    return min(took)


@benchmark("live: view and decision, 10,000 queued on 10,000 nodes", unit="ms", at_most=20)
def steady() -> Measured:
    """Nothing changed since the last round."""
    with site() as (_, controller):
        snapshot = controller.cluster.observe()
        return Measured(least_ms(lambda: controller.planner.plan(snapshot, {}, telemetry_ok=True)))


@benchmark("live: view and decision in a round in which a job goes", unit="ms", at_most=20)
def changing() -> Measured:
    """Each time another waiting job has left squeue's list."""
    with site() as (slurm, controller):
        snapshots = []
        for k in range(ROUNDS):
            slurm.without_line(5000 + 7 * k)
            snapshots.append(controller.cluster.observe())
        rounds = iter(snapshots)
        return Measured(least_ms(lambda: controller.planner.plan(next(rounds), {}, telemetry_ok=True)))


@benchmark("live: parsing squeue's 12,000 lines afresh", unit="ms")
def parsing() -> Measured:
    """As after a start of the controller."""
    with site() as (slurm, _):
        observer = Observer(slurm, lambda: NOW_S)

        def forget(_: int) -> None:
            observer._jobs.clear()  # noqa: SLF001 - what it remembers of the lines before

        return Measured(least_ms(observer.snapshot, forget))


@benchmark("live: parsing them again, nothing changed", unit="ms")
def parsing_again() -> Measured:
    """Lines that stand as before are not read again."""
    with site() as (_, controller):
        return Measured(least_ms(controller.cluster.observe))
