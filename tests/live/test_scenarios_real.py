"""The controller over a real Slurm: the budget, the order, two partitions, crashes of either side."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest

from tests.live.site import TOTAL_W, Site, as_operator, cap_text, eamc_machine
from tests.live.slurmlab import PATIENCE_S, USER, LabError, SlurmLab, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]


def fill(lab: SlurmLab, count: int, seed: int) -> list[str]:
    random_ = random.Random(seed)
    jobs = []
    for _ in range(count):
        nodes, seconds = random_.choice([1, 1, 2]), random_.uniform(0.2, 1.5)
        jobs.append(lab.submit(f"-N{nodes}", "-t", "10", "-p", random_.choice(["p1", "p2", "p1,p2"]), seconds=seconds))
    return jobs


def test_forty_jobs_under_a_cap(site: Site) -> None:
    """Never more watts admitted than the cap, every job ends, each ran once, and its views replay byte for byte."""
    site.begin(cap_text(1000))
    first = [site.gated("-N1", "-p", "p1,p2") for _ in range(5)]
    site.lab.wait_states(first, ["RUNNING"])
    jobs = [*first, *fill(site.lab, 35, 1)]
    site.wait_used(1000)
    site.open_gate(*first)
    site.wait_ended(jobs, 1000)
    assert set(site.lab.launches(jobs).values()) == {1}
    assert site.used_w() == (0, TOTAL_W - 1000)
    site.stop()
    rows = site.check_audit()
    assert {r["who"].partition("/")[0] for r in rows} == {"controller"}
    from wattqueue.live.recordings.replay import replay

    lines = list(replay(site.root / "live/views.jsonl"))
    assert len(lines) > 10
    assert all(recorded == again for _, recorded, again in lines)


def test_the_order_is_that_of_easy(site: Site) -> None:
    site.begin(cap_text(800))
    lab = site.lab
    blocker = site.gated("-N3", "-t", "60", "-p", "p1")
    lab.wait_states([blocker], ["RUNNING"])
    wide = lab.submit("-N4", "-t", "60", "-p", "p2", seconds=1)
    long = lab.submit("-N1", "-t", "600", "-p", "p1", seconds=1)
    short = lab.submit("-N1", "-t", "20", "-p", "p1", seconds=1)
    lab.wait_states([short], ["COMPLETED"])
    assert {lab.states()[job] for job in (wide, long)} == {"PENDING"}
    site.open_gate(blocker)
    site.wait_ended([wide, long], 800)
    site.stop()
    released = [r["target"] for r in site.check_audit() if r["event"] == "intend" and r["kind"] == "release"]
    assert released == [blocker, short, wide, long], "the long job would have delayed the wide one"


def test_cap_lowered_and_raised_midway(site: Site) -> None:
    """The cap's file is written anew while jobs run: the pool follows, they run on, nothing more is admitted."""
    cap = site.root / "live/cap.csv"
    cap.write_text("time_s,cap_w\n0,1800\n")
    site.begin("cap.csv")
    jobs = [site.gated("-N1", "-p", "p1,p2") for _ in range(8)]
    site.wait_used(1000)
    running = site.running()
    cap.write_text("time_s,cap_w\n0,1200\n")
    site.wait_open(400)
    assert site.running() == running, "those that run run on"
    site.open_gate(*running[:3])
    assert site.used_w()[0] == 400, "five less three: nothing was admitted"
    site.open_gate(running[3])
    site.wait_used(400)
    cap.write_text("time_s,cap_w\n0,2400\n")
    site.wait_open(TOTAL_W)
    site.wait_started(jobs)
    site.open_gate(*jobs)
    assert site.used_w() == (0, 0), "the whole pool is open again, no reservation stands"
    assert set(site.lab.launches(jobs).values()) == {1}


def check_crashes(site: Site, rounds: int, seed: int) -> None:
    """SIGKILL the controller at random points of its work, start it again, and see that all comes right."""
    random_ = random.Random(seed)
    config = site.begin(cap_text(1000))
    jobs = fill(site.lab, 6, seed)
    peak = 0
    for _ in range(rounds):
        jobs += fill(site.lab, 3, random_.randrange(10**6))
        time.sleep(random_.uniform(0.05, 1.2))
        peak = max(peak, site.used_w()[0])
        site.kill()
        site.start(config)
        if random_.random() < 0.7:  # else it is killed while it starts
            site.wait_up()
    peak = max(peak, site.wait_ended(jobs, 1000))
    assert peak <= 1000
    assert set(site.lab.launches(jobs).values()) == {1}, "no double action"
    site.stop()
    site.check_audit()


def test_killed_at_random_points(site: Site) -> None:
    check_crashes(site, 5, 11)


@pytest.mark.slow
def test_killed_at_fifty_random_points(site: Site) -> None:
    check_crashes(site, 50, 12)


def updatable(lab: SlurmLab, job: str) -> bool:
    """Whether Slurm itself can still change a job: not where it lost the job's index in the accounting database.

    Slurm 22.05 saves jobs whose index is just being asked for as if the answer were still to come;
    after the restart it never does, and every update, hold and release is refused for ever, to root too.
    """
    return "DB index" not in lab.run(["scontrol", "update", f"JobId={job}", "Comment=x"], check=False).err


def test_slurmctld_restarted_and_killed_right_after_a_submit(site: Site) -> None:
    """What Slurm kept and can still change runs to its end under the cap; what it lost holds up nobody.

    A job that ended in the seconds before the kill is RUNNING in what slurmctld had saved, and stays so
    until its node registers anew or its limit is over: so a file that it wrote says that it ran.
    """
    site.begin(cap_text(1000))
    random_, ran = random.Random(3), site.root / "work"

    def submit(count: int, batch: str) -> dict[str, str]:
        """Jobs by the names of the files that they leave; ids are given out again."""
        names = [f"{batch}{i}" for i in range(count)]
        wraps = [("-J", name, f"--wrap=sleep {random_.uniform(0.2, 1.5)}; touch {ran}/{name}") for name in names]
        where = [("-N", random_.choice("112"), "-p", random_.choice(["p1", "p2", "p1,p2"])) for _ in names]
        return {n: site.lab.submit("-t", "1", *w, *wrap) for n, w, wrap in zip(names, where, wraps, strict=True)}

    jobs = submit(8, "first")
    site.lab.restart_controller()
    site.lab.wait_idle_or_busy()
    jobs |= submit(3, "second")
    time.sleep(0.4)
    site.lab.restart_controller(crash=True)
    site.lab.wait_idle_or_busy()
    kept = site.lab.job_names()
    after = submit(4, "third")
    lost = {name for name, job in jobs.items() if kept.get(job) != name}
    held = {name for name in jobs.keys() - lost if site.lab.field(jobs[name], "Reason").startswith("JobHeld")}
    fixed = {name for name in held if not updatable(site.lab, jobs[name])}
    wanted = (jobs.keys() | after.keys()) - lost - fixed
    peak = 0

    def done() -> bool:
        nonlocal peak
        peak = max(peak, site.used_w()[0])
        site.lab.resume_duplicates()
        return all((ran / name).exists() for name in wanted)

    try:
        wait_for("all jobs to have run", done, 3 * PATIENCE_S, 0.1)
    except LabError as error:
        missing = sorted(name for name in wanted if not (ran / name).exists())
        raise LabError(f"{error}\n{missing}\n{site.lab.jobs()}\n{site.said()}\n{site.lab.log_ends(40)}") from error
    assert peak <= 1000
    site.stop()
    site.check_audit()


def test_away_longer_than_stated_slurm_schedules_alone_under_the_pool(site: Site) -> None:
    config = site.begin(cap_text(600))
    site.wait_open(600)
    assert site.child is not None
    os.kill(site.child.pid, signal.SIGSTOP)
    site.keep_beating()
    jobs = [site.gated("-N1", "-p", "p2") for _ in range(4)]
    assert {site.lab.field(j, "Reason") for j in jobs} == {"JobHeldUser"}
    site.kill()
    argv = as_operator("live", "release", "--config", str(config))

    def release() -> tuple[int, str]:
        done = subprocess.run(argv, env=site.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return done.returncode, done.stdout.splitlines()[-1]

    code, told = release()
    assert (code, told.startswith("released 0 jobs")) == (3, True), "its heartbeat is young"
    site.set_beat(60.0)
    assert release() == (0, "released 4 jobs")
    site.wait_used(600)
    alone = site.gated("-N1", "-p", "p1")
    assert site.lab.field(alone, "Reason") != "JobHeldUser", "without a beat nothing is held"
    three = site.running()
    assert len(three) == 3
    site.open_gate(*three)
    site.wait_started([*jobs, alone])
    assert site.used_w() == (400, TOTAL_W - 600), "the pool stands as the controller left it"
    site.open_gate(*jobs, alone)


def test_a_user_reads_neither_state_nor_audit(site: Site) -> None:
    site.begin(cap_text(600))
    home = site.root / "live"
    for file in ("wattqueue-live.db", "views.jsonl", "run/audit.head"):
        wait_for(file, (home / file).exists)
        done = site.lab.run(["cat", str(home / file)], user=USER, check=False)
        assert "Permission denied" in done.err
    done = site.lab.run(["touch", str(home / "run/beat")], user=USER, check=False)
    assert done.code != 0


def test_eamc_gives_each_job_one_partition_and_one_frequency_that_reaches_its_step(site: Site) -> None:
    home, lab = site.root / "live", site.lab
    cap = f"{8 * 300 + TOTAL_W}W"
    config = site.configure(
        cap, machine=eamc_machine(), policy="eamc-priority-inc", frequency_dir=str(home / "freq"), away_s=5.0
    )
    site.start(config)
    site.wait_up()
    wrap = "--wrap=srun --cpu-bind=none true; sleep 1"
    jobs = [lab.submit("-N1", "-p", "p1,p2", "-J", app, wrap) for app in "12345678"]
    site.wait_ended(jobs, TOTAL_W)
    site.stop()
    rows = site.check_audit()
    chosen = {
        r["target"]: int(r["after"])
        for r in rows
        if r["event"] == "intend" and r["kind"] == "frequency" and r["after"] != "0"
    }
    assert set(chosen) == set(jobs), "every job got a frequency while it was held"
    where = dict(line.split("|") for line in lab.run(["squeue", "-h", "-t", "all", "-o", "%i|%P"]).out.split())
    assert {where[job] for job in jobs} == {"p1", "p2"}, "one partition each, and both are used"

    def steps() -> dict[str, str]:
        ran = lab.run(["sacct", "-n", "-P", "-o", "JobID,ReqCPUFreqMax", "-j", ",".join(jobs)]).out.split()
        return dict(line.split("|") for line in ran)

    wait_for("the steps in the accounting", lambda: {f"{job}.0" for job in jobs} <= steps().keys())
    for job in jobs:
        assert round(float(steps()[f"{job}.0"].rstrip("MG")) * 1e3) == round(chosen[job] / 1e3)
    assert len(set(chosen.values())) > 1
