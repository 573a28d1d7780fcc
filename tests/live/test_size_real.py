"""A real Slurm with a thousand queued jobs: what a round does and what it costs, and names that would forge rows.

Seconds and shares of a core are recorded, not asserted: a busy machine would fail the test, not the controller. What is
asserted is what makes a round dear on any machine: how many commands it runs, and what it writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.rounds import Counted, queue_up, rising_later, time_rounds
from tests.live.site import Site, cap_text
from tests.live.slurmlab import wait_for
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.observe import Observer

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
Record = Callable[[str, object], None]
TICKS = os.sysconf("SC_CLK_TCK")


def commands(site: Site) -> Counted:
    return Counted(site.lab.commands)


def test_a_name_with_line_ends_forges_no_row(site: Site) -> None:
    site.keep_beating()
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


def test_a_thousand_queued(site: Site, tmp_path: Path, record_property: Record) -> None:
    """With nothing to change nothing is written, and a round runs a few commands, not one for each job."""
    queue_up(site, 1000)
    cap = rising_later(200.0)  # none of them fits, so that all go on waiting
    slurm = commands(site)
    controller = make_controller(SlurmCluster(slurm), tmp_path, time.time, cap=cap, machine=lab_machine())
    took: list[float] = []
    written: list[int] = []
    ran: list[int] = []
    for _ in range(4):
        slurm.names.clear()
        begin = time.perf_counter()
        report = controller.round()
        took.append(round(time.perf_counter() - begin, 3))
        ran.append(len(slurm.names))
        assert report is not None
        assert len(report.plan.waiting) == 1000
        written.append(len(report.outcomes))
    record_property("rounds_s", took)
    record_property("commands", ran)
    assert written == [1, 0, 0, 0], "the pool, once"
    assert max(ran[1:]) <= 8


@pytest.mark.slow
def test_rounds_of_two_thousand_queued(site: Site, tmp_path: Path, record_property: Record) -> None:
    """How long rounds take while nothing changes, and while jobs start and end; and the part that Slurm takes."""
    queue_up(site, 2000, nodes=1, seconds=2)
    slurm = commands(site)
    for name, room_w in (("waiting", 50.0), ("starting", 800.0)):
        folder = tmp_path / name
        controller = make_controller(
            SlurmCluster(slurm), folder, time.time, cap=rising_later(room_w), machine=lab_machine()
        )
        took = time_rounds(controller, slurm)
        controller.audit.engine.dispose()
        record_property(name, asdict(took))
        assert (took.writes == 0) == (name == "waiting")


def check_steady(site: Site, seconds: float, record_property: Record) -> None:
    """Nothing to change, nothing written, little memory; the share of a core that it takes is recorded."""
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
    record_property("share_of_a_core", round((after_s - before_s) / (time.monotonic() - begin), 4))
    record_property("resident_mb", round(resident_mb))
    assert len(site.check_audit()) == rows, "nothing to change, nothing written"
    assert resident_mb < 300


@pytest.mark.slow
def test_steady_for_a_minute(site: Site, record_property: Record) -> None:
    check_steady(site, 60.0, record_property)


def test_steady_for_some_seconds(site: Site, record_property: Record) -> None:
    check_steady(site, 5.0, record_property)


def test_a_slurmctld_that_is_gone_is_an_error_of_the_command(site: Site) -> None:
    """Commands that wait for a dead slurmctld are given up on by our own limit; the observer says so."""
    site.lab.kill_controller()
    try:
        with pytest.raises(SlurmError, match="no answer in 2 s"):
            Observer(replace(site.lab.commands, timeout_s=2.0), time.time).snapshot()
    finally:
        site.lab.start_controller()
        site.lab.wait_idle_or_busy()
