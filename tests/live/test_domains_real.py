"""Sixteen nodes in four racks of a real Slurm, submissions that try to get above a rack, and kills of every part.

``WATTQUEUE_ADVERSARIAL_S`` and ``WATTQUEUE_KILLS`` set duration and kills of the slow test (2,400 s and 200).
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live.adversary import Adversary, Killer, Poller
from tests.live.fight import Record, fight, site_of
from tests.live.site import Site
from tests.live.slurmlab import OTHER_USER, USER
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.config import load_config
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.install import slurm_conf_lines

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("arena")]
NET_W = 200
ROOM_W = {"r1": 250, "r2": 450, "r3": 650, "r4": 850, "row": 1700}
"""What racks of four nodes, and the row, leave to jobs: one to four nodes of 200 W, and eight."""
MOST_NODES = {"p1": 3, "p2": 7}
"""The widest job that fits each partition: two racks of each feed the row."""
RACK = {f"n{k}": f"r{(k - 1) // 4 + 1}" for k in range(1, 17)}
SPANS = "spans"
"""File in which each script notes its begin and its end; Slurm and controller do not enter."""
PARTS = "".join(f'[[partitions]]\nname = "{p}"\nnodes = 8\nidle_w = 100.0\nmax_w = 300.0\n' for p in ("p1", "p2"))
NODES = {"r1": "p1[1-4]", "r2": "p1[5-8]", "r3": "p2[1-4]", "r4": "p2[5-8]"}
RACKS = "".join(
    f'[[supply]]\nname = "{name}"\nparent = "row"\nnodes = "{nodes}"\nlimit_w = {400.0 + ROOM_W[name]}\n'
    for name, nodes in NODES.items()
)
MACHINE = f'name = "hall"\n{PARTS}{RACKS}[[supply]]\nname = "row"\nlimit_w = {1600.0 + ROOM_W["row"]}\n'
LICENCES = 'domains = { r1 = "w1", r2 = "w2", r3 = "w3", r4 = "w4", row = "w" }'
COUNTS = "w1:250,w2:450,w3:650,w4:800,w:1700,watts_gate:1"


def watts_of(domain: str, nodes: Iterable[str]) -> int:
    """What jobs on these nodes could draw in a domain."""
    return NET_W * sum(domain in ("row", RACK[node]) for node in nodes)


@dataclass
class RackPoller(Poller):
    """Adds up what busy nodes of each rack could draw; licences and the controller do not enter."""

    most: dict[str, float] = field(default_factory=dict)

    def count(self, text: str) -> None:
        rows = [line.split("|") for line in text.splitlines()]
        nodes = {name for row in rows if row[1] != "SUSPENDED" for name in expand(row[2])}
        self.polls += 1
        for name, room_w in ROOM_W.items():
            watts = watts_of(name, nodes)
            self.most[name] = max(self.most.get(name, 0.0), watts)
            if watts > room_w:
                self.over.append((time.time(), watts, f"{name}: {text}"))

    def figures(self) -> dict[str, object]:
        return {**super().figures(), "most_w": self.most}


@dataclass
class RackAdversary(Adversary):
    """Jobs of one partition, some too wide for its racks; nodes that users name, exclude and change."""

    fits: set[int] = field(default_factory=set)
    """Ids of the jobs that fit and that nobody holds or cancels."""

    def step(self) -> None:
        if not self.site.crowded():
            self.submit()
        self.meddle()

    def withdraw(self) -> None:
        self.site.lab.run(["scontrol", "update", "NodeName=n[1-16]", "State=RESUME"], check=False)
        held = [job for job in self.jobs if int(job) not in self.fits]
        self.site.lab.run(["scancel", *held] if held else ["true"], check=False)  # nobody releases them, or too wide

    def unended(self, cancelled: Sequence[str]) -> list[str]:
        return [row for row in cancelled if int(row.split("|")[1]) in self.fits]

    def figures(self) -> dict[str, object]:
        return {**super().figures(), "fit": len(self.fits)}

    def submit(self) -> None:
        r, part = self.random_, self.random_.choice(["p1", "p2"])
        self.steps += 1
        most, first = MOST_NODES[part], 1 if part == "p1" else 9
        count = r.choice([1, 1, 1, 2, 2, 3, most, most + r.randint(0, 1)])
        name, options = f"a{self.number}.{self.steps}", [f"-N{count}"]
        kind, free = r.random(), count <= most
        if kind < 0.08:
            options = ["-N1", "-w", f"n{first + r.randint(0, 7)}"]
            free = True
        elif kind < 0.14:
            options = ["-N2", "-w", f"n{first + r.randint(4, 7)}"]
            free = True
        elif kind < 0.2:
            options += ["-x", f"n{first},n{first + r.randint(1, 7)}"]
            free = free and count < most
        elif kind < 0.26:
            options = [f"-N{count}-{count + 3}"]
        elif kind < 0.3:
            options += ["-L", "watts:1,w1:1"]
        elif kind < 0.34:
            options += ["-H"]
            free = False
        tasks: tuple[str, ...] = ("",)
        if 0.34 <= kind < 0.4:
            tasks = ("0", "1", "2")
            options.append("--array=0-2")
        ran, sleep_s, spans = self.site.root / "work" / name, r.uniform(0.2, 5.0), self.site.root / "work" / SPANS
        note = f"$$ $(date +%s.%N) $SLURM_JOB_NODELIST >> {spans}"
        wrap = (
            f"--wrap=echo b {note}; sleep {sleep_s:.1f}; echo e {note}; "
            f"echo $SLURM_JOB_ID >> {ran}.$SLURM_ARRAY_TASK_ID"
        )
        argv = ["sbatch", "--parsable", "-o", "/dev/null", "-t", str(r.randint(1, 3)), "-J", name, "-p", part, *options]
        done = self.site.lab.run([*argv, wrap], user=r.choice([USER, OTHER_USER]), check=False, timeout_s=100.0)
        job = done.out.strip().split(";")[0]
        if done.code != 0 or not job.isdigit():
            self.refused += 1
            return
        self.jobs.append(job)
        self.accepted[name] = int(job), tasks
        self.fits.discard(int(job))  # a crash gives the id of a forgotten job to another one
        if free:
            self.fits.add(int(job))

    def meddle(self) -> None:
        if not self.jobs:
            return
        r, job = self.random_, self.random_.choice(self.jobs[-30:])
        node = f"n{r.randint(1, 16)}"
        by_user = [
            ["scontrol", "release", job],
            ["scontrol", "update", f"JobId={job}", "Licenses=watts:1"],
            ["scontrol", "update", f"JobId={job}", "NumNodes=1-8"],
            ["scontrol", "update", f"JobId={job}", f"ReqNodeList={node}"],
            ["scontrol", "update", f"JobId={job}", "ReqNodeList="],
            ["scontrol", "update", f"JobId={job}", f"ExcNodeList={node}"],
            ["scontrol", "update", f"JobId={job}", "Nice=0"],
            ["scontrol", "requeue", job],
        ]
        by_root = [
            ["scontrol", "release", job],
            ["scontrol", "requeue", job],
            ["scontrol", "requeuehold", job],
            ["scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test"],
            ["scontrol", "update", f"NodeName={node}", "State=RESUME"],
            ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"],
            ["scontrol", "update", f"NodeName={node}", "State=RESUME"],
            ["scancel", job],
        ]
        user = None if r.random() < 0.5 else r.choice([USER, OTHER_USER])
        argv = r.choice(by_root if user is None else by_user)
        if argv[1] in ("requeuehold", job):  # an operator's hold of a requeued job stays; a cancelled one never ends
            self.fits.discard(int(job))
        self.site.lab.run(argv, user=user, check=False, timeout_s=100.0)


def check_spans(spans: Path, record_property: Record) -> None:
    """At no instant do scripts that ran to their end add up to more than a limit leaves.

    The polls see squeue now and then; this sees every instant. A script begins after its job and ends before it, and a
    script that was killed noted no end and is left out, so the sums are at most what Slurm had running.
    """
    begun = dict[str, float]()
    changes = list[tuple[float, int, Sequence[str]]]()
    for line in spans.read_text().splitlines():
        kind, script, at_s, nodes = line.split()
        if kind == "b":
            begun[script] = float(at_s)
        else:
            changes += [(begun.pop(script), 1, expand(nodes)), (float(at_s), -1, expand(nodes))]
    busy, most, over = Counter[str](), dict.fromkeys(ROOM_W, 0), list[str]()
    for time_s, sign, names in sorted(changes):
        for node in names:
            busy[node] += sign
        for domain, room_w in ROOM_W.items():
            watts = watts_of(domain, +busy)
            most[domain] = max(most[domain], watts)
            if watts > room_w:
                over.append(f"{time_s} {domain}: {watts} W of {room_w} W on {sorted(+busy)}")
    record_property("most_w_by_scripts", most)
    sys.stderr.write(f"{len(changes) // 2} scripts ran to their end, most watts at an instant: {most}\n")
    assert len(changes) > 20, "scripts noted when they ran"
    assert over == [], over[:5]


class RackKiller(Killer):
    """Now and then the controller is away for longer: the timer of a site releases what is safe."""

    def kill(self) -> None:
        if self.random_.random() < 0.1:
            self.site.kill()
            time.sleep(6.0)
            self.site.release(self.site.root / "live/live.toml")
            self.restart()
        super().kill()


@pytest.fixture(scope="module")
def hall(slurm_release: str) -> Iterator[Site]:
    """A Slurm of sixteen nodes, installed as a site would."""
    for site in site_of(
        slurm_release, Site, "hall", 3200, cap="4800W", machine=MACHINE, slurm=LICENCES, nodes=16, domains=COUNTS
    ):
        settings = Guard.of(load_config(site.root / "live/live.toml"), site.lab.commands).settings
        assert f"Licenses=watts:3200,{COUNTS}" in slurm_conf_lines(site.root / "etc", settings, None)
        yield site


def check_fight(site: Site, seconds: float, kills: int, seed: int, record_property: Record) -> None:
    """A fight under the racks (``fight``); then all nodes come back, and every job that fits ends."""
    random_, config = random.Random(seed), site.root / "live/live.toml"
    adversary = RackAdversary(site, random_, pause_s=0.4)
    killer = RackKiller(site, random_, lambda: site.start(config))
    poller = RackPoller(site.lab, {}, 0.0, polls_a_second=0.25)
    spans = site.root / "work" / SPANS
    spans.unlink(missing_ok=True)
    spans.touch()
    spans.chmod(0o666)  # jobs of two users note here
    fight(adversary, killer, poller, seconds, kills, 200.0, record_property, to_last_kill=True)
    site.stop()
    site.check_audit()
    check_spans(spans, record_property)


def check_refusals(site: Site) -> None:
    """The widest job of each partition is taken; one node more is refused by the name of what holds it back."""
    for part, nodes in MOST_NODES.items():
        argv = ["sbatch", "--parsable", "-p", part, "-o", "/dev/null", "--wrap=sleep 1", "-H"]
        wide = site.lab.run([*argv, f"-N{nodes + 1}"], user=USER, check=False)
        assert wide.code != 0
        assert f"a job has {nodes} nodes of partition {part} at most, this one needs {nodes + 1}" in wide.err
        assert "under power domain r" in wide.err
        for fitting in (f"-N{nodes}", f"-N{nodes}-{nodes + 1}"):
            taken = site.lab.run([*argv, fitting], user=USER, check=False)
            assert (taken.code, taken.err) == (0, ""), taken
            site.lab.run(["scancel", taken.out.strip()])


def test_a_job_that_no_domain_feeds_is_refused_by_its_name(hall: Site) -> None:
    check_refusals(hall)


def test_no_job_gets_above_a_rack(hall: Site, record_property: Record) -> None:
    check_fight(hall, 60.0, 6, 1, record_property)


@pytest.mark.slow
def test_no_job_gets_above_a_rack_with_200_kills(hall: Site, record_property: Record) -> None:
    seconds, kills = (
        float(os.environ.get(f"WATTQUEUE_{name}", d)) for name, d in (("ADVERSARIAL_S", 2400), ("KILLS", 200))
    )
    check_fight(hall, seconds, int(kills), 2, record_property)
