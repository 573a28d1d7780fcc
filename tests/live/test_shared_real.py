"""Nodes that jobs share on a real Slurm: two nodes count 300 W with eleven jobs on them, and the rest is used."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.adversary import Poller
from tests.live.site import NET_W, TOTAL_W, Site
from tests.live.slurmlab import OPERATOR, USER, wait_for
from wattqueue.live.config import load_config
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.install import LUA, install

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
MACHINE = """
name = "lab"
[[partitions]]
name = "p1"
nodes = 4
idle_w = 100.0
max_w = 300.0
[[partitions]]
name = "p2"
nodes = 2
idle_w = 50.0
max_w = 150.0
"""
POOL_W = 2 * NET_W
CAP = f"{4 * 100 + POOL_W + 2 * 150}W"
"""Idle watts of p1, two busy nodes there, and the two shared nodes of p2."""
NODE_W = {f"n{i}": float(NET_W) if i <= 4 else 0.0 for i in range(1, 9)}
"""Watts of a node that stand for the pool: a shared node is beside it."""


@contextlib.contextmanager
def sharing(site: Site, more: str = "") -> Iterator[Path]:
    """p2 has two nodes of eight cores, which jobs share; installed as a site would, with ``more`` sections."""
    lab, etc = site.lab, site.root / "etc"
    before = (etc / LUA).read_text()
    two_nodes = ["scontrol", "update", "PartitionName=p2", "Nodes=n[5-6]", "OverSubscribe=NO"]
    file = site.configure(CAP, machine=MACHINE, slurm=f'shared = ["p2"]\n{more}', user=OPERATOR)
    config = load_config(file)
    try:
        lab.run(two_nodes)
        guard = Guard.of(config, lab.commands)
        assert (set(guard.settings.data.nodes), list(guard.settings.data.free)) == ({"p1"}, ["p2"])
        assert guard.settings.whole_pool_w == POOL_W
        install(etc, guard.settings, None)
        lab.run(["scontrol", "reconfigure"])
        lab.run(two_nodes)
        assert [one.what for one in guard.check(lab.commands) if one.fatal or "shares nodes" in one.what] == []
        site.start(file)
        site.wait_up()
        site.wait_open(POOL_W)
        yield file
    finally:
        site.stop()
        (etc / LUA).write_text(before)
        lab.run(["scontrol", "reconfigure"])


@pytest.fixture
def shared(site: Site) -> Iterator[tuple[Site, Path]]:
    """A site whose p2 is shared."""
    with sharing(site) as file:
        yield site, file


def status(site: Site) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((site.root / "live/run/status.json").read_text())
    return values


def test_eleven_jobs_on_two_nodes_count_two_nodes(shared: tuple[Site, Path]) -> None:
    """The controller is killed and returns: no look finds more than the pool in p1, where all of it is used."""
    site, file = shared
    lab = site.lab
    with Poller(lab, NODE_W, POOL_W) as poller:
        small = [site.gated("-n1", "-p", "p2") for _ in range(11)]
        site.wait_running(small)
        assert {lab.field(job, "Licenses") for job in small} == {"(null)"}
        assert {lab.field(job, "NodeList") for job in small} == {"n5", "n6"}
        managed = [site.gated("-N1", "-p", "p1") for _ in range(3)]
        both = site.gated("-N1", "-p", "p2,p1")
        site.wait_running(managed[:2])
        site.wait_used(POOL_W)
        since_s = time.time()
        wait_for("a status of both", lambda: status(site)["time_s"] > since_s, step_s=0.2)
        assert status(site)["shared_nodes"] == {"counted_w": 300.0, "open": 2, "closed": 0}
        assert status(site)["counted_w"] == 4 * 100 + POOL_W + 300
        assert status(site)["over_cap_w"] == 0.0
        assert lab.states()[both] == "PENDING", "it names a managed partition, so it waits for watts"

        site.kill()
        more = [site.gated("-n1", "-p", "p2") for _ in range(4)]
        site.wait_running(more)
        time.sleep(6.0)  # longer than away_s: Slurm schedules alone what comes now
        late = [site.gated("-N1", "-p", "p1") for _ in range(2)]
        site.open_gate(managed[0])
        wait_for("one of them in its place", lambda: site.used_w()[0] == POOL_W, step_s=0.1)
        assert sum(lab.states()[job] == "RUNNING" for job in (*managed[1:], *late)) == 2

        site.start(file)
        site.wait_up()
        waiting = {*managed[1:], *late, both}

        def let_end() -> bool:
            running = waiting & set(site.running())
            site.open_gate(*running)
            waiting.difference_update(running)
            return not waiting

        wait_for("all of them to run and end", let_end, step_s=0.1)
        assert lab.field(both, "Partition") == "p1"
        site.open_gate(*small, *more)
    assert poller.over == []
    assert poller.most_w == POOL_W, "all of the pool was in use"
    assert poller.polls > 20
    site.stop()
    targets = {row["target"] for row in site.check_audit() if row["event"] == "intend"}
    assert targets.isdisjoint([*small, *more]), "nothing was written to jobs on shared nodes"


def test_no_job_leaves_a_shared_partition_without_watts(shared: tuple[Site, Path]) -> None:
    """Neither users nor staff; what staff move into it runs there without watts; a component there needs none."""
    site, _ = shared
    lab = site.lab
    asked = site.gated("-n1", "-p", "p2", "-L", "watts:400", "--begin=now+3600")
    assert lab.field(asked, "Licenses") == "(null)", "a user cannot take the pool either"
    for change in ("Partition=p1", "Partition=p2,p1", "Licenses=watts:400"):
        done = lab.run(["scontrol", "update", f"JobId={asked}", change], user=USER, check=False)
        assert done.code != 0, change
    assert lab.run(["scontrol", "update", f"JobId={asked}", "TimeLimit=5"], user=USER, check=False).code == 0
    assert lab.run(["scontrol", "update", f"JobId={asked}", "Partition=p1"], check=False).code != 0
    lab.run(["scontrol", "update", f"JobId={asked}", "Partition=p1", "Licenses=watts:200"])
    assert lab.field(asked, "Partition") == "p1", "an administrator who gives it its watts may move it"
    lab.run(["scancel", asked])

    running = [site.gated("-N1", "-p", "p1") for _ in range(2)]
    site.wait_running(running)
    moved = site.gated("-N1", "-n1", "-p", "p1")
    wait_for("it is held for its watts", lambda: lab.field(moved, "Priority") == "0", step_s=0.1)
    lab.run(["scontrol", "update", f"JobId={moved}", "Partition=p2"])
    site.wait_running([moved])
    assert lab.field(moved, "Licenses") in ("", "(null)")
    assert lab.field(moved, "NodeList") == "n5"
    assert site.used_w()[0] == POOL_W
    site.open_gate(moved, *running)

    gate = f"--wrap=until [ -e {site.root}/gates/het ]; do sleep 0.1; done"
    argv = ["sbatch", "--parsable", "-o", "/dev/null", "-n1", "-p", "p2", ":", "-N1", "-p", "p1", gate]
    het = lab.run(argv, user=USER).out.strip().split(";")[0]
    site.wait_used(NET_W)
    assert lab.field(f"{het}+0", "Licenses") == "(null)"
    (site.root / "gates/het").touch()
    site.wait_used(0)


def test_a_drained_shared_node_leaves_its_watts_to_others(shared: tuple[Site, Path]) -> None:
    site, _ = shared
    lab = site.lab
    job = site.gated("-n1", "-p", "p2", "-w", "n6")
    site.wait_running([job])
    lab.run(["scontrol", "update", "NodeName=n6", "State=DRAIN", "Reason=test"])
    since_s = time.time()
    wait_for("a status", lambda: status(site)["time_s"] > since_s + 1.0, step_s=0.2)
    assert TOTAL_W - site.used_w()[1] == POOL_W, "a job is on it"
    site.open_gate(job)
    site.wait_open(POOL_W + 100)
    lab.run(["scontrol", "update", "NodeName=n6", "State=RESUME"])
    site.wait_open(POOL_W)
