"""Adversarial submissions against a real Slurm under a constant cap, with kills of every part: 0 s above the pool.

``WATTQUEUE_ADVERSARIAL_S`` sets the duration of the slow test (an hour by default).
"""

from __future__ import annotations

import os
import pwd
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.adversary import Adversary, Killer, Poller, completions, create_late, drain, outcomes
from tests.live.site import Site, warm_kernels
from tests.live.slurmlab import OPERATOR, SlurmLab
from wattqueue.live.config import load_config
from wattqueue.live.guard import Guard, fatal
from wattqueue.live.slurm.commands import Commands
from wattqueue.live.slurm.install import install

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
POOL_W = 900
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
"""
NODE_W = {f"n{i}": 200.0 if i <= 4 else 150.0 for i in range(1, 9)}


@pytest.fixture(scope="module")
def arena(real_module: None) -> Iterator[Site]:
    """A Slurm with GPUs and overlapping partitions, installed as a site would: by what ``live install`` derives."""
    folder = Path(os.path.realpath(f"/tmp/wattqueue-arena-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    operator = pwd.getpwnam(OPERATOR)
    (folder / "live").mkdir(mode=0o755)
    os.chown(folder / "live", operator.pw_uid, operator.pw_gid)
    warm_kernels(folder / "cache", operator)
    trivial = "function slurm_job_submit(a, b, c) return slurm.SUCCESS end\n"
    trivial += "function slurm_job_modify(a, b, c, d) return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"
    lab = SlurmLab(folder, nodes=8, licences_w=POOL_W, lua=trivial, gpus=4, overlap=True)
    try:
        lab.up()
        site = Site(lab)
        config = load_config(site.configure(f"{800 + POOL_W}W", machine=MACHINE, user=OPERATOR))
        slurm = Commands(environment={"SLURM_CONF": lab.env["SLURM_CONF"]})
        guard = Guard.of(config, slurm)
        install(folder / "etc", guard.settings, None)
        assert fatal(guard.check(slurm, folder / "etc")) == []
        create_late(lab)
        yield site
        site.stop()
    finally:
        lab.down()
        lab.remove()


def check_fight(site: Site, seconds: float, seed: int, record_property: Record, patience_s: float = 45.0) -> None:
    """Submissions, meddling and kills for so long; then everything left ends, and nothing more is written."""
    random_ = random.Random(seed)
    config = site.root / "live/live.toml"
    site.start(config)
    site.wait_up()
    adversary = Adversary(site, random_)
    killer = Killer(site, random_, lambda: site.start(config))
    deadline, next_kill = time.monotonic() + seconds, time.monotonic() + 15.0
    with Poller(site.lab, NODE_W, POOL_W) as poller:
        while time.monotonic() < deadline:
            adversary.submit()
            adversary.meddle()
            if adversary.steps % 10 == 0:
                adversary.make_room()
            time.sleep(random_.uniform(0.0, 0.6))
            if time.monotonic() > next_kill:
                killer.kill()
                next_kill = time.monotonic() + random_.uniform(8.0, 26.0)
        site.wait_up()
        cancelled = drain(site, patience_s)
        settled = len(site.check_audit())
        time.sleep(3.0)
        assert len(site.check_audit()) == settled, "a second reconcile writes nothing"
    for name, value in (("polls", poller.polls), ("most_w", poller.most_w), ("kills", killer.kills)):
        record_property(name, value)
    record_property("submitted", len(adversary.jobs))
    record_property("cancelled", cancelled)
    assert poller.over == [], poller.over[:3]
    ends = completions(site)
    twice = {name: count for name, count in ends.items() if count > 1}
    again = {name for name, _, restarts in outcomes(site) if restarts}
    if not killer.crashes:  # a slurmctld that crashed may not know what ran in the seconds before
        assert set(twice) <= again, "a job ran twice that nobody requeued"
        once = {name for name, state, _ in outcomes(site) if state == "COMPLETED"}
        assert once <= ends.keys(), "a job is completed whose script never ended"
    assert poller.polls > seconds, "the poller looked at least once a second"
    site.stop()
    site.check_audit()


def test_no_job_gets_around_the_cap(arena: Site, record_property: Record) -> None:
    check_fight(arena, 60.0, 1, record_property, 15.0)


@pytest.mark.slow
def test_no_job_gets_around_the_cap_for_an_hour(arena: Site, record_property: Record) -> None:
    check_fight(arena, float(os.environ.get("WATTQUEUE_ADVERSARIAL_S", "3600")), 2, record_property)
