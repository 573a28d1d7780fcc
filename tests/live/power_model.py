"""What the nodes of a fake cluster draw, by a model of each job's phases, and meters of it that are right or wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.live.drive import IDLE_W, MOST_W
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.live.controller import Controller
from wattqueue.live.telemetry.base import PowerSample, Reading

Phases = Callable[[float], float]
"""Share of a node's dynamic power that a job draws, by the seconds since its start."""
RESOLUTION_W = 0.1
"""Steps in which the meters of these tests read."""


def quiet_then_full(quiet_s: float = 38.0, share: float = 0.1) -> Phases:
    """An honest job that draws little at first, and all that its nodes can draw afterwards."""
    return lambda age_s: share if age_s < quiet_s else 1.0


def steady(share: float) -> Phases:
    """A job of one phase."""
    return lambda _: share


FULL = steady(1.0)


@dataclass
class PowerModel:
    """Nodes of a fake cluster: 100 W idle, 300 W at most, what runs on them decides."""

    slurm: FakeSlurm
    phases: dict[int, Phases] = field(default_factory=dict)
    every: Phases = FULL
    """Of jobs that have none of their own."""
    random: random.Random = field(default_factory=lambda: random.Random(1))
    jitter_w: float = 1.0
    """A busy node's draw moves by so much from reading to reading."""

    def share_of(self, job: FakeJob) -> float:
        """The share of its dynamic power that a running job draws now."""
        if job.stopped_s >= 0:
            return 0.0
        return self.phases.get(job.id, self.every)(self.slurm.now_s - job.start_s)

    def node_w(self) -> dict[str, float]:
        """Watts of each node now."""
        watts = {name: IDLE_W for names in self.slurm.partitions.values() for name in names}
        for job in self.slurm.running():
            drawn_w = IDLE_W + self.share_of(job) * (MOST_W - IDLE_W)
            watts |= dict.fromkeys(job.held_nodes, drawn_w)
        return watts

    def power_w(self) -> float:
        """Watts of all nodes now."""
        return sum(self.node_w().values())


@dataclass
class ModelMeter:
    """A meter of the model's nodes. ``distort`` makes its readings wrong: name, watts, time in; watts out, or none."""

    model: PowerModel
    distort: Callable[[str, float, float], float | None] = lambda _name, watts, _now: watts
    late_s: float = 0.0
    name: str = "meter"
    resolution_w: float = RESOLUTION_W

    def read(self, now_s: float) -> Reading:
        """Read every node, each with the time of now (less the delay)."""
        samples = {}
        for name, drawn_w in self.model.node_w().items():
            jitter_w = self.model.random.uniform(-1.0, 1.0) * self.model.jitter_w if drawn_w > IDLE_W else 0.0
            read_w = self.distort(name, drawn_w + jitter_w, now_s)
            if read_w is not None:
                samples[name] = PowerSample(
                    round(read_w / self.resolution_w) * self.resolution_w, now_s - self.late_s, self.name
                )
        return Reading(samples, ())


@dataclass
class Course:
    """What a run of a controller over a power model showed, a sample a second."""

    above_s: float = 0.0
    seconds: float = 0.0
    most_w: float = 0.0
    problems: set[str] = field(default_factory=set)


def follow(controller: Controller, model: PowerModel, cap_w: float, rounds: int, step_s: float = 1.0) -> Course:
    """Run rounds, and compare what the nodes draw with the cap after each."""
    found = Course()
    for _ in range(rounds):
        report = controller.round()
        model.slurm.step(step_s)
        power_w = model.power_w()
        found.above_s += step_s * (power_w > cap_w + 1e-6)
        found.seconds += step_s
        found.most_w = max(found.most_w, power_w)
        found.problems |= set(report.problems) if report is not None else set()
    return found
