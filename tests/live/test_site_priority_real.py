"""The order ``slurm-priority``: that of sprio on a twin cluster in which nobody holds a job."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.releases import lab_of
from tests.live.slurmlab import OTHER_USER, USER, SlurmLab, wait_for
from tests.live.submit_script import with_data
from wattqueue.live.files.lease import BEAT
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.model.signals import Cap

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
ACCOUNTS = ("a1", "a2", "a3", "a4", "a5")
QOS = {"normal": 0, "low": 20, "high": 100}
JOBS = 200
# A second of age is 100 points and a rank of the fair tree 200, so that ages, accounts and QOS overtake one another.
# All sums end in .7 or .4: no rounding of a float decides about a point.
PRIORITY = (
    "PriorityType=priority/multifactor", "PriorityCalcPeriod=1", "PriorityDecayHalfLife=7-0",
    "PriorityMaxAge=0-01:00:00", "PriorityWeightAge=360000", "PriorityWeightFairshare=3000",
    "PriorityWeightQOS=1500", "PriorityWeightPartition=400", "PriorityWeightJobSize=1000",
    "AccountingStorageEnforce=associations,limits,qos",
)  # fmt: skip


@pytest.fixture
def twins(slurm_release: str, lab_folder: Path) -> Iterator[tuple[SlurmLab, SlurmLab]]:
    """Two equal clusters, the second with our script, which holds jobs."""
    nodes = {name: NodeWatts(200, 200, 16 if name == "p1" else 8) for name in ("p1", "p2")}
    labs = []
    try:
        for name in ("twin", "ours"):
            folder = lab_folder / name
            folder.mkdir(mode=0o755)
            lua = with_data(Settings(SubmitData(nodes), [], folder / BEAT, 600, 1600)) if name == "ours" else None
            lab = lab_of(slurm_release, folder, lua, 1600, extra=PRIORITY)
            labs.append(lab.up())
        yield labs[0], labs[1]
    finally:
        for lab in labs:
            lab.down()


def settle(lab: SlurmLab) -> None:
    """Give accounts and QOS their shares and priorities, and the accounts different usage."""
    change = ["sacctmgr", "-i"]
    for name, priority in QOS.items():
        if name != "normal":
            lab.run([*change, "add", "qos", name])
        lab.run([*change, "modify", "qos", name, "set", f"priority={priority}"])
    for k, account in enumerate(ACCOUNTS):
        lab.run([*change, "add", "account", account, "parent=root", f"fairshare={10 * (k + 1)}"])
        for user in (USER, OTHER_USER):
            lab.run([*change, "add", "user", user, f"account={account}"])
        lab.run([*change, "modify", "account", account, "set", "qos=normal,low,high"])
    lab.run(["scontrol", "update", "PartitionName=p2", "PriorityJobFactor=2"])
    # usage: much in the first account, little in the last, all of it by one user, so that no two accounts are level
    runs = [
        lab.submit("-N1", "-p", "p1", "-A", account, "-t", "5", seconds=4 * (5 - k))
        for k, account in enumerate(ACCOUNTS)
    ]
    for job in runs:
        lab.run(["scontrol", "release", job], check=False)
    lab.wait_states(runs, ["COMPLETED"])
    lab.run(["scontrol", "update", f"NodeName=n[1-{lab.nodes}]", "State=DRAIN", "Reason=test"])


def shares(lab: SlurmLab) -> list[str]:
    """Fair-share factors as sshare prints them."""
    return lab.run(["sshare", "-a", "-n", "-P", "-o", "Account,User,FairShare"]).out.split()


def submit_pairs(twin: SlurmLab, ours: SlurmLab) -> list[tuple[str, str]]:
    """Submit equal jobs to both, in the same second each; pairs in which a second began are submitted again."""
    random_ = random.Random(5)
    asked = [
        (f"-N{random_.choice([1, 1, 2])}", "-A", random_.choice(ACCOUNTS), f"--qos={random_.choice(list(QOS))}",
         "-t", "9", "-p", random_.choice(["p1", "p2", "p1,p2"]), f"--nice={random_.choice([0, 0, 150])}")
        for _ in range(JOBS)
    ]  # fmt: skip
    users = [random_.choice([USER, OTHER_USER]) for _ in asked]
    pairs: list[tuple[str, str]] = []
    wanted = list(range(JOBS))
    while wanted:
        new = [tuple(lab.submit(*asked[k], seconds=600, user=users[k]) for lab in (twin, ours)) for k in wanted]
        accrued = times(twin, "AccrueTime")
        there, here = times(twin, "SubmitTime"), times(ours, "SubmitTime")
        again = []
        for k, (a, b) in zip(wanted, new, strict=True):
            if there[a] == here[b] == accrued[a]:
                pairs.append((a, b))
            else:
                again.append(k)
                twin.run(["scancel", a])
                ours.run(["scancel", b])
        wanted = again
    return pairs


def times(lab: SlurmLab, field: str) -> dict[str, str]:
    """A time of each waiting job in seconds."""
    rows = lab.run(["squeue", "-h", "-a", "-O", f"JobID:|,{field}:"], env={"SLURM_TIME_FORMAT": "%s"}).out.split()
    return dict(row.split("|") for row in rows)


def sprio(lab: SlurmLab) -> list[tuple[float, str, str]]:
    """Priority, job and partition of each row of sprio."""
    rows = [line.split() for line in lab.run(["sprio", "-h", "-o", "%Y %i %r"]).out.splitlines()]
    return [(float(priority), job, partition) for priority, job, partition in rows]


def test_two_hundred_jobs_stand_as_sprio_has_them_on_a_twin(
    twins: tuple[SlurmLab, SlurmLab], tmp_path: Path, record_property: Record
) -> None:
    twin, ours = twins
    for lab in twins:
        settle(lab)
    wait_for("the same fair shares, with usage", lambda: shares(twin) == shares(ours) and _ranked(shares(ours)))
    (ours.root / BEAT).write_text(f"control {int(time.time())}\n")
    pairs = submit_pairs(twin, ours)
    assert len(pairs) == JOBS
    last = pairs[-1][0]
    ages = ["sprio", "-h", "-j", last, "-o", "%A"]
    wait_for("Slurm to compute ages", lambda: any(float(a) > 0 for a in twin.run(ages).out.split()), step_s=1.0)
    cluster = SlurmCluster(ours.commands, priorities=True)
    controller = make_controller(
        cluster, tmp_path, time.time, cap=Cap.constant(2400.0), machine=lab_machine(), policy="slurm-priority"
    )
    report = controller.round()
    assert report is not None
    assert report.snapshot.site.problems == ()
    index = {a: k for k, (a, _) in enumerate(pairs)}
    place = {b: k for k, (_, b) in enumerate(pairs)}
    expected = sorted((-priority, index[job], partition) for priority, job, partition in sprio(twin))
    view = report.plan.view
    entries = view.entries
    order = np.lexsort((entries.partition, entries.job, -entries.priority))
    found = [(place[str(view.jobs.job_id[entries.job[k]])], f"p{entries.partition[k] + 1}") for k in order]
    assert all(row.held for row in report.snapshot.jobs if row.pending), "Slurm itself gives them no priority"
    assert sprio(ours) == []
    by_submission = sorted(found)
    record_property("moved", sum(a != b for a, b in zip(found, by_submission, strict=True)))
    assert found == [(k, partition) for _, k, partition in expected]
    assert len(found) > JOBS
    assert len({p for p, _, _ in expected}) > 50, "many different priorities"


def _ranked(lines: list[str]) -> bool:
    """Whether the accounts' users have several factors: usage has been taken into account."""
    return len({line.rsplit("|", 1)[1] for line in lines if line.startswith("a")}) >= 5
