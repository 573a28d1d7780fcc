"""What a site has settled, on a real Slurm: limits, reservations, maintenance, features, licences, preemption."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.releases import lab_of
from tests.live.slurmlab import OTHER_USER, SlurmLab, wait_for
from tests.live.submit_script import with_data
from wattqueue.live.controller import Controller
from wattqueue.live.files.lease import BEAT
from wattqueue.live.reports.report import Report
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.live.table import Stage
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
NET_W, TOTAL_W = 200, 4000
CONF = (
    f"Licenses=watts:{TOTAL_W},matlab:2", "AccountingStorageEnforce=associations,limits,qos",
    "PriorityType=priority/multifactor", "PriorityWeightQOS=1000", "PriorityWeightAge=1000",
    "PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "PreemptExemptTime=0",
)  # fmt: skip


def overlapping(release: str, extra: Sequence[str]) -> SlurmLab:
    """A lab that is not up, with GPUs on some nodes and a partition ``debug`` over all that Slurm schedules itself."""
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-rules-"))
    folder.chmod(0o755)
    nodes = {name: NodeWatts(NET_W, NET_W, 16 if name == "p1" else 8) for name in ("p1", "p2")}
    nodes["debug"] = NodeWatts(NET_W, NET_W, 8, held=False)
    lua = with_data(Settings(SubmitData(nodes), [], folder / BEAT, 600, TOTAL_W))
    return lab_of(release, folder, lua, TOTAL_W, extra=extra, gpus=2, overlap=True)


@pytest.fixture(scope="module")
def ruled(slurm_release: str) -> Iterator[SlurmLab]:
    """A lab with accounts that have limits, a feature on a node, and a partition that preempts."""
    lab = overlapping(slurm_release, CONF)
    try:
        lab.up()
        change = ["sacctmgr", "-i"]
        lab.run([*change, "add", "qos", "single", "MaxTRESPerJob=node=1"])
        for account, limit in (("few", "GrpJobs=2"), ("small", "GrpTRES=node=3")):
            lab.run([*change, "add", "account", account])
            lab.run([*change, "modify", "account", account, "set", limit])
            lab.run([*change, "add", "user", OTHER_USER, f"account={account}"])
        lab.run([*change, "modify", "account", "all", "set", "qos=normal,single"])
        lab.run(["scontrol", "update", "PartitionName=debug", "PriorityTier=10"])
        lab.run(["scontrol", "update", "NodeName=n1", "AvailableFeatures=fast", "ActiveFeatures=fast"])
        yield lab
    finally:
        lab.down()
        lab.remove()


class Rounds:
    """A controller in this process, round after round."""

    def __init__(self, lab: SlurmLab, folder: Path) -> None:
        self.lab = lab
        cluster = SlurmCluster(lab.commands, priorities=True)
        self.controller: Controller = make_controller(
            cluster, folder, time.time, cap=Cap.constant(8 * 100.0 + TOTAL_W), machine=lab_machine(),
            policy="slurm-priority",
        )  # fmt: skip

    def round(self) -> Report:
        """Run one round; the heartbeat of the script is kept young."""
        (self.lab.root / BEAT).write_text(f"control {int(time.time())}\n")
        report = self.controller.round()
        assert report is not None
        assert report.snapshot.site.problems == ()
        return report

    def until(self, what: str, ready: Callable[[], bool], look: Callable[[], None] = lambda: None) -> None:
        """Run rounds until ``ready()``, with a ``look`` after each."""

        def there() -> bool:
            self.round()
            look()
            return ready()

        try:
            wait_for(what, there, step_s=0.2)
        except Exception as error:
            raise AssertionError(f"{what}: {self.lab.jobs()} {self.barred()}") from error

    def barred(self) -> dict[str, str]:
        """Jobs that the site's rules keep back, and why."""
        last = self.controller.last
        jobs = self.controller.planner.jobs
        found = [] if last is None else jobs.at([Stage.BARRED])
        return {jobs.name[slot]: jobs.reason[slot] for slot in found if jobs.reason[slot]}

    def refused(self) -> dict[str, str]:
        """Jobs in back-off, and why."""
        return {key.name: one.reason for key, one in self.controller.planner.memory.refused.items()}


@pytest.fixture
def rounds(ruled: SlurmLab, tmp_path: Path) -> Iterator[Rounds]:
    """A controller over a cleared lab."""
    ruled.clear()
    (ruled.root / BEAT).write_text(f"control {int(time.time())}\n")
    yield Rounds(ruled, tmp_path)
    ruled.clear()


def gated(lab: SlurmLab, *options: str) -> str:
    """Submit a job that ends when ``open_gate`` says so."""
    gates = lab.root / "gates"
    gates.mkdir(exist_ok=True, mode=0o755)
    return lab.submit(*options, f"--wrap=until [ -e {gates}/$SLURM_JOB_ID ]; do sleep 0.1; done", user=OTHER_USER)


def open_gate(lab: SlurmLab, *jobs: str) -> None:
    for job in jobs:
        (lab.root / "gates" / job).touch()


def test_nothing_is_released_above_grpjobs_grptres_and_licences(rounds: Rounds) -> None:
    lab = rounds.lab
    few = [lab.submit("-N1", "-A", "few", "-t", "5", "-p", "p2", seconds=1, user=OTHER_USER) for _ in range(5)]
    small = [
        lab.submit(f"-N{n}", "-A", "small", "-t", "5", "-p", "p1", seconds=1, user=OTHER_USER) for n in (2, 2, 1, 3)
    ]
    matlab = [
        lab.submit("-N1", "-L", "matlab:1", "-t", "5", "-p", "p1,p2", seconds=1, user=OTHER_USER) for _ in range(4)
    ]
    too_much: list[object] = []

    def look() -> None:
        rows = lab.jobs(fields="%i|%T|%r|%D|%p")
        free = [(i, reason) for i, state, reason, _, p in rows if state == "PENDING" and float(p) > 0]
        too_much.extend(one for one in free if one[1].startswith(("Assoc", "QOS", "Licenses")))
        busy = {i: int(n) for i, state, _, n, p in rows if state == "RUNNING" or (state == "PENDING" and float(p) > 0)}
        counts = (len(busy.keys() & few), sum(busy.get(i, 0) for i in small), len(busy.keys() & matlab))
        too_much.extend([counts] if counts[0] > 2 or counts[1] > 3 or counts[2] > 2 else [])

    jobs = [*few, *small, *matlab]
    rounds.until("all to end", lambda: all(lab.states()[job] == "COMPLETED" for job in jobs), look)
    assert too_much == []
    assert rounds.refused() == {}, "no start failed"


def test_a_job_of_a_reservation_starts_on_its_idle_nodes(rounds: Rounds) -> None:
    lab = rounds.lab
    make = ["scontrol", "create", "reservation"]
    lab.run([*make, "ReservationName=r1", "Nodes=n[5-6]", "StartTime=now", "Duration=60", f"Users={OTHER_USER}"])
    full = [gated(lab, "-N1", "-t", "30", "-p", "p2") for _ in range(3)]
    mine = gated(lab, "-N2", "-t", "30", "-p", "p2", "--reservation=r1")
    rounds.until("its start", lambda: lab.states()[mine] == "RUNNING")
    assert lab.field(mine, "NodeList") == "n[5-6]"
    rounds.until("two more", lambda: sum(lab.states()[job] == "RUNNING" for job in full) == 2)
    later = gated(lab, "-N1", "-t", "30", "-p", "p2", "--reservation=r1")
    rounds.until("a reason", lambda: later in rounds.barred())
    assert rounds.refused() == {}
    open_gate(lab, mine, later, *full)
    rounds.until("all to end", lambda: all(lab.states()[job] == "COMPLETED" for job in (mine, later, *full)))


def test_a_maintenance_window_keeps_long_jobs_back_and_blocks_nobody(rounds: Rounds) -> None:
    lab = rounds.lab
    make = ["scontrol", "create", "reservation", "ReservationName=window", "Nodes=ALL", "StartTime=now+20minutes"]
    lab.run([*make, "Duration=60", "Users=root", "Flags=MAINT,IGNORE_JOBS"])
    long = lab.submit("-N4", "-t", "60", "-p", "p1", seconds=1, user=OTHER_USER)
    short = [gated(lab, "-N1", "-t", "5", "-p", "p1") for _ in range(4)]
    rounds.until("the short ones", lambda: all(lab.states()[job] == "RUNNING" for job in short))
    assert "that may serve it" in rounds.barred()[long]
    assert lab.field(long, "Priority") == "0", "never released"
    open_gate(lab, *short)
    lab.run(["scontrol", "delete", "ReservationName=window"])
    rounds.until("the long one", lambda: lab.states()[long] == "COMPLETED")
    assert rounds.refused() == {}


def test_features_excluded_nodes_and_gpus(rounds: Rounds) -> None:
    lab = rounds.lab
    first = gated(lab, "-N1", "-t", "30", "-p", "p1", "-w", "n1")
    rounds.until("the node with the feature in use", lambda: lab.states()[first] == "RUNNING")
    fast = gated(lab, "-N1", "-t", "30", "-p", "p1", "-C", "fast")
    gpu = gated(lab, "-N1", "-t", "30", "-p", "p1,p2", "--gres=gpu:1", "-x", "n2,n3")
    others = [gated(lab, "-N1", "-t", "30", "-p", "p2") for _ in range(4)]
    rounds.until("the others", lambda: all(lab.states()[job] == "RUNNING" for job in (gpu, *others)))
    assert lab.field(gpu, "NodeList") == "n4"
    assert fast in rounds.barred()
    assert lab.field(fast, "Priority") == "0", "never released"
    open_gate(lab, first)
    rounds.until("the feature's node", lambda: lab.states()[fast] == "RUNNING")
    assert lab.field(fast, "NodeList") == "n1"
    assert rounds.refused() == {}
    open_gate(lab, fast, gpu, *others)


def test_what_is_not_modelled_is_learned_from_its_reason(rounds: Rounds) -> None:
    """A limit on single jobs: the job is taken back because Slurm says so, not because its start is late."""
    lab = rounds.lab
    wide = lab.submit("-N4", "-A", "all", "--qos=single", "-t", "5", "-p", "p1", seconds=1, user=OTHER_USER)
    rounds.until("it is taken back", lambda: wide in rounds.refused())
    assert rounds.refused()[wide] == "kept from starting: QOSMaxNodePerJobLimit", "a late start has another reason"
    next_one = lab.submit("-N4", "-A", "all", "-t", "5", "-p", "p1", seconds=1, user=OTHER_USER)
    rounds.until("the next one", lambda: lab.states()[next_one] == "COMPLETED")
    assert lab.field(wide, "Reason") == "JobHeldAdmin"


def test_a_preempted_job_waits_again_and_runs_again(rounds: Rounds) -> None:
    """Slurm itself schedules ``debug`` over all nodes, of a higher tier: it takes nodes of the controller's jobs."""
    lab = rounds.lab
    low = gated(lab, "-N4", "-t", "30", "-p", "p1", "--requeue")
    rounds.until("the low one", lambda: lab.states()[low] == "RUNNING")
    high = lab.submit("-N4", "-t", "5", "-p", "debug", "-w", "n[1-4]", seconds=4, user=OTHER_USER)
    most = [0]

    def look() -> None:
        text = lab.run(["scontrol", "-o", "show", "lic", "watts"]).out
        most[0] = max(most[0], int(text.split("Used=")[1].split()[0]))

    rounds.until("the preemption", lambda: lab.states()[high] in ("RUNNING", "COMPLETED"), look)
    assert int(lab.field(low, "Restarts")) == 1
    lab.run(["scontrol", "update", f"JobId={low}", "StartTime=now"], check=False)  # Slurm delays a requeue by 2 min
    rounds.until("it to be held", lambda: lab.field(low, "Priority") == "0" or lab.states()[low] == "RUNNING", look)
    rounds.until("it to run again", lambda: lab.states()[low] == "RUNNING", look)
    assert lab.states()[high] == "COMPLETED"
    assert lab.field(low, "Licenses") == f"watts:{4 * NET_W}"
    assert most[0] <= TOTAL_W
    open_gate(lab, low)
    rounds.until("its end", lambda: lab.states()[low] == "COMPLETED", look)


@pytest.fixture
def suspending(slurm_release: str, tmp_path: Path) -> Iterator[Rounds]:
    """A controller over a lab whose partition ``debug`` may suspend the jobs of others."""
    lab = overlapping(slurm_release, [line.replace("=REQUEUE", "=SUSPEND,GANG") for line in CONF])
    try:
        lab.up()
        lab.run(["scontrol", "update", "PartitionName=debug", "PriorityTier=10"])
        (lab.root / BEAT).write_text(f"control {int(time.time())}\n")
        yield Rounds(lab, tmp_path)
    finally:
        lab.down()
        lab.remove()


def test_a_suspended_job_keeps_its_watts_and_goes_on(suspending: Rounds) -> None:
    """Slurm preempts no job that has whole nodes by suspending it; an administrator suspends it.

    Its watts are withheld from the pool while it stands still, and the controller starts no job on its nodes.
    """
    rounds, lab = suspending, suspending.lab
    low = gated(lab, "-N4", "-t", "30", "-p", "p2")
    rounds.until("the low one", lambda: lab.states()[low] == "RUNNING")
    high = gated(lab, "-N4", "-t", "5", "-p", "debug", "-w", "n[5-8]")
    rounds.until("Slurm to look at it", lambda: lab.field(high, "Reason") == "Resources")
    assert lab.states()[low] == "RUNNING", "whole nodes are not shared in time"
    lab.run(["scancel", high])
    waits = gated(lab, "-N1", "-t", "30", "-p", "p2")
    lab.run(["scontrol", "suspend", low])

    def withheld_w() -> int:
        pool = rounds.round().snapshot.pool
        return 0 if pool is None else pool.total - pool.open_w

    rounds.until("its watts to be withheld", lambda: withheld_w() >= 4 * NET_W)
    assert lab.field(low, "Licenses") == f"watts:{4 * NET_W}"
    other = gated(lab, "-N1", "-t", "30", "-p", "p1")
    rounds.until("a job elsewhere", lambda: lab.states()[other] == "RUNNING")
    assert lab.states()[waits] == "PENDING", "the nodes are the suspended job's"
    lab.run(["scontrol", "resume", low])
    rounds.until("it to go on", lambda: lab.states()[low] == "RUNNING")
    rounds.until("the pool to be open", lambda: withheld_w() == 0)
    assert rounds.refused() == {}
    open_gate(lab, low)
    rounds.until("the next one", lambda: lab.states()[waits] == "RUNNING")
    open_gate(lab, waits, other)
    rounds.until("all to end", lambda: {lab.states()[job] for job in (low, waits, other)} == {"COMPLETED"})
