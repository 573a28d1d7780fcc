"""What the release of Slurm under test counts: watts of requeued jobs, and of jobs that complete during a restart."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.adversary import Poller
from tests.live.drive import lab_machine, make_controller
from tests.live.releases import lab_of
from tests.live.slurmlab import OTHER_USER, PATIENCE_S, SlurmLab
from tests.live.submit_script import with_data
from wattqueue.live.cluster import Pool
from wattqueue.live.controller import Controller
from wattqueue.live.files.lease import BEAT
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
NET_W, TOTAL_W, POOL_W, JOBS = 200, 1600, 1000, 14
REQUEUES = 500


@pytest.fixture
def release_lab(slurm_release: str, lab_folder: Path) -> Iterator[SlurmLab]:
    """A lab of the release under test."""
    nodes = {name: NodeWatts(NET_W, NET_W, 16 if name == "p1" else 8) for name in ("p1", "p2")}
    lua = with_data(Settings(SubmitData(nodes), [], lab_folder / BEAT, 600, TOTAL_W))
    lab = lab_of(slurm_release, lab_folder, lua, TOTAL_W)
    try:
        yield lab.up()
    finally:
        lab.down()


def submit(lab: SlurmLab, random_: random.Random) -> None:
    """Submit a job that does not end by itself: of one node, of two, or of either number."""
    size = random_.choice(["-N1", "-N1", "-N1", "-N2", "-N1-2"])
    lab.submit(size, "-t", "120", "-p", "p1,p2", seconds=6000, user=OTHER_USER)


def requeue_many(lab: SlurmLab, controller: Controller, count: int) -> dict[str, int]:
    """Requeue up to three running jobs whenever the pool is in full use, or for 5 s was not; the requeues of each job.

    Slurm delays a requeued job by two minutes. Half of the time the delay is lifted before the controller has seen the
    requeue, so that Slurm may start the job first. A start on a node that still ends the run before fails ("Job
    credential revoked"), so jobs that failed are replaced.
    """
    random_, done, delayed = random.Random(7), dict[str, int](), set[str]()
    last = time.monotonic()
    while sum(done.values()) < count:
        (lab.root / BEAT).write_text(f"control {int(time.time())}\n")
        rows = [line.split("|") for line in lab.run(["squeue", "-h", "-o", "%i|%T|%D"]).out.split()]
        for _ in range(JOBS - len(rows)):
            submit(lab, random_)
        running = [job for job, state, _ in rows if state == "RUNNING"]
        used_w = NET_W * sum(int(nodes) for _, state, nodes in rows if state == "RUNNING")
        full = used_w >= POOL_W or time.monotonic() - last > 5.0
        chosen = random_.sample(running, min(len(running), random_.randint(1, 3), count - sum(done.values())))
        for job in chosen if full else ():
            if lab.run(["scontrol", "requeue", job], check=False).code == 0:
                done[job] = done.get(job, 0) + 1
                delayed.add(job)
                last = time.monotonic()
        assert time.monotonic() - last < PATIENCE_S, f"nothing runs: {lab.jobs()}"
        if random_.random() < 0.5:
            controller.round()
        for job in sorted(delayed):
            if lab.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=False).code == 0:
                delayed.discard(job)
        controller.round()
    for job in sorted(delayed):
        lab.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=False)
    return done


def test_five_hundred_requeues(release_lab: SlurmLab, tmp_path: Path, record_property: Record) -> None:
    lab, commands = release_lab, release_lab.commands
    (lab.root / BEAT).write_text(f"control {int(time.time())}\n")
    cap = Cap.constant(8 * 100.0 + POOL_W)
    controller = make_controller(SlurmCluster(commands), tmp_path, time.time, cap=cap, machine=lab_machine())
    with Poller(lab, dict.fromkeys(lab.names, float(NET_W)), POOL_W) as poller:
        begin = time.monotonic()
        done = requeue_many(lab, controller, REQUEUES)
        took_s = time.monotonic() - begin
    shown = dict(
        line.split() for line in lab.run(["squeue", "-h", "-t", "all", "-O", "JobID:20,RestartCnt"]).out.splitlines()
    )
    figures = {"polls": poller.polls, "most_w": poller.most_w, "over": len(poller.over), "took_s": round(took_s)}
    for name, value in figures.items():
        record_property(name, value)
    sys.stderr.write(f"{figures}\n")
    assert poller.over == [], poller.over[:3]
    assert poller.most_w == POOL_W, "the pool was in full use"
    assert {job: int(shown[job]) for job in done} == done, "each requeue happened"


def test_what_is_counted_of_a_job_that_completes_during_a_restart(
    release_lab: SlurmLab, record_property: Record
) -> None:
    """Whatever the release counts, the pool shows what jobs hold: two jobs, then one."""
    lab = release_lab
    observer = Observer(lab.commands, time.time)
    completes, runs = (lab.submit("-N1", "-p", "p1", "-t", "60", seconds=6000, user=OTHER_USER) for _ in range(2))
    lab.wait_states([completes, runs], ["RUNNING"])

    def pool() -> Pool:
        seen = observer.snapshot().pool
        assert seen is not None
        return seen

    assert pool()[1:] == (2 * NET_W, 0, 0), "used, reserved, uncounted"
    node = lab.field(completes, "NodeList")
    lab.kill_node(node)
    lab.run(["scancel", completes])
    lab.wait_states([completes], ["COMPLETING"])
    assert pool()[1:] == (2 * NET_W, 0, 0), "a completing job holds its watts, and is counted"
    lab.restart_controller()
    assert pool().used == 2 * NET_W
    lab.start_node(node)
    lab.wait_states([completes], ["CANCELLED"])
    uncounted = pool().uncounted
    record_property("uncounted", uncounted)
    sys.stderr.write(f"{uncounted} W are not counted after the restart\n")
    assert pool()[1:] == (NET_W, 0, uncounted)
    assert uncounted in (0, NET_W)
    lab.run(["scancel", runs])
