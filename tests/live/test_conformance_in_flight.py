"""The in-flight ledger on the fake Slurm and on a real one: a running job's count moves to what was measured of it.

Power is read as on a Cray (pm_counters), from files that the test writes; licences are read from the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import NET_W, TOTAL_W, Site
from tests.live.slurmlab import SlurmLab
from wattqueue.live.cluster import Cluster
from wattqueue.live.controller import Controller
from wattqueue.live.planner import Rules
from wattqueue.live.replay import replay
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.tracking import DEADBAND
from wattqueue.model.signals import Cap
from wattqueue.parts.ledger.in_flight import InFlight
from wattqueue.policy.policy import Policy, load_policy

IDLE_W = 100.0
EVEN_S = 2.0
"""After so long a job's own measurements weigh as much as its prediction."""
DRAWS_W = (180.0, 250.0)
"""Watts of the two jobs' nodes; both jobs are predicted at 300 W, the maximum of a node."""
FLOOR_W = 40
"""No licence falls below a fifth of the most that the node draws above idle."""


@dataclass
class Driven:
    """A cluster that the controller drives, and how time passes there."""

    cluster: Cluster
    clock: Callable[[], float]
    submit: Callable[[], str]
    """Submits a held job of one node that runs on and on, and returns its name."""
    nodes: tuple[str, ...]
    wait: Callable[[], object]
    """Lets a short time pass."""


def fake() -> Driven:
    parts = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"n{i}" for i in range(5, 9)]}
    slurm = FakeSlurm(parts, TOTAL_W)
    names = tuple(f"n{i}" for i in range(1, 9))
    return Driven(
        slurm, lambda: slurm.now_s, lambda: slurm.submit(1, 900.0, watts=NET_W).name, names, lambda: slurm.step(0.5)
    )


def real(site: Site) -> Driven:
    lab: SlurmLab = site.lab
    site.keep_beating()

    def submit() -> str:
        return lab.submit("-N1", "-t60", "-pp1", "--wrap=sleep 1000")

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

    def round(self, draws_w: dict[str, float]) -> None:
        """One round, after a short time in which the nodes drew that; others idle."""
        self.rounds += 1
        for node in self.driven.nodes:
            self.set_power(node, draws_w.get(node, IDLE_W))
        assert self.controller.round() is not None
        assert not self.controller.troubles
        self.driven.wait()

    def watts(self, names: list[str]) -> list[int]:
        """The licences that the cluster counts for these jobs."""
        rows = {row.key.name: row for row in self.driven.cluster.observe().jobs}
        return [rows[name].watts for name in names]

    def left(self, names: list[str]) -> list[float]:
        """The relative variance of each job's watts, as a share of that at its start."""
        report = self.controller.last
        assert report is not None
        found = {busy.row.key.name: busy.variance_left for busy in report.plan.busy}
        return [found[name] for name in names]


@pytest.fixture
def followed(driven_by: Driven, tmp_path: Path) -> Followed:
    folder = tmp_path / "counters"
    folder.mkdir()
    source = PmCounters({name: folder / name for name in driven_by.nodes})
    rules = Rules("control", write_priority=False, track_running=True, settle_s=1.0, margin=0.0)
    controller = make_controller(
        driven_by.cluster, tmp_path, driven_by.clock, cap=Cap.constant(8 * IDLE_W + TOTAL_W), rules=rules,
        sources=(source,), policy=policy(), record=True,
    )  # fmt: skip
    return Followed(driven_by, controller, folder)


def test_a_job_counts_what_was_measured_of_it_within_an_interval_that_narrows(followed: Followed) -> None:
    driven = followed.driven
    names = [driven.submit() for _ in DRAWS_W]
    where: dict[str, float] = {}
    for _ in range(200):
        followed.round(where)
        rows = {row.key.name: row for row in driven.cluster.observe().jobs}
        if all(rows[name].state == "running" for name in names):
            break
    assert followed.watts(names) == [NET_W, NET_W], "nothing was measured yet: the prediction counts"
    where = {rows[name].node_names[0]: watts for name, watts in zip(names, DRAWS_W, strict=True)}
    seen, left = [followed.watts(names)], [[1.0, 1.0]]
    begin_s = driven.clock()
    while driven.clock() - begin_s < 10.0 * EVEN_S:
        followed.round(where)
        seen.append(followed.watts(names))
        left.append(followed.left(names))
    for k, draws_w in enumerate(DRAWS_W):
        watts, share = [row[k] for row in seen], [row[k] for row in left]
        target_w = draws_w - IDLE_W
        assert len(set(watts)) >= 3, f"it moves step by step: {watts}"
        # less than a tenth of the weight is the prediction's by now, and a licence is not lowered by less than 5 %
        assert target_w - 4.0 <= watts[-1] <= (target_w + 0.1 * (NET_W - target_w) + 2.0) / (1.0 - DEADBAND), watts
        assert all(FLOOR_W < one <= NET_W for one in watts)
        assert all(later <= sooner for sooner, later in pairwise(share)), share
        assert share[-1] < 0.35, "the noise of phases is left, and little of the error"
    assert seen[-1][0] < seen[-1][1], "each counts what was measured of this job, not of its user's"
    decisions = list(replay(followed.folder.parent / "views.jsonl", policy()))
    assert [number for number, recorded, again in decisions if recorded != again] == []
