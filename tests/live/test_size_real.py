"""A real Slurm with a thousand queued jobs: how long a round takes, what it costs, and names that would forge rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.site import Site, cap_text
from tests.live.slurmlab import wait_for
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import Commands, SlurmError
from wattqueue.live.slurm.observe import Observer
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
TICKS = os.sysconf("SC_CLK_TCK")


def commands(site: Site) -> Commands:
    return Commands(environment={"SLURM_CONF": site.lab.env["SLURM_CONF"]})


def test_a_name_with_line_ends_forges_no_row(site: Site) -> None:
    site.beat_once()
    honest = site.lab.submit("-J", "honest", seconds=60)
    name = f"x\nJobId={honest} JobName=x Priority=7\n{honest}|{honest}|1|RUNNING|None|p1|4|4|1:00|watts:0|1|0|N/A|||"
    forger = site.lab.submit("-J", name, "--comment", "a\nb|c", "-D", "/", seconds=60)
    text = site.lab.run(["scontrol", "-o", "show", "job", forger]).out
    assert f"\nJobId={honest} " in text, "Slurm itself prints the forged row"
    seen = Observer(commands(site), time.time).snapshot()
    assert sorted(row.key.name for row in seen.jobs) == sorted([honest, forger])
    assert all(row.held and row.watts == 200 for row in seen.jobs)
    assert {seen.details[row.key].app for row in seen.jobs} == {"honest", name}
    assert seen.unreadable == ()


def cost(pid: int) -> tuple[float, float]:
    """Seconds of processor time of a process and the children it waited for, and its memory in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    seconds = sum(int(fields[i]) for i in (11, 12, 13, 14)) / TICKS
    status = Path(f"/proc/{pid}/status").read_text()
    resident = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    return seconds, resident / 1024


def queue_up(site: Site, count: int) -> None:
    """So many jobs wait for a node that one job holds."""
    site.beat_once()
    script = f"for i in $(seq {count}); do sbatch -Q -o /dev/null -N4 -t 60 -p p1 --wrap='sleep 60' || exit 1; "
    script += f"[ $((i % 100)) = 0 ] && echo control $(($(date +%s) + 180)) > {site.root}/live/run/beat; done"
    done = site.lab.run(["/bin/sh", "-c", f"{script}; true"], timeout_s=1200.0)
    assert done.code == 0


def test_a_thousand_queued(site: Site, tmp_path: Path, record_property: Record) -> None:
    """A full round can be had in under a second; with nothing to change nothing is written."""
    queue_up(site, 1000)
    cap = Cap.constant(8 * 100.0 + 200.0)  # none of them fits, so that all go on waiting
    controller = make_controller(SlurmCluster(commands(site)), tmp_path, time.time, cap=cap, machine=lab_machine())
    took: list[float] = []
    written = 0
    while len(took) < 6 or (min(took) >= 1.0 and len(took) < 60):  # a machine that is busy gets more tries
        begin = time.perf_counter()
        report = controller.round()
        took.append(time.perf_counter() - begin)
        assert report is not None
        assert len(report.plan.sorted.waiting) == 1000
        written += len(report.outcomes)
    record_property("rounds_s", [round(t, 3) for t in took])
    assert written == 1, "the pool, once"
    assert min(took) < 1.0


def check_steady(site: Site, seconds: float, record_property: Record) -> float:
    """Nothing to change, nothing written, little memory; the share of a core that it takes."""
    queue_up(site, 200)
    site.start(site.configure(cap_text(200), period_s=1.0))
    site.wait_open(200)
    assert site.child is not None
    wait_for("the pool's outcome in the audit log", lambda: site.check_audit()[-1]["event"] == "settle")
    rows = len(site.check_audit())
    before_s, _ = cost(site.child.pid)
    begin = time.monotonic()
    time.sleep(seconds)
    after_s, resident_mb = cost(site.child.pid)
    share = (after_s - before_s) / (time.monotonic() - begin)
    record_property("share_of_a_core", round(share, 4))
    record_property("resident_mb", round(resident_mb))
    assert len(site.check_audit()) == rows, "nothing to change, nothing written"
    assert resident_mb < 300
    return share


@pytest.mark.slow
def test_steady_for_a_minute(site: Site, record_property: Record) -> None:
    assert check_steady(site, 60.0, record_property) < 0.05


def test_steady_for_some_seconds(site: Site, record_property: Record) -> None:
    assert check_steady(site, 10.0, record_property) < 0.2, "a busy machine makes the same work dearer"


def test_a_slurmctld_that_is_gone_is_an_error_in_time(site: Site) -> None:
    """Commands that wait for a dead slurmctld are given up on; the observer says so."""
    site.lab.kill_controller()
    try:
        begin = time.monotonic()
        with pytest.raises(SlurmError):
            Observer(Commands(2.0, {"SLURM_CONF": site.lab.env["SLURM_CONF"]}), time.time).snapshot()
        assert time.monotonic() - begin < 60.0, "Slurm's own patience is longer"
    finally:
        site.lab.start_controller()
        site.lab.wait_idle_or_busy()
