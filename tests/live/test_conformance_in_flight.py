"""The in-flight ledger on the fake Slurm and on a real one: a running job's count moves to what was measured of it.

Power is read as on a Cray (pm_counters), from files that the test writes; licences are read from the cluster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.live.drive import ACCEPTS_ALL, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import NET_W, TOTAL_W, Site
from tests.live.slurmlab import SlurmLab
from wattqueue.live.controller import Controller
from wattqueue.live.driver import Cluster
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.replay import replay
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.watts.tracking import DEADBAND
from wattqueue.model.signals import Cap
from wattqueue.parts.ledger.in_flight import InFlight
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

IDLE_W = 100.0
EVEN_S = 2.0
"""After so long a job's own measurements weigh as much as its prediction."""
DRAWS_W = {"p1": 180.0, "p2": 250.0}
"""Watts of each node of a partition, at all times: a job's first reading is then its own. One job runs on each,
predicted at 300 W, the maximum of a node."""
FLOOR_W = 40
"""No licence falls below a fifth of the most that the node draws above idle."""


@dataclass
class Driven:
    """A cluster that the controller drives, and how time passes there."""

    cluster: Cluster
    clock: Callable[[], float]
    submit: Callable[[str], str]
    """Submits a held job of one node to a partition, which runs on and on, and returns its name."""
    nodes: tuple[str, ...]
    wait: Callable[[], object]
    """Lets a short time pass."""


def fake() -> Driven:
    parts = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"n{i}" for i in range(5, 9)]}
    slurm = FakeSlurm(parts, TOTAL_W)
    names = tuple(f"n{i}" for i in range(1, 9))

    def submit(partition: str) -> str:
        return slurm.submit(1, 900.0, watts=NET_W, partition=partition).name

    return Driven(slurm, lambda: slurm.now_s, submit, names, lambda: slurm.step(0.5))


def real(site: Site) -> Driven:
    lab: SlurmLab = site.lab
    site.keep_beating()

    def submit(partition: str) -> str:
        return lab.submit("-N1", "-t60", "-p", partition, "--wrap=sleep 1000")

    return Driven(SlurmCluster(lab.commands), time.time, submit, lab.names, lambda: time.sleep(0.5))


@pytest.fixture(
    params=[
        "fake",
        pytest.param("real", marks=[pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]),
    ]
)
def driven_by(request: pytest.FixtureRequest) -> Iterator[Driven]:
    if request.param == "fake":
        yield fake()
        return
    site: Site = request.getfixturevalue("site")
    yield real(site)
    site.lab.clear()


def policy() -> Policy:
    return load_policy("easy", ledger=InFlight(even_s=EVEN_S, error=0.04, phase=0.01))


@dataclass
class Followed:
    """The controller, and the power of the nodes."""

    driven: Driven
    controller: Controller
    folder: Path
    rounds: int = 0

    def set_power(self, node: str, power_w: float) -> None:
        """Let a node draw so much from now on, a few watts more or less at each look."""
        place = self.folder / node
        place.mkdir(exist_ok=True)
        SlurmLab.write_counters(place, power_w + (-6.0, 2.0, 4.0)[self.rounds % 3], 0.0)

    def round(self) -> None:
        """One round, and a short time after it."""
        self.rounds += 1
        for k, node in enumerate(self.driven.nodes):
            self.set_power(node, DRAWS_W["p1" if k < 4 else "p2"])
        assert self.controller.round() is not None
        assert not self.controller.troubles
        self.driven.wait()

    def left(self) -> dict[str, float]:
        """The relative variance of the watts of each job that holds nodes, as a share of that at its start."""
        report = self.controller.last
        assert report is not None
        jobs, holding = report.plan.jobs, report.plan.holding
        return dict(zip(jobs.name[holding], jobs.variance_left[holding].tolist(), strict=True))


@pytest.fixture
def followed(driven_by: Driven, tmp_path: Path) -> Followed:
    folder = tmp_path / "counters"
    folder.mkdir()
    source = PmCounters({name: folder / name for name in driven_by.nodes}, resolution_w=1e4)  # watts of the test
    rules = Rules("control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL, warm_up_s=1.0, margin=0.0)
    controller = make_controller(
        driven_by.cluster, tmp_path, driven_by.clock, cap=Cap.constant(8 * IDLE_W + TOTAL_W), rules=rules,
        sources=(source,), policy=policy(), record=True,
    )  # fmt: skip
    return Followed(driven_by, controller, folder)


def test_a_job_counts_what_was_measured_of_it_within_an_interval_that_narrows(followed: Followed) -> None:
    driven = followed.driven
    names = [driven.submit(partition) for partition in DRAWS_W]
    rows = {row.key.name: row for row in driven.cluster.observe().jobs}
    seen = {name: [rows[name].watts] for name in names}
    left: dict[str, list[float]] = {name: [1.0] for name in names}
    both_s = math.inf
    while driven.clock() - both_s < 10.0 * EVEN_S:
        followed.round()
        rows = {row.key.name: row for row in driven.cluster.observe().jobs}
        narrowed = followed.left()
        for name in names:
            if rows[name].state == "running":
                seen[name].append(rows[name].watts)
                left[name].append(narrowed.get(name, 1.0))
        if all(rows[name].state == "running" for name in names):
            both_s = min(both_s, driven.clock())
        assert followed.rounds < 400
    for name, draws_w in zip(names, DRAWS_W.values(), strict=True):
        watts, share = seen[name], left[name]
        assert watts[0] == NET_W, "nothing is measured yet: the prediction counts"
        target_w = draws_w - IDLE_W
        assert len(set(watts)) >= 3, f"it moves step by step: {watts}"
        # less than a tenth of the weight is the prediction's by now, and a licence is not lowered by less than 5 %
        assert target_w - 4.0 <= watts[-1] <= (target_w + 0.1 * (NET_W - target_w) + 2.0) / (1.0 - DEADBAND), watts
        assert all(FLOOR_W < one <= NET_W for one in watts)
        assert all(later <= sooner for sooner, later in pairwise(share)), share
        assert share[-1] < 0.35, "the noise of phases is left, and little of the error"
    assert seen[names[0]][-1] < seen[names[1]][-1], "each counts what was measured of this job, not of its user's"
    decisions = list(replay(followed.folder.parent / "views.jsonl", policy()))
    assert [number for number, recorded, again in decisions if recorded != again] == []
