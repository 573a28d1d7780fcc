"""A guard and a planner as two processes of two accounts, on a real Slurm: work gets done, and either may die."""

from __future__ import annotations

import json
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.guard.site import PLANNER, GuardedSite
from tests.live.rounds import Counted, queue_up, rising_later, time_rounds
from tests.live.site import NET_W, TOTAL_W, as_account, cap_text, eamc_machine
from tests.live.slurmlab import OPERATOR, PATIENCE_S, SlurmLab, wait_for
from wattqueue.live.files.status import RunDir
from wattqueue.live.guard.audit_check import check_audit
from wattqueue.live.guard.client import GuardConnection, GuardedCommands, GuardedRunDir, GuardWriter
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, read_data

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-3")]


@pytest.fixture
def guarded(driven: SlurmLab) -> Iterator[GuardedSite]:
    driven.clear()
    site = GuardedSite(driven)
    for old in (site.root / "live").glob("*"):
        if old.is_file():
            old.unlink()
        elif old.name == "planner":
            shutil.rmtree(old)
        for kept in old.glob("*") if old.name == "run" else ():
            if kept.name != SUBMIT_DATA:  # of job_submit.lua: without it nothing is held
                kept.unlink()
    yield site
    if site.child is not None:
        site.child.send_signal(signal.SIGCONT)
    site.stop()
    site.stop_guard()


def test_work_gets_done_and_the_cap_holds(guarded: GuardedSite) -> None:
    guarded.begin_both(cap_text(600))
    jobs = [guarded.lab.submit("-N1", "-p", "p1", "--wrap=sleep 1") for _ in range(8)]
    assert guarded.wait_ended(jobs, 600) > 0
    path = guarded.root / "live/run/audit.jsonl"
    assert check_audit(path.parent).problem == ""
    kinds = [json.loads(line).get("kind") for line in path.read_text().splitlines()]
    assert kinds.count("release") >= 8
    assert "pool" in kinds


def test_the_planner_itself_has_no_rights(guarded: GuardedSite) -> None:
    guarded.begin_both(cap_text(600))
    job = guarded.lab.submit("-H", "-N1", "-p", "p1", "--wrap=sleep 1")
    scontrol = f"{guarded.lab.bin_dir}/scontrol" if guarded.lab.bin_dir else "scontrol"
    code = f"import subprocess,sys; sys.exit(subprocess.call([{scontrol!r}, 'release', {job!r}]))"
    env = {**guarded.env, "SLURM_CONF": f"{guarded.root}/etc/slurm.conf"}
    assert subprocess.run(as_account(PLANNER, "-c", code), env=env, check=False, capture_output=True).returncode != 0
    # nor may it write what the guard writes
    for name in ("beat", "lease", "audit.jsonl", "withheld"):
        owner = (guarded.root / "live/run" / name).stat()
        assert owner.st_uid == pwd.getpwnam(OPERATOR).pw_uid, name
        assert owner.st_mode & 0o022 == 0, name
    # another account than the planner's gets no answer
    ask = (
        "from pathlib import Path; from wattqueue.live.guard.client import *; "
        f"GuardedCommands(GuardConnection(Path({str(guarded.root / 'live/run/socket')!r}))).run(('squeue',))"
    )
    done = subprocess.run(as_account("man", "-c", ask), env=guarded.env, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "guard" in done.stderr


def test_the_data_file_of_the_submit_script_is_kept(guarded: GuardedSite) -> None:
    """It is written for a planner that could not write it, and jobs carry what it says."""
    path = guarded.root / "live/run" / SUBMIT_DATA
    path.write_text("of another time\n")
    guarded.begin_both(cap_text(800))
    wait_for("the data file", lambda: not isinstance(read_data(path), str), step_s=0.2)
    found = read_data(path)
    assert not isinstance(found, str)
    assert re.findall(r"^partition (p\S+) ([0-9]+) ", found.body, re.MULTILINE) == [
        ("p1", str(NET_W)),
        ("p2", str(NET_W)),
    ]
    assert path.stat().st_uid == pwd.getpwnam(OPERATOR).pw_uid
    assert not list(path.parent.glob(".*.part"))
    job = guarded.gated("-N2", "-p", "p1")
    guarded.wait_running([job])
    assert guarded.used_w()[0] == 2 * NET_W
    guarded.open_gate(job)


def test_a_planner_that_dies_is_taken_over_by_the_release(guarded: GuardedSite) -> None:
    config, _ = guarded.begin_both(cap_text(400))
    runs = guarded.gated("-N2", "-p", "p1")
    guarded.wait_running([runs])
    guarded.kill()
    waits = guarded.gated("-N1", "-p", "p1")  # held for a controller that does nothing any more
    wait_for("an old heartbeat", lambda: guarded.beat_age_s() > 6.0, step_s=0.2)
    done = guarded.release(config)
    assert done.returncode == 0, done.stderr
    guarded.open_gate(runs)
    guarded.wait_started([waits])  # nothing is held for ever
    guarded.open_gate(waits)
    assert guarded.guard is not None
    guarded.guard.wait(PATIENCE_S)  # it has lost the right to write, and ends


def test_a_guard_that_dies_starts_nothing_twice_and_goes_on(guarded: GuardedSite) -> None:
    _, file = guarded.begin_both(cap_text(400))
    first = [guarded.gated("-N1", "-p", "p1") for _ in range(2)]
    guarded.wait_running(first)
    assert guarded.guard is not None
    guarded.guard.kill()
    guarded.guard.wait(60.0)
    more = [guarded.gated("-N1", "-p", "p1") for _ in range(2)]
    guarded.start_guard(file)
    guarded.require_up()
    guarded.open_gate(*first)
    guarded.wait_running(more)
    assert guarded.used_w()[0] <= 400
    guarded.open_gate(*more)
    assert check_audit(guarded.root / "live/run").problem == ""


def test_a_guard_that_stands_still_and_goes_on(guarded: GuardedSite) -> None:
    guarded.begin_both(cap_text(400))
    assert guarded.guard is not None
    guarded.guard.send_signal(signal.SIGSTOP)
    jobs = [guarded.gated("-N1", "-p", "p1") for _ in range(2)]
    guarded.guard.send_signal(signal.SIGCONT)
    guarded.wait_running(jobs)
    guarded.open_gate(*jobs)


AWAY = {
    "the guard stands still": (signal.SIGSTOP, ("guard",)),
    "the planner stands still": (signal.SIGSTOP, ("planner",)),
    "both stand still": (signal.SIGSTOP, ("guard", "planner")),
    "both are killed": (signal.SIGKILL, ("guard", "planner")),
}


@pytest.mark.parametrize(("number", "names"), AWAY.values(), ids=AWAY)
def test_whoever_is_away_for_long_holds_nothing_and_work_goes_on_afterwards(
    guarded: GuardedSite, number: signal.Signals, names: tuple[str, ...]
) -> None:
    """Nothing is held for ever, and what resumes starts nothing: the guard ends, and the next one goes on."""
    config, file = guarded.begin_both(cap_text(400))
    runs = guarded.gated("-N2", "-p", "p1")
    guarded.wait_running([runs])
    guard, planner = guarded.guard, guarded.child
    assert guard is not None
    assert planner is not None
    processes = [{"guard": guard, "planner": planner}[name] for name in names]
    for process in processes:
        process.send_signal(number)
    waits = guarded.gated("-N2", "-p", "p1")  # held for a controller that does nothing
    wait_for("an old heartbeat", lambda: guarded.beat_age_s() > 6.0, step_s=0.2)
    done = guarded.release(config)
    assert done.returncode == 0, done.stderr
    assert guarded.used_w()[0] <= 400
    guarded.open_gate(runs)
    guarded.wait_started([waits])
    for process in processes:
        process.send_signal(signal.SIGCONT)
    guard.wait(PATIENCE_S)  # its right to write was taken over
    guarded.start_guard(file)
    if number == signal.SIGKILL:
        planner.wait(PATIENCE_S)
        guarded.start(config)
    more = [guarded.gated("-N1", "-p", "p2") for _ in range(2)]
    guarded.open_gate(waits)
    guarded.wait_running(more)
    assert guarded.used_w()[0] <= 400
    guarded.open_gate(*more)
    for job in (runs, waits, *more):
        assert guarded.lab.field(job, "Restarts") == "0"
    assert check_audit(guarded.root / "live/run").problem == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_takes_over_behind_the_same_guard(guarded: GuardedSite, number: signal.Signals) -> None:
    """It has run folder and host name of its own, as on another host. The first one ends when it resumes."""
    config, _ = guarded.begin_both(cap_text(400))
    first = guarded.gated("-N1", "-p", "p1")
    guarded.wait_running([first])
    other = config.with_name("standby.toml")
    other.write_text(config.read_text().replace('"planner/run"', '"planner/run2"'))
    at_work = guarded.child
    assert at_work is not None
    guarded.start_standby(other)
    wait_for("the standby", lambda: "standby: at work is" in guarded.log.read_text(), step_s=0.2)
    at_work.send_signal(number)
    waits = [guarded.gated("-N1", "-p", "p2") for _ in range(2)]
    guarded.open_gate(first)
    guarded.wait_running(waits)
    assert guarded.used_w()[0] <= 400
    if number == signal.SIGSTOP:
        at_work.send_signal(signal.SIGCONT)
    assert at_work.wait(PATIENCE_S) != 0, "it has lost the lease of the database"
    more = guarded.gated("-N1", "-p", "p1")
    guarded.open_gate(*waits)
    guarded.wait_running([more])
    guarded.open_gate(more)
    for job in (first, *waits, more):
        assert guarded.lab.field(job, "Restarts") == "0"
    assert guarded.guard is not None
    assert guarded.guard.poll() is None, "the guard serves on"
    assert check_audit(guarded.root / "live/run").problem == ""


def test_a_cap_that_falls_lowers_the_pool_without_a_planner(guarded: GuardedSite) -> None:
    guarded.begin_both(cap_text(800))
    guarded.wait_open(800)
    guarded.kill()
    (guarded.root / "live/cap.csv").write_text("time_s,cap_w\n0,1000\n")
    wait_for("a lower pool", lambda: TOTAL_W - guarded.used_w()[1] == 200, step_s=0.2)
    lines = [json.loads(line) for line in (guarded.root / "live/run/audit.jsonl").read_text().splitlines()]
    assert "the cap that the guard reads" in [line.get("why") for line in lines]


def test_jobs_run_at_the_frequencies_that_the_guard_writes(guarded: GuardedSite) -> None:
    """The planner ends at its start until guard.toml states what its row needs; then every job gets a frequency."""
    home, lab = guarded.root / "live", guarded.lab
    config, file = guarded.configure_both(
        f"{8 * 300 + TOTAL_W}W", machine=eamc_machine(), policy="eamc-priority-inc", frequency_dir=str(home / "freq")
    )
    plain = file.read_text().replace("without_jobs_w = 800", "without_jobs_w = 2400")
    file.write_text(plain)
    guarded.start_guard(file)
    guarded.start(config)
    assert guarded.child is not None
    assert guarded.child.wait(PATIENCE_S) != 0
    assert 'state accepted = ["estimates"] in guard.toml' in guarded.log.read_text()
    guarded.child = None
    guarded.stop_guard()
    accepts = 'accepted = ["estimates", "frequencies"]\nlast_resort = ["frequency"]\n'
    file.write_text(f'{accepts}{plain}frequency_dir = "{home}/freq"\n')
    guarded.start_guard(file)
    guarded.start(config)
    guarded.wait_up(time.time())
    wrap = "--wrap=srun --cpu-bind=none true; sleep 1"
    jobs = [lab.submit("-N1", "-p", "p1,p2", "-J", app, wrap) for app in "12345678"]
    guarded.wait_ended(jobs, TOTAL_W)
    rows = [json.loads(line) for line in (home / "run/audit.jsonl").read_text().splitlines()]
    chosen = {
        row["target"]: int(row["after"]) for row in rows if row.get("kind") == "frequency" and row["after"] != "0"
    }
    assert set(chosen) == set(jobs)
    assert len(set(chosen.values())) > 1

    def steps() -> dict[str, str]:
        ran = lab.run(["sacct", "-n", "-P", "-o", "JobID,ReqCPUFreqMax", "-j", ",".join(jobs)]).out.split()
        return dict(line.split("|") for line in ran)

    wait_for("the steps in the accounting", lambda: {f"{job}.0" for job in jobs} <= steps().keys())
    for job in jobs:
        assert round(float(steps()[f"{job}.0"].rstrip("MG")) * 1e3) == round(chosen[job] / 1e3)


@pytest.mark.slow
def test_rounds_of_two_thousand_queued(
    guarded: GuardedSite, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What rounds take behind the guard, and without it: recorded, not asserted. Jobs go on to start in both."""
    queue_up(guarded, 2000, nodes=1, seconds=2)
    guarded.end_beating()
    _, guard = guarded.configure_both(cap_text(0))
    cap_file = guarded.root / "live/cap.csv"
    for name, room_w in (("waiting", 50.0), ("starting", 800.0)):
        cap_file.write_text(f"time_s,cap_w\n0,{8 * 100.0 + room_w}\n")
        for behind in (False, True):
            folder = tmp_path / f"{name}-{behind}"
            folder.mkdir()
            if behind:
                guarded.start_guard(guard)
            connection = GuardConnection(guarded.root / "live/run/socket")
            slurm = Counted(GuardedCommands(connection) if behind else guarded.lab.commands)
            cluster = SlurmCluster(slurm, writer=GuardWriter(connection) if behind else None)
            controller = make_controller(
                cluster, folder, time.time, cap=rising_later(room_w), machine=lab_machine(), checked=False
            )
            signs = GuardedRunDir(folder, guard=connection) if behind else RunDir(folder)
            took = time_rounds(controller, slurm, partial(signs.beat, "control", time.time(), 1.0))
            controller.audit.engine.dispose()
            connection.close()
            guarded.stop_guard()
            record_property(f"{name}, {'guard' if behind else 'direct'}", asdict(took))
            assert (took.writes == 0) == (name == "waiting")
