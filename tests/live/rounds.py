"""Rounds of a controller over many queued jobs of a real Slurm: how long they take, and Slurm's commands of that."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.live.site import Site
from wattqueue.live.controller import Controller
from wattqueue.live.slurm.commands import CommandResult, Slurm
from wattqueue.model.signals import Cap

ROUNDS = 60


@dataclass
class Counted:
    """Slurm's commands; it keeps the name of each that ran, and how long it took."""

    slurm: Slurm
    names: list[str] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)

    def run(self, argv: Sequence[str]) -> CommandResult:
        self.names.append(argv[0])
        done = self.slurm.run(argv)
        name = " ".join(word for word in argv[:4] if word.isalpha())
        self.took[name] = self.took.get(name, 0.0) + done.took_s
        return done


def queue_up(site: Site, count: int, nodes: int = 4, seconds: int = 60) -> None:
    """So many jobs wait."""
    site.keep_beating()
    job = f"sbatch -Q -o /dev/null -N{nodes} -t 60 -p p1 --wrap='sleep {seconds}'"
    script = f"for i in $(seq {count}); do {job} || exit 1; done; true"
    path = os.pathsep.join(filter(None, (site.lab.bin_dir, os.environ["PATH"])))  # the commands of this release
    done = site.lab.run(["/bin/sh", "-c", script], timeout_s=1200.0, env={"PATH": path})
    assert done.code == 0


def rising_later(room_w: float) -> Cap:
    """A cap with so much room above idle, until all nodes fit in ten days: a job that never fits would be set aside."""
    return Cap(np.array([-np.inf, time.time() + 864_000.0]), np.array([8 * 100.0 + room_w, 8 * 300.0]))


@dataclass(frozen=True, slots=True)
class Took:
    """What some rounds took.

    Attributes:
        whole: Percentiles of the seconds of a round.
        ours: The same without the seconds of Slurm's commands.
        commands: Mean seconds a round of each command.
        writes: Number of writes of all rounds.
    """

    whole: dict[str, float]
    ours: dict[str, float]
    commands: dict[str, float]
    writes: int


def time_rounds(controller: Controller, slurm: Counted, ended: Callable[[], object] = lambda: None) -> Took:
    """Return what ``ROUNDS`` rounds take, one a second; ``ended`` is called after each."""
    for _ in range(2):  # these compile, and write the pool
        controller.round()
        ended()
    slurm.took.clear()
    took, ours, writes = [], [], 0
    for _ in range(ROUNDS):
        before, begin = sum(slurm.took.values()), time.perf_counter()
        report = controller.round()
        ended()
        took.append(time.perf_counter() - begin)
        ours.append(took[-1] - (sum(slurm.took.values()) - before))
        assert report is not None
        assert not [one.error for one in report.outcomes if one.error]
        writes += len(report.outcomes)
        time.sleep(max(0.0, 1.0 - took[-1]))
    commands = {key: round(s / ROUNDS, 4) for key, s in slurm.took.items()}
    return Took(percentiles(took), percentiles(ours), commands, writes)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and greatest value."""
    rank = sorted(values)
    return {
        "p50": round(rank[len(rank) // 2], 3),
        "p95": round(rank[int(0.95 * len(rank))], 3),
        "most": round(rank[-1], 3),
    }
