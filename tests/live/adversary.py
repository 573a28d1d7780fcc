"""A generator of submissions that try to get around the cap, a poller that measures whether one did, and kills.

The poller is independent of everything under test: it lists running jobs with their nodes and adds the *maximum* net
watts of each node held. Licences, the controller's ledger and its predictions do not enter. Its figure is what the
running jobs could draw at most, so it must never exceed the pool.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from tests.live.outcomes import Crash
from tests.live.site import Site
from tests.live.slurmlab import OTHER_USER, USER, Done, SlurmLab
from wattqueue.formats.slurm.hostlist import expand

ACTIVE = "RUNNING,CONFIGURING,SUSPENDED,STOPPED,RESIZING,SIGNALING,STAGE_OUT"
SHARED = ("s", "s", "s,p2", "debug,s")
"""Lists of partitions with the one whose jobs share nodes and carry no watts."""
LATE = "late"
"""A partition that the site creates while everything runs: neither the machine file nor the script knows it."""
LISTS = ("p1", "p2", "p1,p2", "debug", "debug,p2", LATE, f"p1,{LATE}", "p2,debug,p1", *SHARED)
"""Partitions that jobs name."""
ATTEND_S = 10.0
"""Where a queue makes no progress for so long, a person looks at it; no script of a fight runs longer."""
LAUNCH_FAILED = "launch failed requeued held"
"""Why Slurm holds a job that a node could not start."""


@dataclass
class Poller:
    """Adds up, several times a second, the watts that running jobs could draw; keeps every excess."""

    lab: SlurmLab
    node_w: Mapping[str, float]
    pool_w: float
    over: list[tuple[float, float, str]] = field(default_factory=list)
    """Time, watts and the list of jobs of each poll above the pool."""
    polls: int = 0
    most_w: float = 0.0
    polls_a_second: float = 0.5
    """How often it has to look at least."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60.0)

    def _run(self) -> None:
        while not self._stop.wait(0.15):
            done: Done | None
            try:
                done = self.lab.run(
                    ["squeue", "-h", "-a", "-t", ACTIVE, "-O", "JobArrayID:|,State:|,NodeList:|,Licenses:|,Partition:"],
                    check=False,
                    timeout_s=20.0,
                )
            except (OSError, subprocess.SubprocessError):  # slurmctld is down: nothing can be polled now
                done = None
            if done is not None and done.code == 0:
                self.count(done.out)

    def count(self, text: str) -> None:
        """Add up one list of running jobs. The nodes of a suspended job draw idle watts: nothing above idle."""
        rows = [line.split("|") for line in text.splitlines()]
        nodes = {name for row in rows if row[1] != "SUSPENDED" for name in expand(row[2])}
        watts = sum(self.node_w[name] for name in nodes)
        self.polls += 1
        self.most_w = max(self.most_w, watts)
        if watts > self.pool_w:
            self.over.append((time.time(), watts, text))

    def figures(self) -> dict[str, object]:
        """What it saw, for the report of a test."""
        return {"polls": self.polls, "most_w": self.most_w, "over": len(self.over)}


@dataclass
class Adversary:
    """Submits what might break the cap, as two users, and acts on jobs as users and as an administrator do."""

    site: Site
    random_: random.Random
    jobs: list[str] = field(default_factory=list)
    accepted: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """Id and tasks of each job that was accepted, by its name; one that is no array has the one task ''."""
    refused: int = 0
    steps: int = 0
    number: int = field(default_factory=itertools.count(1).__next__)
    """Stands in the names of its jobs: accounting knows those of an earlier one on the same Slurm, too."""
    pause_s: float = 0.6
    """Time between two steps at most."""

    def step(self) -> None:
        """One submission and one change, and now and then room for more."""
        self.submit()
        self.meddle()
        if self.steps % 10 == 0:
            self.make_room()

    def withdraw(self) -> None:
        """Take back, after the last step, what keeps jobs from their end; by default nothing."""

    def unended(self, cancelled: Sequence[str]) -> list[str]:
        """Those of the rows that ``drain`` cancelled whose jobs should have ended by themselves; by default none."""
        return []

    def figures(self) -> dict[str, object]:
        """What it did, for the report of a test."""
        return {"submitted": len(self.accepted), "refused": self.refused}

    def size(self) -> list[str]:
        """Options that decide how many nodes a job gets."""
        r = self.random_
        few = r.randint(1, 2)
        return r.choice(
            [
                [f"-N{few}"],
                [f"-N{few}-{few + r.randint(0, 6)}"],
                [f"-n{r.randint(1, 24)}"],
                [f"-n{r.randint(1, 6)}", f"-c{r.randint(1, 10)}"],
                [f"--gpus={r.randint(1, 9)}"],
                [f"-N1-{r.randint(1, 4)}", f"--gpus={r.randint(1, 8)}"],
                [f"-n{r.randint(1, 4)}", f"--gpus-per-task={r.randint(1, 4)}"],
                ["--gpus-per-node=2", f"-N{few}"],
                [f"-n{r.randint(1, 12)}", f"--ntasks-per-socket={r.randint(1, 3)}"],
                [f"-n{r.randint(1, 6)}", f"--ntasks-per-node={r.randint(1, 3)}"],
                [f"-n{r.randint(2, 8)}", f"--mem-per-cpu={r.choice([100, 1000, 4000])}"],
                [f"--mem={r.choice([100, 31000])}"],
                ["-w", f"n{r.randint(1, 8)}"],
                ["-N8", "-p", "debug"],
                ["-N1-8", "-p", "debug"],
            ]
        )

    def submit(self) -> None:
        """One submission; that Slurm or the script refuses it is fine."""
        r = self.random_
        self.steps += 1
        name = f"a{self.number}.{self.steps}"
        options = [*self.size(), "-t", str(r.randint(1, 3)), "-J", name]
        if "-p" not in options:
            options += ["-p", r.choice(LISTS)]
        kind = r.random()
        tasks: tuple[str, ...] = ("",)
        if kind < 0.1:
            tasks = tuple(str(task) for task in range(r.randint(1, 4) + 1))
            options.append(f"--array=0-{tasks[-1]}%{r.randint(1, 3)}")
        elif kind < 0.2 and self.jobs:
            options.append(f"--dependency={r.choice(['afterany', 'afterok', 'singleton'])}:{r.choice(self.jobs)}")
            options[-1] = options[-1].replace("singleton:", "afterany:")
        elif kind < 0.3:
            options.append("-H")
        elif kind < 0.35:
            options.append("--begin=now+3")
        elif kind < 0.4:
            options += ["-L", "watts:1"]
        elif kind < 0.45:
            options += ["--nice=-50"] if r.random() < 0.2 else ["--nice=50"]
        ran = self.site.root / "work"
        wrap = f"--wrap=sleep {r.uniform(0.2, 4.0):.1f}; echo $SLURM_JOB_ID >> {ran}/{name}.$SLURM_ARRAY_TASK_ID"
        argv = ["sbatch", "--parsable", "-o", "/dev/null"]
        if 0.45 <= kind < 0.5:
            argv += [*options, ":", "-N1", "-p", r.choice(["p1", "debug", LATE, "s"]), wrap]
        else:
            argv += [*options, wrap]
        done = self.site.lab.run(argv, user=r.choice([USER, OTHER_USER]), check=False, timeout_s=100.0)
        job = done.out.strip().split(";")[0]
        if done.code == 0 and job.isdigit():
            self.jobs.append(job)
            self.accepted[name] = int(job), tasks
        else:
            self.refused += 1

    def make_room(self) -> None:
        """Cancel the oldest waiting jobs: those that nobody releases would fill the queue."""
        rows = self.site.lab.run(["squeue", "-h", "-t", "PD", "-o", "%A"], check=False).out.split()
        if len(rows) > 40:
            self.site.lab.run(["scancel", *sorted(set(rows), key=int)[:15]], check=False)

    def meddle(self) -> None:
        """One change by a user (mostly refused) or by an administrator (always possible)."""
        if not self.jobs:
            return
        r, job = self.random_, self.random_.choice(self.jobs[-30:])
        user = r.choice([USER, OTHER_USER])
        by_user = [
            ["scontrol", "release", job],
            ["scontrol", "hold", job],
            ["scontrol", "update", f"JobId={job}", "Licenses=watts:1"],
            ["scontrol", "update", f"JobId={job}", "NumNodes=1-8"],
            ["scontrol", "update", f"JobId={job}", f"Partition={r.choice(['debug', LATE, 'p1', 's'])}"],
            ["scontrol", "update", f"JobId={job}", "Nice=0"],
            ["scontrol", "update", f"JobId={job}", "TimeLimit=2"],
            ["scontrol", "requeue", job],
            ["scancel", job],
        ]
        by_root = [
            ["scontrol", "release", job],
            ["scontrol", "hold", job],
            ["scontrol", "requeue", job],
            ["scontrol", "requeuehold", job],
            ["scontrol", "suspend", job],
            ["scontrol", "update", f"JobId={job}", "AdminComment=the site's own"],
            ["scontrol", "update", f"JobId={job}", "Partition=s"],
        ]
        if r.random() < 0.6:
            self.site.lab.run(r.choice(by_user), user=user, check=False, timeout_s=100.0)
        else:
            self.site.lab.run(r.choice(by_root), check=False, timeout_s=100.0)


@dataclass
class Killer:
    """Kills the controller, slurmctld, slurmdbd and slurmds, and starts them again, one at a time.

    After each fault the controller sees one round before the next one: what a restart of slurmctld returns twice is
    withheld by a controller that runs, which the guide says.
    """

    site: Site
    random_: random.Random
    restart: Callable[[], None]
    """Starts the controller."""
    kills: dict[str, int] = field(default_factory=dict)
    crashes: list[Crash] = field(default_factory=list)
    """Each kill of slurmctld that was no orderly stop."""
    _over_s: float = 0.0
    """When what was killed last answered again."""

    def kill(self) -> None:
        """One kill. Half of those of slurmctld are orderly stops, the others crashes at any moment."""
        lab = self.site.lab
        self.site.wait_up(max(self._over_s, self.site.started_s))
        what = self.random_.choices(["controller", "slurmctld", "slurmdbd", "slurmd"], [5, 2, 1, 2])[0]
        self.kills[what] = self.kills.get(what, 0) + 1
        if what == "controller":
            self.site.kill()
            time.sleep(self.random_.uniform(0.0, 2.0))
            self.restart()
        elif what == "slurmctld":
            if self.random_.random() < 0.5:
                lab.restart_controller()
            else:
                lab.kill_controller()
                self.crashes.append(Crash((lab.root / "state/job_state").stat().st_mtime, time.time()))
                lab.start_controller()
            create_late(lab)
        elif what == "slurmdbd":
            self._again("slurmdbd", lambda: lab.start("slurmdbd", ["slurmdbd", "-D"]))
        else:
            name = self.random_.choice(lab.names)
            self._again(f"slurmd.{name}", lambda: lab.start_node(name))
        self._over_s = time.time()

    @property
    def done(self) -> int:
        """Number of kills so far."""
        return sum(self.kills.values())

    def _again(self, daemon: str, start: Callable[[], None]) -> None:
        process = self.site.lab.daemons[daemon]
        process.kill()
        process.wait(60.0)
        time.sleep(self.random_.uniform(0.0, 2.0))
        start()


def create_late(lab: SlurmLab) -> None:
    """Create the partition that nobody knows; a restart of slurmctld forgets it, since slurm.conf does not name it."""
    options = ["Nodes=n[3-6]", "OverSubscribe=EXCLUSIVE", "State=UP", "MaxTime=INFINITE"]
    lab.run(["scontrol", "create", f"PartitionName={LATE}", *options], check=False)


def drain(site: Site, timeout_s: float, look: Callable[[], None]) -> list[str]:
    """Wait until the queue is empty. What makes no progress for ``timeout_s`` is cancelled; returns its rows.

    Jobs that their users or an administrator hold, or that fit no partition, never end by themselves. Components of
    a heterogeneous job whose leader a crash took stay: Slurm cannot cancel them, and would plan nodes for them for
    ever, so they are held. ``look`` is called meanwhile. After so many kills a person has to help (``attend``).
    """
    lab = site.lab
    cancelled: list[str] = []
    left, since = "", time.monotonic()
    while True:
        rows = lab.run(["squeue", "-h", "-r", "-a", "-o", "%i|%A|%T|%r|%W|%D|%P"], check=False).out
        numbers = dict(row.split("|")[:2] for row in rows.splitlines())
        if all("+" in name and f"{name.partition('+')[0]}+0" not in numbers for name in numbers):
            for number in numbers.values():
                lab.run(["scontrol", "uhold", number])
            return cancelled
        for row in rows.splitlines():
            if row.split("|")[2] == "SUSPENDED":
                lab.run(["scancel", row.split("|")[1]], check=False)  # Slurm checks no licences at a resume
        states = "".join(sorted("|".join(row.split("|")[i] for i in (0, 2)) for row in rows.splitlines()))
        if states != left:
            left, since = states, time.monotonic()
        elif time.monotonic() - since > timeout_s:
            # By number, which ends an array as one job. After a crash slurmctld may list a task and not know its
            # number: what is left of an earlier try is cancelled by name.
            lab.run(
                ["scancel", *{row.split("|")[0 if row in cancelled else 1] for row in rows.splitlines()}], check=False
            )
            cancelled += rows.splitlines()
            since = time.monotonic()
        elif time.monotonic() - since > ATTEND_S:
            attend(lab, rows.splitlines())
        look()
        time.sleep(0.5)


def attend(lab: SlurmLab, rows: Sequence[str]) -> None:
    """Do what Slurm leaves to a person after kills of its daemons; ``rows``: see ``drain``.

    A node that could not start a job, or still ran it when a crash had made slurmctld forget its start, is drained; a
    job whose launch failed is held.
    """
    for node in sorted(set(lab.run(["sinfo", "-h", "-N", "-t", "drain,down", "-o", "%N"], check=False).out.split())):
        lab.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False)
    for row in rows:
        if row.split("|")[3] == LAUNCH_FAILED:
            lab.run(["scontrol", "release", row.split("|")[1]], check=False)
