"""Jobs that a real Slurm changes on its own: submitted while the controller is away, launched in vain, or dependent."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import pytest

from tests.live.site import Site, cap_text
from tests.live.slurmlab import wait_for
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.guard import without_watts

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]


@contextlib.contextmanager
def with_configuration(site: Site, old: str, new: str) -> Iterator[None]:
    """Let slurm.conf hold another text for a while; an empty ``old`` adds a line."""
    conf = site.root / "etc/slurm.conf"
    before = conf.read_text()
    conf.write_text(before.replace(old, new) if old else f"{before}{new}\n")
    site.lab.run(["scontrol", "reconfigure"])
    try:
        yield
    finally:
        conf.write_text(before)
        site.lab.run(["scontrol", "reconfigure"])


def status_problems(site: Site) -> str:
    """What the status file reports."""
    return " ".join(json.loads((site.root / "live/run/status.json").read_text())["problems"])


def test_jobs_submitted_while_the_controller_was_away_are_held_when_it_returns(site: Site) -> None:
    """They waited for Slurm alone; from then on the policy decides about them, and their watts were counted before."""
    config = site.begin(cap_text(200))
    site.wait_open(200)
    site.stop()
    runs = site.gated("-N1", "-p", "p1")
    site.wait_running([runs])
    waiting = [site.gated("-N1", "-p", name) for name in ("p1", "p2", "p1,p2")]
    waiting.append(site.lab.submit("-N1", "-p", "p2", "--array=1-2", seconds=0.1))
    assert all(site.lab.field(job, "Priority") != "0" for job in waiting)
    site.start(config)
    wait_for("their holds", lambda: {site.lab.field(job, "Priority") for job in waiting} == {"0"}, step_s=0.2)
    assert site.running() == [runs]
    site.open_gate(runs)
    site.wait_started(waiting[:1])
    site.open_gate(*waiting[:3])
    site.stop()
    held = {row["target"] for row in site.check_audit() if row["event"] == "intend" and row["kind"] == "hold"}
    assert held == {*waiting[:3], f"{waiting[3]}_1", f"{waiting[3]}_2"}


def test_a_job_whose_launch_failed_waits_for_a_person(site: Site) -> None:
    prolog, fails = site.root / "bin/node_prolog.sh", site.root / "bin/fails"
    prolog.write_text(f"#!/bin/sh\n[ ! -e {fails} ]\n")
    prolog.chmod(0o755)
    fails.touch()
    with with_configuration(site, "", f"Prolog={prolog}"):
        site.begin(cap_text(400))
        job = site.gated("-N1", "-p", "p1", "-w", "n2")
        wait_for("the failure", lambda: site.lab.field(job, "Reason") == "launch_failed_requeued_held")
        wait_for("the status to report it", lambda: "launch failed" in status_problems(site), step_s=0.2)
        fails.unlink()
        site.lab.run(["scontrol", "update", "NodeName=n2", "State=RESUME"])
        other = site.gated("-N1", "-p", "p1", "-w", "n2")
        site.wait_running([other])
        time.sleep(2.0)
        assert site.lab.field(job, "Reason") == "launch_failed_requeued_held", "nobody released it"
        site.open_gate(other)
        site.lab.run(["scontrol", "release", job])
        site.lab.run(["scontrol", "update", f"JobId={job}", "StartTime=now"])
        site.wait_running([job])
        site.open_gate(job)


def test_a_dependent_job_starts_soon_after_what_it_waited_for(site: Site) -> None:
    """slurmctld looks at the dependencies of held jobs once in sched_interval, 60 s on most sites.

    Here an hour: without the controller's own look these jobs would not start while the test waits.
    """
    with with_configuration(site, "sched_interval=1,", "sched_interval=3600,"):
        site.begin(cap_text(600))
        first = site.gated("-N1", "-p", "p1")
        good = site.lab.submit("-N1", "-p", "p1", "-d", f"afterok:{first}", seconds=0.1)
        never = site.lab.submit("-N1", "-p", "p1", "-d", f"afternotok:{first}", seconds=0.1)
        last = site.lab.submit("-N1", "-p", "p2", "-d", f"afterany:{first}:{good}", seconds=0.1)
        site.wait_running([first])
        (site.root / "gates" / first).touch()
        site.lab.wait_states([first], ["COMPLETED"])
        site.wait_started([good, last])
        assert site.lab.states()[never] == "PENDING"
        site.lab.run(["scancel", never])


def test_watts_are_taken_off_running_and_waiting_jobs_and_the_pool_is_opened(site: Site) -> None:
    """What ``live uninstall`` writes, by the controller's own account."""
    site.begin(cap_text(200))
    site.wait_open(200)
    site.stop()
    jobs = [site.gated("-N1", "-p", "p1") for _ in range(2)]
    site.wait_running(jobs[:1])
    cluster = SlurmCluster(site.lab.commands)
    writes = without_watts(cluster.observe())
    assert sorted(write.kind for write in writes) == ["pool", "update", "update"]
    for write in writes:
        cluster.apply(write)
    assert {site.lab.field(job, "Licenses") for job in jobs} <= {"", "(null)"}
    assert without_watts(cluster.observe()) == []
    site.wait_running(jobs)
    site.open_gate(*jobs)
