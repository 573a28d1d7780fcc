"""Adversarial submissions against a real Slurm under a constant cap, with kills of every part: 0 s above the pool.

``WATTQUEUE_ADVERSARIAL_S`` sets the duration of the slow test (an hour by default).
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.adversary import LATE, Adversary, Killer, Poller, create_late
from tests.live.fight import Fighter, Record, fight, site_of
from tests.live.site import Site
from tests.live.slurmlab import SlurmLab, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("arena")]
POOL_W = 900
SHARED = {"nodes": 10, "shared": 2}
MACHINE = """
name = "lab"
[[partitions]]
name = "p1"
nodes = 4
idle_w = 100.0
max_w = 300.0
[[partitions]]
name = "p2"
nodes = 4
idle_w = 100.0
max_w = 250.0
[[partitions]]
name = "s"
nodes = 2
idle_w = 50.0
max_w = 150.0
"""
NODE_W = {f"n{i}": 200.0 if i <= 4 else 150.0 for i in range(1, 9)} | {"n9": 0.0, "n10": 0.0}
"""Watts of a busy node that the pool stands for. Jobs share n9 and n10, whose maximum is beside the pool always."""
CAP_W = 800 + POOL_W + 2 * 150


def arena_of(slurm_release: str, kind: type[Fighter], guard: str = "") -> Iterator[Fighter]:
    """A Slurm with GPUs and overlapping partitions, installed as a site would.

    ``guard``: The section of a guard in live.toml.
    """
    lab = {"gpus": 4, "overlap": True, **SHARED}
    shared = f'shared = ["s"]\n{guard}'
    for site in site_of(slurm_release, kind, "arena", POOL_W, cap=f"{CAP_W}W", machine=MACHINE, slurm=shared, **lab):
        create_late(site.lab)
        yield site


@pytest.fixture(scope="module")
def arena(slurm_release: str) -> Iterator[Site]:
    """A controller that has the rights itself."""
    yield from arena_of(slurm_release, Site)


def wait_settled(site: Site) -> int:
    """Wait until three statuses in a row (5 s apart) found nothing more written; returns the rows of the audit log."""
    seen: list[tuple[float, int]] = []

    def settled() -> bool:
        at_s = json.loads(site.status.read_text())["time_s"]
        if not seen or at_s > seen[-1][0]:
            seen.append((at_s, len(site.check_audit())))
        return len(seen) > 2 and len({rows for _, rows in seen[-3:]}) == 1

    wait_for("rounds that write nothing", settled, step_s=0.5)
    return seen[-1][1]


def check_second_reconcile(site: Site, config: Path) -> None:
    """With jobs that run, wait and are held by their user, a controller that is killed and started writes nothing."""
    site.lab.wait_idle({"idle", "planned"})  # a node keeps the mark of a plan until Slurm plans again
    running = [site.gated("-N1", "-t", "60", "-p", "p1") for _ in range(4)]
    site.wait_running(running)
    others = (["-N1", "-p", "p1,p2"], ["-N1-4", "-p", "debug"], ["-N2", "-p", "p2"], ["-N1", "-H"])
    waiting = [site.gated("-t", "60", *options) for options in others]
    settled = wait_settled(site)
    site.kill()
    site.start(config)
    site.wait_up()
    wait_settled(site)
    later = [row for row in site.check_audit()[settled:] if row["event"] != "note"]
    assert later == [], "a second reconcile writes nothing"
    assert site.running() == running
    site.lab.run(["scancel", *running, *waiting])


@pytest.mark.parametrize(
    ("parts", "watts"),
    [
        (("p1", "debug"), [200, 200]),
        (("debug", "debug,p2"), [200, 200]),
        (("p2", "p2"), [150, 150]),
        (("s", "debug"), [0, 200]),
    ],
)
def test_each_component_carries_watts_on_whichever_partition(
    arena: Site, parts: tuple[str, str], watts: list[int]
) -> None:
    """``debug`` holds all nodes and the machine file does not name it; jobs on ``s`` carry none."""
    arena.start(arena.root / "live/live.toml")
    arena.wait_up()
    try:
        job = arena.lab.submit("-N1", "-t5", "-p", parts[0], ":", "-N1", "-t5", "-p", parts[1], seconds=300)
        names = [f"{job}+0", f"{job}+1"]
        arena.lab.wait_states(names, ["RUNNING"])
        found = [arena.lab.field(name, "Licenses") for name in names]
        assert found == [f"watts:{one}" if one else "(null)" for one in watts]
        arena.lab.run(["scancel", job])
        arena.wait_used(0)
    finally:
        arena.stop()


def wait_released(lab: SlurmLab, job: str) -> None:
    """Wait until nobody holds a job."""
    wait_for(f"the release of {job}", lambda: lab.field(job, "Priority") != "0", step_s=0.2)


def test_components_that_a_restart_orphaned_block_nobody(arena: Site) -> None:
    """Their first component named a partition that the restart forgot: Slurm can neither start nor cancel them.

    They were released and carry watts. Slurm plans nodes for them, and starts nothing else there until they are held.
    """
    lab = arena.lab
    arena.start(arena.root / "live/live.toml")
    arena.wait_up()
    try:
        first = [arena.gated("-N1", "-t", "60", "-p", "p1", "-w", name) for name in ("n3", "n4")]
        arena.wait_running(first)
        for name, second in (("n3", "p1"), ("n4", "debug")):  # the watts suffice, so they are released; a node is busy
            options = ["-N1", "-t5", "-p", LATE, "-w", name, ":", "-N1", "-t5", "-p", second]
            wait_released(lab, f"{lab.submit(*options, seconds=300)}+1")
        time.sleep(6.0)  # slurmctld saves its state every 5 s
        lab.restart_controller()
        rows = [row.split("|") for row in lab.run(["squeue", "-h", "-a", "-t", "PD", "-o", "%i|%A"]).out.split()]
        assert [name.rpartition("+")[2] for name, _ in rows] == ["1", "1"], "the first components are gone"
        numbers = [number for _, number in rows]
        wait_for("them to be held", lambda: {lab.field(n, "Priority") for n in numbers} == {"0"}, step_s=0.2)
        arena.open_gate(*first)
        later = [arena.gated("-N1", "-t", "60", "-p", "p1") for _ in range(4)]
        arena.wait_running(later)
        arena.open_gate(*later)
        assert {lab.field(n, "Priority") for n in numbers} == {"0"}
    finally:
        arena.stop()


def test_a_component_of_two_partitions_is_planned_once(arena: Site) -> None:
    """400 W planned in each of two partitions, and 200 W beside them, would exceed the pool: none would ever start."""
    arena.start(arena.root / "live/live.toml")
    arena.wait_up()
    try:
        options = ["-N2", "-t3", "-p", "debug,p2", ":", "-N1", "-t3", "-p", "p1"]
        job = arena.lab.submit(*options, seconds=300)
        arena.lab.wait_states([f"{job}+0", f"{job}+1"], ["RUNNING"])
        assert arena.used_w()[0] == 600
        arena.lab.run(["scancel", job])
        arena.wait_used(0)
    finally:
        arena.stop()


def check_fight(site: Site, seconds: float, kills: int, seed: int, record_property: Record, timeout_s: float) -> None:
    """A fight under the cap (``fight``); beside it a second reconcile writes nothing, and the audit log is whole."""
    random_, config = random.Random(seed), site.root / "live/live.toml"
    killer = Killer(site, random_, lambda: site.start(config))
    poller = Poller(site.lab, NODE_W, POOL_W)
    fight(Adversary(site, random_), killer, poller, seconds, kills, timeout_s, record_property)
    check_second_reconcile(site, config)
    site.stop()
    site.check_audit()


def test_a_job_of_two_partitions_counts_the_nodes_of_the_one_at_the_watts_of_the_other(arena: Site) -> None:
    """24 tasks are 2 nodes of p1 (200 W each) or 3 of p2 (150 W): pinned to 3, it may get 3 nodes of p1."""
    job = arena.lab.submit("-n24", "-p", "p1,p2", "-H")
    assert arena.lab.field(job, "Licenses") == "watts:600"
    arena.lab.run(["scancel", job])


def test_no_job_gets_around_the_cap(arena: Site, record_property: Record) -> None:
    check_fight(arena, 60.0, 6, 1, record_property, 15.0)


@pytest.mark.slow
def test_no_job_gets_around_the_cap_for_an_hour(arena: Site, record_property: Record) -> None:
    """200 kills in an hour; a shorter run has as many a second."""
    seconds = float(os.environ.get("WATTQUEUE_ADVERSARIAL_S", "3600"))
    check_fight(arena, seconds, round(seconds / 18), 2, record_property, 45.0)
