"""The controller over a real Slurm: the budget, the order, two partitions, crashes of either side."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest

from tests.live.site import TOTAL_W, Site, as_operator, cap_text
from tests.live.slurmlab import USER, SlurmLab, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]


def fill(lab: SlurmLab, count: int, seed: int) -> list[str]:
    random_ = random.Random(seed)
    jobs = []
    for _ in range(count):
        nodes, seconds = random_.choice([1, 1, 2]), random_.uniform(0.2, 1.5)
        jobs.append(lab.submit(f"-N{nodes}", "-t", "1", "-p", random_.choice(["p1", "p2", "p1,p2"]), seconds=seconds))
    return jobs


def test_forty_jobs_under_a_cap(site: Site) -> None:
    """Never more watts admitted than the cap, every job ends, each ran once, and its views replay byte for byte."""
    site.start(site.configure(cap_text(1000)))
    site.wait_up()
    jobs = fill(site.lab, 40, 1)
    peak = site.wait_ended(jobs, 1000)
    assert peak >= 800
    assert set(site.starts(jobs).values()) == {1}
    assert site.used_w() == (0, TOTAL_W - 1000)
    site.stop()
    rows = site.check_audit()
    assert {r["who"].partition("/")[0] for r in rows} == {"controller"}
    from wattqueue.live.recording import replay

    lines = list(replay(site.root / "live/views.jsonl"))
    assert len(lines) > 10
    assert all(recorded == again for _, recorded, again in lines)


def test_the_order_is_that_of_easy(site: Site) -> None:
    site.start(site.configure(cap_text(800)))
    site.wait_up()
    lab = site.lab
    blocker = lab.submit("-N3", "-t", "1", "-p", "p1", seconds=6)
    lab.wait_states([blocker], ["RUNNING"])
    wide = lab.submit("-N4", "-t", "1", "-p", "p2", seconds=1)
    long = lab.submit("-N1", "-t", "30", "-p", "p1", seconds=1)
    narrow = lab.submit("-N1", "-t", "1", "-p", "p1", seconds=1)
    site.wait_ended([blocker, wide, long, narrow], 800)
    text = lab.run(["squeue", "-h", "-t", "all", "-o", "%i|%S"], env={"SLURM_TIME_FORMAT": "%s"}).out
    begin = {line.split("|")[0]: float(line.split("|")[1]) for line in text.splitlines()}
    assert begin[wide] <= begin[long], "the long job would have delayed the wide one"


def test_cap_lowered_and_raised_midway(site: Site) -> None:
    now = time.time()
    (site.root / "live/cap.csv").write_text(f"time_s,cap_w\n0,1800\n{now + 14},1200\n{now + 24},2400\n")
    site.start(site.configure("cap.csv"))
    site.wait_up()
    jobs = [site.lab.submit("-N1", "-t", "1", "-p", "p1,p2", seconds=1.5) for _ in range(60)]
    seen: list[tuple[float, int, int]] = []

    def done() -> bool:
        used, aside = site.used_w()
        seen.append((time.time() - now, used, TOTAL_W - aside))
        states = site.lab.states()
        return all(states.get(job) in ("COMPLETED", "COMPLETING") for job in jobs)

    wait_for("60 jobs to end", done, 90.0, 0.1)
    assert {open_w for t, _, open_w in seen if 16 < t < 23.5} == {400}
    assert max(used for t, used, _ in seen if 18.5 < t < 23.5) <= 400
    assert max(used for t, used, _ in seen if t < 14) <= 1000
    assert site.used_w() == (0, 0), "the whole pool is open again, no reservation stands"


def check_crashes(site: Site, rounds: int, seed: int) -> None:
    """SIGKILL the controller at random points of its work, start it again, and see that all comes right."""
    random_ = random.Random(seed)
    config = site.configure(cap_text(1000))
    site.start(config)
    site.wait_up()
    jobs = fill(site.lab, 6, seed)
    peak = 0
    for _ in range(rounds):
        jobs += fill(site.lab, 3, random_.randrange(10**6))
        time.sleep(random_.uniform(0.05, 1.2))
        peak = max(peak, site.used_w()[0])
        site.kill()
        site.start(config)
        site.wait_up()
    peak = max(peak, site.wait_ended(jobs, 1000))
    assert peak <= 1000
    assert set(site.starts(jobs).values()) == {1}, "no double action"
    site.stop()
    site.check_audit()


def test_killed_at_random_points(site: Site) -> None:
    check_crashes(site, 5, 11)


@pytest.mark.slow
def test_killed_at_fifty_random_points(site: Site) -> None:
    check_crashes(site, 50, 12)


# Slow until it is understood: it passed several times, and once not all jobs had ended 120 s after the kill.
@pytest.mark.slow
def test_slurmctld_restarted_and_killed_right_after_a_submit(site: Site) -> None:
    site.start(site.configure(cap_text(1000)))
    site.wait_up()
    jobs = fill(site.lab, 8, 3)
    site.lab.restart_controller()
    site.lab.wait_idle_or_busy()
    more = fill(site.lab, 3, 4)
    time.sleep(0.4)
    site.lab.restart_controller(crash=True)
    site.lab.wait_idle_or_busy()
    after = fill(site.lab, 4, 5)
    known = site.lab.states()
    kept = [j for j in dict.fromkeys([*jobs, *more, *after]) if j in known]
    assert set(after) <= set(kept)
    site.wait_ended(kept, 1000)
    site.stop()
    site.check_audit()


def test_away_longer_than_stated_slurm_schedules_alone_under_the_pool(site: Site) -> None:
    config = site.configure(cap_text(600))
    site.start(config)
    site.wait_up()
    wait_for("the pool to be set", lambda: site.used_w()[1] == TOTAL_W - 600)
    site.lab.run(["scancel", "--state=PENDING", "-u", USER], check=False)
    os.kill(site.child.pid if site.child else 0, signal.SIGSTOP)
    jobs = [site.lab.submit("-N1", "-t", "1", "-p", "p2", seconds=2) for _ in range(6)]
    assert {site.lab.field(j, "Reason") for j in jobs} == {"JobHeldUser"}
    site.kill()
    argv = as_operator("live", "release", "--config", str(config))
    early = subprocess.run(argv, env=site.env, capture_output=True, text=True, timeout=60, check=True)
    assert early.stdout.strip() == "released 0 jobs", "its beat is young"
    time.sleep(5.5)
    late = subprocess.run(argv, env=site.env, capture_output=True, text=True, timeout=60, check=True)
    assert late.stdout.strip() == "released 6 jobs"
    alone = site.lab.submit("-N1", "-t", "1", "-p", "p1", seconds=1)
    assert site.lab.field(alone, "Reason") != "JobHeldUser", "without a beat nothing is held"
    assert site.wait_ended([*jobs, alone], 600) == 600


def test_a_user_reads_neither_state_nor_audit(site: Site) -> None:
    site.start(site.configure(cap_text(600)))
    site.wait_up()
    home = site.root / "live"
    for file in ("wattqueue-live.db", "views.jsonl", "run/audit.head"):
        wait_for(file, (home / file).exists, 10.0)
        done = site.lab.run(["cat", str(home / file)], user=USER, check=False)
        assert "Permission denied" in done.err
    done = site.lab.run(["touch", str(home / "run/beat")], user=USER, check=False)
    assert done.code != 0


def eamc_machine() -> str:
    """Paper 1's first two partitions, four nodes each, with the watts that the lab's script declares."""
    parts = []
    for name, frequencies in (("p1", (2.7e9, 2.4e9, 2.1e9, 1.8e9)), ("p2", (3.1e9, 2.7e9, 2.4e9, 2.1e9))):
        parts.append(
            f'[[partitions]]\nname = "{name}"\nnodes = 4\nfrequencies_hz = {list(frequencies)}\n'
            "idle_w = 300.0\nmax_w = 500.0\n"
        )
    return 'name = "eamc-lab"\n' + "\n".join(parts)


def test_eamc_gives_each_job_one_partition_and_one_frequency_that_reaches_its_step(site: Site) -> None:
    home, lab = site.root / "live", site.lab
    cap = f"{8 * 300 + TOTAL_W}W"
    config = site.configure(
        cap, machine=eamc_machine(), policy="eamc-priority-inc", frequency_dir=str(home / "freq"), away_s=5.0
    )
    site.start(config)
    site.wait_up()
    wrap = "--wrap=srun --cpu-bind=none true; sleep 1"
    jobs = [lab.submit("-N1", "-t", "2", "-p", "p1,p2", "-J", app, wrap, seconds=0) for app in "12345678"]
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
    ran = lab.run(["sacct", "-n", "-P", "-o", "JobID,ReqCPUFreqMax", "-j", ",".join(jobs)]).out.split()
    steps = dict(line.split("|") for line in ran)
    for job in jobs:
        assert round(float(steps[f"{job}.0"].rstrip("MG")) * 1e3) == round(chosen[job] / 1e3)
    assert len(set(chosen.values())) > 1
