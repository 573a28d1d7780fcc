"""10,000 instants of live tests are decided alike through three drivers (``tests/wattqueue_flux/instants.py``).

The recordings are those of a controller over the fake, over a real Slurm, and of the module in a real Flux; what each
records is decided again by the session and through all three drivers. Fast tests decide some; the slow ones record
``WATTQUEUE_INSTANTS`` together (10,000 by default): half over the fake, a tenth over Slurm, which takes a second for
each, the rest in Flux.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import TOTAL_W, Site
from tests.live.slurmlab import real
from tests.live.test_replay import record
from tests.wattqueue_flux.fluxlab import IDLE_W, NET_W, instance, missing, real_flux, write_config
from tests.wattqueue_flux.instants import DRIVERS, decide_again
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy

POLICIES = ("fcfs", "first-fit", "easy", "conservative")
WANTED = int(os.environ.get("WATTQUEUE_INSTANTS", "10000"))
Record = Callable[[str, object], None]
RECORDED = Path(__file__).parent / "recorded" / "slurm.jsonl.gz"


def check(path: Path, folder: Path, record_property: Record, least: int = 30) -> None:
    """Every instant of a recording is decided alike."""
    found = decide_again(path, folder)
    record_property("instants", found.instants)
    assert found.differ == []
    assert found.instants >= least
    assert found.starting > found.instants / 20, "most of them would be alike without any decision"


def count_of(path: Path) -> int:
    """Recorded rounds so far, and some lines more."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.compiled
@pytest.mark.parametrize("policy", POLICIES)
def test_instants_of_the_fake_are_decided_alike_in_three_drivers(
    policy: str, tmp_path: Path, record_property: Record
) -> None:
    check(record(tmp_path, load_policy(policy), rounds=40), tmp_path, record_property)


@pytest.mark.compiled
def test_instants_of_a_real_slurm_are_decided_alike_in_three_drivers(tmp_path: Path, record_property: Record) -> None:
    """60 of those that the slow test recorded on Slurm 22.05."""
    path = tmp_path / "views.jsonl"
    path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    check(path, tmp_path, record_property, 60)


@pytest.mark.compiled
def test_another_policy_decides_otherwise_in_each_driver(tmp_path: Path) -> None:
    """The session takes its compiled pass from the view."""
    found = decide_again(record(tmp_path, load_policy("fcfs")), tmp_path, load_policy("first-fit"))
    assert {who for _, who in found.differ} == set(DRIVERS)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("policy", POLICIES)
def test_thousands_of_instants_of_the_fake(policy: str, tmp_path: Path, record_property: Record) -> None:
    draw, path = random.Random(policy), tmp_path / "views.jsonl"
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 17)], "p2": [f"m{i}" for i in range(1, 17)]}, 2**30)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(5000.0), policy=policy, machine=lab_machine(32),
        record=True, state="sqlite://", checked=False,
    )  # fmt: skip
    rounds = 0
    wanted = WANTED // 8
    while rounds % 100 or count_of(path) < wanted:
        if rounds % 20 == 0:
            controller.planner.cap = Cap.constant(3200.0 + 200.0 * draw.randrange(4, 24))
            slurm.down = set(draw.sample([f"n{i}" for i in range(1, 17)], draw.randrange(4)))
        if draw.random() < 0.5 and len(slurm.jobs) < 60:
            nodes, limit_s = draw.choice([1, 1, 2, 3, 8, 12]), 60.0 * draw.randrange(1, 30)
            slurm.submit(
                nodes, draw.uniform(2.0, 90.0), watts=200 * nodes, limit_s=limit_s,
                partition=draw.choice(["p1", "p2", "p1,p2"]), most_nodes=nodes + draw.choice([0, 0, 2]),
            )  # fmt: skip
        controller.round()
        slurm.step(draw.choice([0.5, 1.0, 7.0]))
        slurm.jobs = {number: job for number, job in slurm.jobs.items() if job.state in ("PENDING", "RUNNING")}
        rounds += 1
    check(path, tmp_path, record_property, wanted - 10)


@contextmanager
def controlled(site: Site, policy: str) -> Iterator[None]:
    """A controller of a policy, whose cap is a file."""
    site.start(site.configure("cap.csv", policy=policy, period_s=0.1))
    site.wait_up()
    yield
    site.stop()


def cap_of(folder: Path, watts: float) -> None:
    """Write a cap."""
    (folder / "new.csv").write_text(f"time_s,cap_w\n0,{watts:.0f}\n")
    (folder / "new.csv").chmod(0o644)
    (folder / "new.csv").replace(folder / "cap.csv")


@real
@pytest.mark.slow
def test_thousands_of_instants_of_a_real_slurm(site: Site, tmp_path: Path, record_property: Record) -> None:
    draw, home, wanted = random.Random(7), site.root / "live", WANTED // 10
    path = home / "views.jsonl"
    cap_of(home, 800 + TOTAL_W)
    for k, policy in enumerate(POLICIES):
        with controlled(site, policy):
            while count_of(path) < (k + 1) * wanted // 4:
                if draw.random() < 0.1:
                    cap_of(home, 800 + draw.choice([600, 1000, TOTAL_W]))
                if draw.random() < 0.05:
                    site.lab.run(["scontrol", "update", "NodeName=n4", f"State={draw.choice(['DRAIN', 'RESUME'])}",
                                  "Reason=test"], check=False)  # fmt: skip
                if not site.crowded():
                    site.lab.submit(
                        "--array=1-6", f"-N{draw.choice([1, 1, 2, 3])}", "-t", str(draw.randrange(1, 20)), "-p",
                        draw.choice(["p1", "p2", "p1,p2"]), seconds=draw.choice([0.2, 1.0, 3.0]),
                    )  # fmt: skip
                site.require_up()
    site.lab.run(["scontrol", "update", "NodeName=n4", "State=RESUME"], check=False)
    check(Path(shutil.copy(path, tmp_path)), tmp_path, record_property, wanted - 10)


@real_flux
@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_thousands_of_instants_of_a_real_flux(tmp_path: Path, record_property: Record) -> None:
    draw, nodes, path, wanted = random.Random(8), 40, tmp_path / "views.jsonl", WANTED * 4 // 10
    write_config(tmp_path, nodes, cap_w=nodes * IDLE_W + 16 * NET_W)
    text = (tmp_path / "live.toml").read_text()
    with instance(tmp_path, emulated=nodes, load=False) as lab:
        for k, policy in enumerate(POLICIES):
            (tmp_path / "live.toml").write_text(text.replace('"easy"', f'"{policy}"'))
            lab.load()
            while count_of(path) < (k + 1) * wanted // 4:
                if draw.random() < 0.2:
                    lab.cap_w(nodes * IDLE_W + draw.choice([6, 16, 30]) * NET_W)
                if draw.random() < 0.1:
                    lab.run("resource", draw.choice(["drain", "undrain"]), "35-39", check=False)
                if lab.stats()["pending_jobs"] < 60:
                    lab.submit(
                        draw.choice([2, 8, 20]), f"-t{draw.randrange(20, 900)}s", nodes=draw.choice([1, 1, 2, 5, 12]),
                        seconds=draw.choice([0.1, 1.0, 4.0]),
                    )  # fmt: skip
                time.sleep(0.2)
            lab.unload()
    check(path, tmp_path, record_property, wanted - 10)
