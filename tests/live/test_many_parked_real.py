"""A hundred jobs on a real Slurm are parked by one load target, and continue after it; prints what it took.

Nothing is asserted about the times; they are printed, for docs/guide/demand-response-live.md.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.procs import states_by
from tests.live.releases import lab_of
from tests.live.slurmlab import PATIENCE_S, SlurmLab, wait_for
from tests.live.submit_script import with_data
from tests.live.test_live_targets import Stated
from wattqueue.live.consent_tags import CONSENT, SiteDefaults
from wattqueue.live.files.lease import BEAT
from wattqueue.live.files.status import HEAD
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.live.state.audit import rows_of, verify
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
NODES, NET_W = 104, 200


@pytest.fixture
def large(lab_folder: Path, slurm_release: str) -> Iterator[SlurmLab]:
    nodes = {name: NodeWatts(NET_W, NET_W, 16 if name == "p1" else 8) for name in ("p1", "p2")}
    settings = Settings(SubmitData(nodes), [], lab_folder / BEAT, 600, NODES * NET_W)
    lab = lab_of(slurm_release, lab_folder, with_data(settings), NODES * NET_W, nodes=NODES)
    try:
        yield lab.up()
    finally:
        lab.down()


def test_a_hundred_jobs_are_parked_and_continue(
    large: SlurmLab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    (large.root / BEAT).write_text(f"control {int(time.time())}\n")
    half = NODES // 2
    for name in ("p1", "p2"):
        for _ in range(half):
            large.submit("-N1", "-t600", f"-p{name}", f"--comment={CONSENT}", "--wrap=sleep 10000")
    source = Stated()
    controller = make_controller(
        SlurmCluster(large.commands), tmp_path, time.time, cap=Cap.constant(NODES * (100.0 + NET_W)),
        machine=lab_machine(NODES), policy="dr-parking", targets=source, consent=SiteDefaults(),
    )  # fmt: skip

    def until(what: str, there: Callable[[], bool]) -> float:
        return wait_for(what, lambda: controller.round() is not None and there(), 2 * PATIENCE_S, 0.2)

    def used_w() -> int:
        pool = controller.cluster.observe().pool
        assert pool is not None
        return pool.used

    def still() -> int:
        """Jobs all of whose processes are stopped."""
        return sum(states == {"T"} for states in states_by(str(large.root), "SLURM_JOB_ID").values())

    until("all run", lambda: list(large.states().values()).count("RUNNING") == NODES and used_w() == NODES * NET_W)
    wait_for("their scripts", lambda: len(states_by(str(large.root), "SLURM_JOB_ID")) == NODES)
    now_s = time.time()
    source.stated = LoadTargets.of(LoadTarget(now_s - 1.0, now_s + 9000.0, NODES * 100.0, notice_s=np.inf))
    begin_s = time.monotonic()
    report = controller.round()
    round_s = time.monotonic() - begin_s
    assert report is not None
    assert [one.error for one in report.outcomes if one.error] == []
    until("no watts", lambda: used_w() == 0)
    counted_s = time.monotonic() - begin_s
    until("all stand still", lambda: still() == NODES)
    stopped_s = time.monotonic() - begin_s
    source.stated = LoadTargets.none()
    begin_s = time.monotonic()
    until("all go on", lambda: used_w() == NODES * NET_W and still() == 0)
    again_s = time.monotonic() - begin_s
    kinds = [row["kind"] for row in rows_of(controller.audit.engine) if row["event"] == "intend"]
    assert kinds.count("stop") >= NODES
    assert kinds.count("continue") >= NODES
    assert verify(controller.audit.engine, head=tmp_path / HEAD).broken == 0
    text = (
        f"{NODES} jobs: the round that parks them {round_s:.1f} s, no watts counted after {counted_s:.1f} s, "
        f"all processes stopped after {stopped_s:.1f} s, all continued {again_s:.1f} s after the end"
    )
    sys.stderr.write(f"\n{text}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    record_property("parked", text)
