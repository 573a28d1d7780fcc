"""A real Slurm of 64 emulated nodes: the same promises as on eight."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.releases import lab_of
from tests.live.slurmlab import PATIENCE_S, SlurmLab, wait_for
from tests.live.submit_script import with_data
from wattqueue.live.files.lease import BEAT
from wattqueue.live.files.status import HEAD
from wattqueue.live.recordings.replay import replay
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.live.state.audit import verify
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
NODES, NET_W, OPEN_W = 64, 200, 4000


@pytest.fixture
def large(lab_folder: Path, slurm_release: str) -> Iterator[SlurmLab]:
    nodes = {name: NodeWatts(NET_W, NET_W, 16 if name == "p1" else 8) for name in ("p1", "p2")}
    settings = Settings(SubmitData(nodes), [], lab_folder / BEAT, 600, NODES * NET_W)
    lab = lab_of(slurm_release, lab_folder, with_data(settings), NODES * NET_W, nodes=NODES)
    try:
        yield lab.up()
    finally:
        lab.down()


def test_two_hundred_jobs_on_sixty_four_nodes(large: SlurmLab, tmp_path: Path) -> None:
    """Never more watts than the cap, every job ends and ran once, the audit holds, views replay byte for byte."""
    (large.root / BEAT).write_text(f"control {int(time.time())}\n")
    random_ = random.Random(64)
    jobs = [
        large.submit(f"-N{random_.choice([1, 1, 2, 4, 8])}", "-t", "10", "-p", random_.choice(["p1", "p2", "p1,p2"]),
                     seconds=random_.uniform(0.2, 4.0))
        for _ in range(200)
    ]  # fmt: skip
    cluster = SlurmCluster(large.commands)
    cap = Cap.constant(NODES * 100.0 + OPEN_W)
    controller = make_controller(cluster, tmp_path, time.time, cap=cap, machine=lab_machine(NODES), record=True)
    used: list[int] = []

    def done() -> bool:
        report = controller.round()
        if report is not None and report.snapshot.pool is not None:
            used.append(report.snapshot.pool.used)
        states = large.states()
        return all(states.get(job) == "COMPLETED" for job in jobs)

    wait_for("200 jobs to end", done, 5 * PATIENCE_S, 0.2)
    assert max(used) <= OPEN_W
    assert set(large.launches(jobs).values()) == {1}
    assert verify(controller.audit.engine, head=tmp_path / HEAD).broken == 0
    lines = list(replay(tmp_path / "views.jsonl"))
    assert len(lines) > 10
    assert all(recorded == again for _, recorded, again in lines)
