"""Whether Slurm alone keeps the pool where its backfill works across the change of a minute (docs/cap-held.md)."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.releases import lab_of
from tests.live.slurmlab import SlurmLab, wait_for
from tests.live.test_starvation_real import TRIVIAL

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
POOL_W, ARRAYS, EACH, MINUTES = 900, 8, 1000, 6
SCHEDULER = "sched_interval=1,bf_interval=1,bf_window=20160,bf_max_job_test=20000,bf_max_job_array_resv=1000"
SCHEDULER += ",bf_max_time=60,bf_yield_interval=10000000,default_queue_depth=0"


def running_w(lab: SlurmLab) -> int:
    """Licences that running jobs show."""
    return sum(int(watts) for watts in re.findall(r"watts:(\d+)", lab.run(["squeue", "-h", "-t", "R", "-o", "%W"]).out))


def excesses(lab: SlurmLab) -> list[float]:
    """Let a job for 200 W wait behind one that has the whole pool and is in its last minute; when it started too soon.

    The queue holds jobs for nodes that another one keeps all day, so that a cycle of backfill takes a while.
    """
    lab.submit("-N4", "-p", "p1", "-t", "600", seconds=36_000)
    wait_for("the job that keeps the nodes", lambda: "RUNNING" in lab.states().values())
    for _ in range(ARRAYS):
        lab.submit(f"--array=1-{EACH}", "-N1", "-p", "p1", "-t", "1")
    found: list[float] = []
    for _ in range(MINUTES):
        whole = lab.submit("-N1", "-p", "p2", "-t", "1", "-L", f"watts:{POOL_W}", seconds=75)
        lab.run(["scontrol", "update", f"JobId={whole}", "Priority=4294967290"])
        lab.wait_states([whole], ["RUNNING"])
        behind = lab.submit("-N1", "-p", "p2", "-t", "5", "-L", "watts:200", seconds=3)
        while lab.field(behind, "JobState") in ("PENDING", "RUNNING"):
            if running_w(lab) > POOL_W:
                found.append(time.time())
                lab.run(["scancel", behind])
            time.sleep(0.2)
        lab.run(["scancel", whole], check=False)
        lab.wait_states([whole], ["CANCELLED", "TIMEOUT", "COMPLETED"])
    return found


@pytest.mark.parametrize("licences", [False, True])
def test_a_job_waits_until_one_in_its_last_minute_has_ended(
    slurm_release: str, lab_folder: Path, record_property: Record, licences: bool
) -> None:
    """Without ``bf_licenses`` it does. With it backfill counts a job as ended at the whole minute before its limit.

    Seen where a cycle of backfill began before that minute and reached the waiting job after it.
    """
    scheduler = SCHEDULER + (",bf_licenses" if licences else "")
    lab = lab_of(
        slurm_release, lab_folder, TRIVIAL, POOL_W, scheduler=scheduler,
        extra=["MaxArraySize=2000", "MaxJobCount=20000"],
    )  # fmt: skip
    try:
        lab.up()
        found = excesses(lab)
    finally:
        lab.down()
    record_property("excesses", len(found))
    sys.stderr.write(f"Slurm {slurm_release}, bf_licenses {licences}: {len(found)} excesses in {MINUTES} minutes\n")
    assert all(at_s % 60.0 < 10.0 for at_s in found), "as a minute changes"
    if not licences:
        assert found == []
