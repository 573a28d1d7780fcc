"""Holds, ranges, heterogeneous jobs, requeues and the release fall-back over a real Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.live.site import NET_W, TOTAL_W, Site, cap_text
from tests.live.slurmlab import USER, LabError, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]


def nodes_of(site: Site, job: str) -> int:
    return int(site.lab.run(["squeue", "-h", "-j", job, "-o", "%D"]).out.split()[0])


def watts_of(site: Site, job: str) -> int:
    return int(site.lab.field(job, "Licenses").rpartition("watts:")[2])


def test_a_range_of_nodes_holds_the_watts_of_what_it_gets(site: Site) -> None:
    """``-N 1-4`` (800 W at most) under 600 W gets three nodes and 600 W; the next one gets what is left, or waits."""
    site.begin(cap_text(600))
    first = site.gated("-N", "1-4", "-p", "p1")
    site.wait_running([first])
    assert (nodes_of(site, first), watts_of(site, first)) == (3, 3 * NET_W)
    second = site.gated("-N", "1-4", "-p", "p2")
    time.sleep(2.0)
    assert site.running() == [first]
    site.open_gate(first)
    site.wait_running([second])
    assert nodes_of(site, second) * NET_W == watts_of(site, second) <= 600
    site.open_gate(second)


def test_what_a_user_releases_takes_its_place_in_the_policys_order(site: Site) -> None:
    """Submitted held, released by its user while nothing fits: it neither runs first nor is forgotten."""
    site.begin(cap_text(200))
    blocker = site.gated("-N1", "-p", "p1")
    site.wait_running([blocker])
    waiting = site.gated("-N1", "-p", "p1")
    held = site.lab.submit("-H", "-N1", "-p", "p1", seconds=0.2, user=USER)
    wait_for("the mark", lambda: "user-held" in site.lab.field(held, "AdminComment"))
    time.sleep(1.0)
    site.open_gate(blocker)
    site.wait_running([waiting])
    assert site.lab.field(held, "Reason") == "JobHeldUser", "its user's hold is respected"
    late = site.lab.submit("-N1", "-p", "p1", seconds=0.2)
    site.lab.run(["scontrol", "update", f"JobId={held}", "AdminComment=checked"])
    site.lab.run(["scontrol", "update", f"JobId={late}", "AdminComment=checked"])
    site.lab.run(["scontrol", "release", held], user=USER)
    wait_for("its adoption", lambda: site.lab.field(held, "Reason") == "JobHeldAdmin", step_s=0.1)
    assert site.running() == [waiting]
    site.open_gate(waiting)
    site.lab.wait_states([held, late], ["COMPLETED"])
    site.stop()
    rows = [r for r in site.check_audit() if r["event"] == "intend"]
    assert [r["target"] for r in rows if r["kind"] == "hold"] == [held]


def test_a_heterogeneous_job_runs_to_its_end_beside_others(site: Site) -> None:
    """Slurm takes watts on its first component alone; the controller gives the other its own before it may start."""
    site.begin(cap_text(600))
    job = site.lab.submit("-N1", "-p", "p1", ":", "-N1", "-p", "p2", seconds=2.0)
    other = site.lab.submit("-N1", "-p", "p1", seconds=0.2)
    parts = [f"{job}+0", f"{job}+1"]
    site.lab.wait_states(parts, ["RUNNING", "COMPLETING", "COMPLETED"])
    site.lab.wait_states([*parts, other], ["COMPLETED"])
    assert site.used_w()[0] == 0
    site.stop()
    released = [r["target"] for r in site.check_audit() if r["event"] == "intend" and r["kind"] == "release"]
    assert sorted(released) == sorted([job, other]), "both parts by one command"
    assert [site.lab.field(part, "Licenses") for part in parts] == [f"watts:{NET_W}"] * 2


def run_again(site: Site, job: str) -> None:
    """Lift the delay of a requeued job and wait until it runs; a start that failed is released, as a person would.

    On a busy machine a node may miss the message that starts the job. Slurm then holds the job as "launch failed
    requeued held" with a new delay, and the controller leaves it held by design: it cannot know what is broken.
    The delay is lifted where there is one, once: each change is one more of the job that the controller changes. Not
    at once: Slurm's credentials have whole seconds, and a slurmd does not start a job in the second in which it ended
    it ("already killed, do not launch"). Slurm then ends the job as FAILED ("Job credential revoked").
    """
    shown: list[str] = []
    time.sleep(2.0)

    def runs() -> bool:
        site.require_up()
        row = site.lab.run(["squeue", "-h", "-j", job, "-O", "State:|,Reason:|,StartTime:|,Licenses:|,NodeList:"]).out
        if not shown or shown[-1] != row:
            shown.append(row)
        if not row:
            raise LabError(f"job {job} ended as {site.lab.field(job, 'JobState')}")
        if site.lab.field(job, "Reason") == "launch_failed_requeued_held":
            sys.stderr.write(f"job {job}: {site.lab.field(job, 'Reason')}, released\n")
            site.lab.run(["scontrol", "release", job])
        if row.startswith("PENDING") and time.time() < float(site.lab.field(job, "StartTime", epoch=True) or 0):
            site.lab.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=False)
        return row.startswith("RUNNING")

    try:
        wait_for(f"job {job} to run again", runs, step_s=1.0)
    except LabError as error:
        writes = [{k: r[k] for k in ("event", "kind", "target", "after", "why")} for r in site.check_audit()[-20:]]
        raise LabError(f"{error}\n{''.join(shown)}\n{site.said()}\n{writes}") from error


def test_a_requeued_job_waits_is_adopted_and_holds_its_watts_again(site: Site) -> None:
    site.begin(cap_text(400))
    job = site.gated("-N2", "-p", "p1")
    site.wait_running([job])
    site.lab.run(["scontrol", "requeue", job])
    wait_for("its adoption", lambda: site.lab.field(job, "Reason").startswith("JobHeld"), step_s=0.1)
    site.lab.wait_idle()  # a start on a node that still ends the run before fails, and Slurm then holds the job
    run_again(site, job)
    site.wait_used(400)
    site.stop()
    site.check_audit()
    lines = [line for line in (site.root / "log/slurmctld.log").read_text().splitlines() if f"JobId={job}" in line]
    assert [line for line in lines if "watts:401" in line or "watts:399" in line], "another count first"
    site.open_gate(job)


def test_watts_that_slurm_returns_twice_are_withheld(site: Site, slurm_release: str) -> None:
    """A restart while a job completes: Slurm does not count that job's watts, and returns them all the same.

    From then on it counts less than running jobs hold, and would start as much more (22.05 and 24.11:
    ``_restore_job_accounting`` counts running jobs alone, ``cleanup_completing`` returns the licences of any).
    26.05 counts right, and nothing may be withheld.
    """
    lost = 0 if slurm_release == "26.05" else 200
    config = site.begin(cap_text(400))
    completes, runs = site.gated("-N1", "-p", "p1"), site.gated("-N1", "-p", "p1")
    site.wait_running([completes, runs])
    node = site.lab.field(completes, "NodeList")
    site.lab.kill_node(node)
    (site.root / "gates" / completes).touch()
    site.lab.wait_states([completes], ["COMPLETING"])
    site.lab.restart_controller()
    site.lab.start_node(node)
    site.lab.wait_states([completes], ["COMPLETED"])
    wait_for("the lost watts to be withheld", lambda: site.used_w() == (200 - lost, TOTAL_W - 400 + lost), step_s=0.1)
    pool, status = {"total": TOTAL_W, "open": 400, "used": 200, "uncounted": lost}, site.root / "live/run/status.json"
    wait_for("the status to say so", lambda: json.loads(status.read_text())["pool_w"] == pool, step_s=0.5)
    wide = site.gated("-N2", "-p", "p2")
    site.kill()
    site.lab.run(["scontrol", "release", wide])  # as an administrator may
    # 400 W of which one job holds 200 W; the node that was started again takes a moment to come back
    wait_for("the pool to hold it back", lambda: site.lab.field(wide, "Reason") == "Licenses", step_s=0.1)
    assert site.running() == [runs]
    site.open_gate(runs)
    site.start(config)
    site.wait_started([wide])
    site.wait_open(400)
    site.open_gate(wide)


def test_release_with_everything_broken_that_can_break(site: Site) -> None:
    """The controller is stopped and keeps its lock, its database is garbage, live.toml has a typing error."""
    config = site.begin(cap_text(200))
    blocker = site.gated("-N1", "-p", "p1")
    site.wait_running([blocker])
    jobs = [site.gated("-N1", "-p", "p2") for _ in range(3)]
    assert site.release(config).returncode == 3, "it is at work"
    assert site.child is not None
    os.kill(site.child.pid, signal.SIGSTOP)
    for file in (site.root / "live").glob("wattqueue-live.db*"):
        file.write_bytes(b"garbage" * 4096)
    config.write_text("cap = = 5\n" + config.read_text().replace('mode = "control"', 'mode = "contr'))
    site.set_beat(600.0)
    done = site.release(config)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("released 3 jobs")
    os.kill(site.child.pid, signal.SIGCONT)
    wait_for("the controller to stop", lambda: site.child is not None and site.child.poll() is not None, step_s=0.1)
    site.child = None
    reasons = {site.lab.field(job, "Reason") for job in jobs}
    assert not any(reason.startswith("JobHeld") for reason in reasons), "it held nothing again"
    site.open_gate(blocker)
    for job in jobs:
        site.wait_started([job])
        site.open_gate(job)


def test_a_full_state_disk_keeps_the_controller_and_what_it_holds(site: Site) -> None:
    """State and recording on a disk of their own that fills up: the controller lives, tells it, and lowers.

    The disk is filled to its last page and a start needs more than one in SQLite's log, so nothing starts.
    """
    home = site.root / "live"
    disk = home / "disk"
    disk.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0777", "none", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        cap = home / "cap.csv"
        cap.write_text("time_s,cap_w\n0,1200\n")
        config = site.configure("cap.csv", state=str(disk / "live.db"), record=str(disk / "views.jsonl"))
        config.write_text(config.read_text().replace('record = "views.jsonl"\n', "", 1))
        site.start(config)
        site.wait_up()
        running = site.gated("-N1", "-p", "p1")
        site.wait_running([running])
        fill = disk / "fill"
        with fill.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        waiting = site.gated("-N1", "-p", "p1")

        def problems() -> bool:
            return bool(json.loads((home / "run/status.json").read_text())["problems"])

        wait_for("the status to report it", problems, step_s=0.2)
        cap.write_text("time_s,cap_w\n0,900\n")
        site.wait_open(100)
        assert site.child is not None
        assert site.child.poll() is None
        assert site.running() == [running], "a start that cannot be stored does not happen"
        fill.unlink()
        cap.write_text("time_s,cap_w\n0,1200\n")
        site.wait_running([running, waiting])
        site.open_gate(running, waiting)
        site.stop()
    finally:
        site.stop()
        subprocess.run(["umount", "-l", str(disk)], check=True)
