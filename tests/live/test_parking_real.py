"""A load target on the real Slurm 22.05: consenting jobs are parked, others are not touched, and the cap holds."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.procs import states_of
from tests.live.site import Site, as_operator, cap_text
from tests.live.slurmlab import OPERATOR, USER, LabError, wait_for
from tests.live.test_holds_real import run_again
from tests.live.test_live_targets import Stated
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import ContinueJob, JobKey, StopJob
from wattqueue.live.consent_tags import CONSENT, NO_CONSENT
from wattqueue.live.planner import Rules
from wattqueue.live.reports.why import read_consent
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.writes import commands_of
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
IDLE_W, POOL_W = 800, 1600
CONFIG = "[consent]\nevery_s = 0.3"


@dataclass
class Watch:
    """Reads what jobs hold of the pool, again and again, and keeps what was too much."""

    site: Site
    limit_w: int = POOL_W
    polls: int = 0
    """Looks since the limit was moved."""
    above: list[tuple[int, int]] = field(default_factory=list)
    """Limit and watts that jobs held, where these were more."""
    end: threading.Event = field(default_factory=threading.Event)
    looking: threading.Lock = field(default_factory=threading.Lock)

    def move(self, limit_w: int) -> None:
        """Look at another limit; a look that is under way ends before."""
        with self.looking:
            self.limit_w, self.polls = limit_w, 0

    def poll(self) -> None:
        while not self.end.wait(0.1):
            with self.looking:
                used_w = self.site.used_w()[0]
                self.polls += 1
                if used_w > self.limit_w:
                    self.above.append((self.limit_w, used_w))


@pytest.fixture
def watch(site: Site) -> Iterator[Watch]:
    one = Watch(site)
    thread = threading.Thread(target=one.poll, daemon=True)
    thread.start()
    yield one
    one.end.set()
    thread.join()


def submit(site: Site, nodes: int, comment: str, partition: str = "p1", *more: str) -> str:
    """A job of a process on each node; one of them writes a line every 0.1 s, until the test opens its gate."""
    gates, ticks = site.root / "gates", site.root / "work"
    gates.mkdir(exist_ok=True, mode=0o755)
    loop = f"until [ -e {gates}/$SLURM_JOB_ID ]; do echo >> {ticks}/ticks.$SLURM_JOB_ID; sleep 0.1; done"
    return site.lab.submit(f"-N{nodes}", "-t", "10", "-p", partition, f"--comment={comment}", f"--wrap={loop}", *more)


def ticks(site: Site, job: str) -> int:
    return len((site.root / f"work/ticks.{job}").read_text())


def write_target(site: Site, begin_s: float, end_s: float, net_w: int) -> None:
    part = site.root / "live/targets.part"
    part.write_text(
        f"start_s,end_s,limit,unit,notice_s,correlation_id\n{begin_s},{end_s},{IDLE_W + net_w},W,3600,grid-7\n"
    )
    part.rename(site.root / "live/targets.csv")


def wait_state(site: Site, job: str, state: str) -> float:
    try:
        return wait_for(f"job {job} {state}", lambda: site.lab.states().get(job) == state, step_s=0.1)
    except LabError as error:
        raise LabError(f"{error}\n{site.said()}") from error


def process_states(site: Site, job: str) -> set[str]:
    """States of all processes of a job, of every node: the lab's are on this machine."""
    return states_of(str(site.root), f"SLURM_JOB_ID={job}")


def wait_still(site: Site, job: str) -> None:
    """Wait until every process of a job is stopped: squeue shows STOPPED before the signal has reached the nodes."""
    wait_for(f"processes of {job} to stand still", lambda: process_states(site, job) == {"T"})


def wait_work(site: Site, job: str) -> None:
    """Wait until a job does some work from now on."""
    before = ticks(site, job)
    wait_for(f"work of {job}", lambda: ticks(site, job) > before + 2)


def test_a_target_parks_consenting_jobs_alone_and_a_killed_controller_continues_them(site: Site, watch: Watch) -> None:
    site.keep_beating()
    config = site.configure(cap_text(POOL_W), policy="dr-parking", targets="targets.csv", slurm=CONFIG)
    stays, leaves, other = submit(site, 1, CONSENT), submit(site, 1, CONSENT), submit(site, 2, "no tag")
    site.start(config)
    site.wait_running([stays, leaves, other])

    # The target comes while the controller is away, and has begun when it is back.
    site.kill()
    now_s = time.time()
    write_target(site, now_s - 1.0, now_s + 600.0, 450)
    assert {site.lab.states()[job] for job in (stays, leaves, other)} == {"RUNNING"}
    site.start(config)
    for job in (stays, leaves):
        wait_state(site, job, "STOPPED")
        wait_still(site, job)
    site.wait_used(400)
    watch.move(450)
    done = {job: ticks(site, job) for job in (stays, leaves)}
    wait_work(site, other)
    nodes = {site.lab.field(job, "NodeList") for job in (stays, leaves)}
    assert {site.lab.node_states()[name] for name in nodes} == {"allocated"}, "their nodes stay their own"

    # Killed once more: nobody continues them, and the pool alone keeps a job from starting that Slurm may start.
    site.kill()
    site.set_beat(60.0)
    early = submit(site, 1, "no tag", "p2")
    assert site.lab.wait_considered(early) == "Licenses"
    site.lab.run(["scancel", early])
    site.keep_beating()
    late = submit(site, 1, "no tag")
    assert {site.lab.states()[job] for job in (stays, leaves)} == {"STOPPED"}
    site.start(config)
    site.wait_up()

    # Consent that is withdrawn is honoured as soon as the target has the watts; `late` takes the others.
    site.lab.run(["scontrol", "update", f"JobId={leaves}", f"Comment={NO_CONSENT}"], user=USER)
    wait_for("the controller to read it", lambda: read_consent(site.root / "live/run", leaves)[0][1][0] == 0)
    assert {job: ticks(site, job) for job in done} == done, "what is parked does no work"
    site.open_gate(other)
    wait_state(site, leaves, "RUNNING")
    wait_work(site, leaves)
    site.wait_running([late])
    assert site.lab.states()[stays] == "STOPPED"
    assert ticks(site, stays) == done[stays]
    wait_for("looks at the pool", lambda: watch.polls > 10)
    assert watch.above == []

    # The end of the target.
    watch.move(POOL_W)
    write_target(site, now_s - 1.0, time.time() + 1.0, 450)
    wait_state(site, stays, "RUNNING")
    wait_work(site, stays)
    site.open_gate(stays, leaves, late)
    site.stop()
    assert watch.above == []
    rows = [row for row in site.check_audit() if row["event"] == "intend" and row["kind"] in ("stop", "continue")]
    assert {(row["kind"], row["target"]) for row in rows} == {
        (kind, job) for kind in ("stop", "continue") for job in (stays, leaves)
    }
    assert all("grid-7" in row["why"] for row in rows)


def test_an_uninstallation_continues_what_is_parked(site: Site) -> None:
    site.keep_beating()
    config = site.configure(cap_text(POOL_W), policy="dr-parking", targets="targets.csv", slurm=CONFIG)
    parked, other = submit(site, 1, CONSENT), submit(site, 2, "no tag")
    site.start(config)
    site.wait_running([parked, other])
    write_target(site, time.time() - 1.0, time.time() + 600.0, 450)
    wait_state(site, parked, "STOPPED")
    site.stop()
    assert site.lab.states()[parked] == "STOPPED", "the end of a controller continues no job"

    argv = as_operator("live", "uninstall", "--config", str(config), "--into", str(site.root / "live"), "--write")
    done = subprocess.run(argv, check=False, env=site.env, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"done: continue {parked}" in done.stdout
    wait_state(site, parked, "RUNNING")
    wait_work(site, parked)
    assert {site.lab.field(job, "Licenses") for job in (parked, other)} <= {"", "(null)"}
    site.open_gate(parked, other)


def test_every_process_of_a_job_on_several_nodes_stands_still(site: Site) -> None:
    """Steps of srun, what their processes have started, and the batch script's own children."""
    out = site.root / "work"
    batch = f"while true; do echo >> {out}/step.$SLURM_JOB_ID.batch; sleep 0.1; done"
    loop = f"sh -c 'while true; do echo >> {out}/step.$SLURM_JOB_ID.\\$SLURM_PROCID; sleep 0.1; done' & wait"
    wrap = f'--wrap=({batch}) & srun sh -c "{loop}"'
    job = site.lab.submit("-N2", "-n2", "-t", "10", "-p", "p1", "--licenses=watts:400", wrap)
    site.wait_running([job])
    key = JobKey(job, 0.0)

    def count() -> list[int]:
        return [len(p.read_text()) for p in sorted(out.glob(f"step.{job}.*"))]

    wait_for("script and steps", lambda: len(count()) == 3 and min(count()) > 2, step_s=0.1)
    for argv in commands_of(StopJob(job, "running", "stopped", key=key)):
        site.lab.run(argv, user=OPERATOR)
    wait_state(site, job, "STOPPED")
    wait_still(site, job)
    before = count()
    time.sleep(0.5)
    assert count() == before
    for argv in commands_of(ContinueJob(job, "stopped", "running", key=key)):
        site.lab.run(argv, user=OPERATOR)
    wait_for("work", lambda: min(after - was for after, was in zip(count(), before, strict=True)) > 1, step_s=0.1)
    site.lab.run(["scancel", job])


def test_a_job_with_checkpoints_is_requeued_and_starts_again_after_the_target(site: Site) -> None:
    """One that Slurm does not requeue (submitted with --no-requeue) is stopped instead."""
    site.keep_beating()
    config = site.configure(cap_text(POOL_W), policy="dr-parking", targets="targets.csv", slurm=CONFIG)
    keeps = submit(site, 2, f"{CONSENT},checkpoint=60", "p1", "--requeue")
    stays = submit(site, 2, f"{CONSENT},checkpoint=60", "p1", "--no-requeue")
    site.start(config)
    site.wait_running([keeps, stays])
    nodes = {name for job in (keeps, stays) for name in expand(site.lab.field(job, "NodeList"))}
    write_target(site, time.time() - 1.0, time.time() + 600.0, 50)
    wait_state(site, keeps, "PENDING")
    wait_state(site, stays, "STOPPED")
    site.wait_used(0)
    wait_for("its nodes", lambda: [site.lab.node_states()[name] for name in sorted(nodes)].count("idle") == 2)
    assert site.lab.field(keeps, "Restarts") == "1"
    (site.root / "live/targets.csv").unlink()
    wait_state(site, stays, "RUNNING")
    run_again(site, keeps)
    wait_work(site, keeps)
    site.wait_used(800)
    site.open_gate(keeps, stays)
    site.stop()
    why = [row["why"] for row in site.check_audit() if row["event"] == "intend" and row["kind"] == "requeue"]
    assert why
    assert all("grid-7" in text for text in why)


def test_a_drained_node_stops_when_its_job_ends_and_comes_back(site: Site, tmp_path: Path) -> None:
    """Administrator's right: here as root. A node that an administrator drained is left alone."""
    site.keep_beating()
    source, lab = Stated(), site.lab
    lab.run(["scontrol", "update", "NodeName=n8", "State=DRAIN", "Reason=its fan is loud"])
    controller = make_controller(
        SlurmCluster(lab.commands), tmp_path, time.time,
        cap=Cap.constant(2400.0), machine=lab_machine(), policy="fcfs+controls=target-drain", targets=source,
        rules=Rules("control", write_priority=False, power_nodes=True),
    )  # fmt: skip

    def until(what: str, there: Callable[[], bool]) -> None:
        wait_for(what, lambda: controller.round() is not None and there(), step_s=0.2)

    short, *long = (site.gated(*o.split()) for o in ("-N1 -t1 -pp1", "-N3 -t60 -pp1", "-N3 -t60 -pp2"))
    until("all run", lambda: site.running() == [short, *long])
    node, now_s = lab.field(short, "NodeList"), time.time()
    source.stated = LoadTargets.of(LoadTarget(now_s, now_s + 900.0, 1900.0, notice_s=np.inf))
    until("it drains", lambda: lab.node_states()[node] == "draining")
    site.open_gate(short)
    until("it powers down", lambda: "%" in lab.node_states()[node] or "~" in lab.node_states()[node])
    until("it is off", lambda: "~" in lab.node_states()[node])
    source.stated = LoadTargets.none()
    until("it is back", lambda: lab.node_states()[node] == "idle")
    assert lab.node_states()["n8"] == "drained"
    assert controller.round() is not None
    assert controller.planner.memory.drained == {}
    lab.run(["scontrol", "update", "NodeName=n8", "State=UNDRAIN"])
    site.open_gate(*long)
    lab.wait_idle()
