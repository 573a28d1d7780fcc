"""Features that meet live: small worlds over the fake Slurm, in which a controller works round by round."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.live.drive import kept, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_live_targets import Stated
from wattqueue.kernels.state.site_meter import COUNT
from wattqueue.live.cluster import ContinueJob, RequeueJob, StopJob
from wattqueue.live.consent_tags import CONSENT, SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.features.ledger_meter import LedgerMeter
from wattqueue.live.planner import Rules
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.state.audit import verify
from wattqueue.live.telemetry.base import PowerSample, Reading
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy

IDLE_W, NODE_W, ROUNDS, LONGEST = 100.0, 200, 70, 400
SHARED = SharedNodes((Partition("s", 2, idle_w=50.0, max_w=150.0, off_w=5.0),))


MOVES_S = 8.0
"""A meter that is to stand still works for so long."""


@dataclass
class Meter:
    """A source of node power: what jobs draw, the same until it stands still, or nothing from half of the nodes."""

    slurm: FakeSlurm
    mode: str
    drawn_w: Mapping[str, float]
    name: str = "meter"
    resolution_w: float = 0.0
    begun_s: float = -1.0
    last_w: dict[str, float] = field(default_factory=dict)

    def read(self, now_s: float) -> Reading:
        self.begun_s = now_s if self.begun_s < 0 else self.begun_s
        stands = self.mode == "frozen" and now_s - self.begun_s > MOVES_S
        of = {node: self.drawn_w.get(job.name, 90.0) for job in self.slurm.running() for node in job.held_nodes}
        found = {}
        for k, node in enumerate(n for part in self.slurm.partitions.values() for n in part):
            if self.mode == "missing" and k % 2:
                continue
            if not stands:  # a busy node's power moves a little from one reading to the next
                self.last_w[node] = IDLE_W + of.get(node, 0.0) + 0.1 * ((now_s + k) % 3)
            found[node] = PowerSample(self.last_w[node], now_s, "meter")
        return Reading(found, ())


@dataclass
class Place:
    """A fake Slurm with a controller, and what happens to it."""

    folder: Path
    seed: int
    row: str = "easy"
    ledger: Any = None
    telemetry: str = ""
    target: bool = False
    consent: bool = False
    shared: bool = False
    anywhere: bool = False
    cap_moves: bool = False
    fails: bool = False
    restarts: bool = False
    operator: bool = False
    slurm: FakeSlurm = field(init=False)
    controller: Controller = field(init=False)
    drawn_w: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.telemetry and self.ledger is None:
            self.ledger = "measured"

    def build(self) -> Controller:
        tracks = self.ledger in ("measured", "in-flight")
        needs = bool(self.telemetry) or tracks or (isinstance(self.ledger, dict) and self.ledger["part"] == "adaptive")
        rules = Rules(mode="control", write_priority=False, track_running=tracks, warm_up_s=3.0, margin=0.0)
        return make_controller(
            self.slurm, self.folder, lambda: self.slurm.now_s, cap=Cap.constant(self.cap_w),
            policy=load_policy(self.row, ledger=self.ledger), rules=rules, targets=self.source,
            sources=(Meter(self.slurm, self.telemetry or "right", self.drawn_w),) if needs else (),
            consent=SiteDefaults(), shared_nodes=SHARED if self.shared else None,
        )  # fmt: skip

    def count(self, what: str, times: int = 1) -> None:
        self.seen[what] = self.seen.get(what, 0) + times

    def submit(self, rng: random.Random) -> FakeJob:
        nodes = rng.choice([1, 1, 2])
        willing = self.consent and rng.random() < 0.6
        job = self.slurm.submit(
            nodes, float(rng.randint(8, 40)), watts=NODE_W * nodes, limit_s=float(rng.choice([60, 120])),
            partition=rng.choice(["p1", "p1,p2", "p2"]) if self.anywhere else "p1", comment=CONSENT if willing else "",
        )  # fmt: skip
        self.drawn_w[job.name] = float(rng.randint(60, 180))
        return job

    def run(self) -> None:
        """All rounds; the oracles look at each of them."""
        rng = random.Random(self.seed)
        parts = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}
        parts |= {"s": ["s1", "s2"]} if self.shared else {}
        self.slurm = FakeSlurm(parts, 1600, shared=frozenset({"s"} if self.shared else ()))
        self.source = Stated()
        self.cap_w = 800.0 + (300.0 if self.shared else 0.0) + 600.0
        self.controller = self.build()
        for _ in range(8):
            self.submit(rng)
        if self.target:
            now_s = self.slurm.now_s
            one = LoadTarget(now_s + 12.0, now_s + 32.0, self.cap_w - 380.0, correlation_id="e1", notice_s=np.inf)
            self.source.stated = LoadTargets.of(one)
        for number in range(LONGEST):
            self.happen(number, rng)
            before = self.slurm.drawn_w
            report = self.controller.round()
            if report is None:
                self.problems.append(f"round {number} failed")
                return
            self.look(number, before)
            self.slurm.step()
            if number > ROUNDS and all(job.state not in ("PENDING", "RUNNING") for job in self.slurm.jobs.values()):
                break
        left = [job.id for job in self.slurm.jobs.values() if job.state in ("PENDING", "RUNNING")]
        if left:
            self.problems.append(f"jobs {left} never ended in {LONGEST} s")
        if verify(self.controller.audit.engine, head=self.folder / "audit.head").broken:
            self.problems.append("the audit log is broken")

    def happen(self, number: int, rng: random.Random) -> None:
        """What the world does before a round."""
        slurm = self.slurm
        if number % 5 == 0 and number < 30:
            self.submit(rng)
        if self.shared and number in (2, 9):
            slurm.submit_shared(4, 15.0, "s")
        if self.cap_moves and number in (14, 40):
            self.controller.planner.cap = Cap.constant(self.cap_w - (240.0 if number == 14 else 0.0))
            self.count("cap that moves", len(slurm.running()))
        busy = [job for job in slurm.running() if job.stopped_s < 0]
        if self.fails and number in (10, 25) and busy:
            node = busy[0].held_nodes[0]
            slurm.requeue(busy[0])
            slurm.down.add(node)
            self.count("nodes fail")
        if self.fails and number in (18, 33):
            slurm.down.clear()
        if self.operator and number == 16 and busy:
            slurm.requeue_and_hold(busy[-1])
            self.count("requeue by an operator")
        if self.operator and number == 24:
            for job in slurm.jobs.values():
                if job.state == "PENDING" and job.reason == "JobHeldAdmin":
                    slurm.release(job)
        if self.restarts and number in (11, 21):
            self.count("controller restarts", len(busy))
            cap = self.controller.planner.cap
            self.controller = self.build()
            self.controller.planner.cap = cap

    def look(self, number: int, before_w: int) -> None:
        """Oracles of a round, and the counters."""
        slurm, report = self.slurm, self.controller.last
        assert report is not None
        if slurm.drawn_w > max(slurm.open_w, before_w):
            self.problems.append(f"round {number}: {slurm.drawn_w} W of licences run, {slurm.open_w} W are open")
        held = [node for job in slurm.running() for node in job.held_nodes if not job.cpus]
        if len(held) != len(set(held)):
            self.problems.append(f"round {number}: two jobs on one node")
        for job in slurm.running():
            lowers = self.ledger in ("measured", "in-flight") or job.stopped_s >= 0 or job.cpus
            if not lowers and job.licences.get("watts", 0) < NODE_W * len(job.held_nodes):
                self.problems.append(f"round {number}: job {job.id} holds too few licences")
            if job.stopped_s >= 0 and CONSENT not in job.comment:
                self.problems.append(f"round {number}: job {job.id} stands still without consent")
        waits = [job for job in slurm.jobs.values() if job.state == "PENDING"]
        fits = [job for job in waits if job.nodes <= sum(slurm.node_state(n) == "idle" for n in slurm.partitions["p1"])]
        self.count("waits for watts", bool(fits))
        meter = kept(self.controller, LedgerMeter)
        self.count("read", 0 if meter is None else int(meter.meter.state[COUNT]))
        for label, jobs in Counter(report.plan.jobs.label[report.plan.counted]).items():
            self.count(f"label {label}", jobs)
        self.count("load target", self.target and 12 <= number < 32 and len(slurm.running()) > 0)
        self.count("stopped", sum(job.stopped_s >= 0 for job in slurm.running()))
        self.count("p2", sum(job.held_nodes[0].startswith("m") for job in slurm.running()))
        self.count("shared", sum(bool(job.cpus) for job in slurm.running()))
        self.count("lowered", sum(0 < j.licences.get("watts", 0) < NODE_W * len(j.held_nodes) for j in slurm.running()))

    def written(self) -> str:
        """What the controller had written, for a comparison with another run."""
        return "\n".join(map(repr, self.slurm.writes))


@dataclass(frozen=True)
class LiveFeature:
    """A row of the live column."""

    settings: dict[str, Any]
    acted: Callable[[Place], int]


def counted(*names: str) -> Callable[[Place], int]:
    return lambda place: max(place.seen.get(name, 0) for name in names)


def moved(place: Place) -> int:
    """Jobs that the controller stopped, continued or requeued."""
    return sum(isinstance(write, StopJob | ContinueJob | RequeueJob) for write in place.slurm.writes)


LIVE_FEATURES = {
    "ledger predicted": LiveFeature({"ledger": "predicted"}, counted("waits for watts")),
    "ledger chance": LiveFeature({"ledger": {"part": "chance", "epsilon": 0.05}}, counted("waits for watts")),
    "ledger adaptive": LiveFeature(
        {"ledger": {"part": "adaptive", "meter_s": 5.0, "window_days": 0.01}}, counted("waits for watts")
    ),
    "ledger measured": LiveFeature({"ledger": "measured"}, counted("label measured", "lowered")),
    "ledger in-flight": LiveFeature({"ledger": "in-flight"}, counted("label corrected")),
    "telemetry right": LiveFeature({"telemetry": "right"}, counted("label measured", "label corrected", "read")),
    "telemetry frozen": LiveFeature({"telemetry": "frozen"}, counted("label measured", "label corrected", "read")),
    "telemetry missing": LiveFeature({"telemetry": "missing"}, counted("label missing", "label corrected", "read")),
    "load target": LiveFeature({"target": True}, counted("load target")),
    "parking with consent": LiveFeature({"row": "dr-parking", "target": True, "consent": True}, moved),
    "shared nodes": LiveFeature({"shared": True}, counted("shared")),
    "partitions": LiveFeature({"anywhere": True}, counted("p2")),
    "cap that moves": LiveFeature({"cap_moves": True}, counted("cap that moves")),
    "nodes fail": LiveFeature({"fails": True}, counted("nodes fail")),
    "requeue by an operator": LiveFeature({"operator": True}, counted("requeue by an operator")),
    "controller restarts": LiveFeature({"restarts": True}, counted("controller restarts")),
}
CHOICES = ("ledger", "telemetry")
"""Settings of which a world has one."""
READS = ("ledger adaptive", "ledger measured", "ledger in-flight")
"""Ledgers that a source of the nodes' power changes; telemetry meets no other."""
