"""A load target reaches the agents of nodes: consenting jobs run slower until it is over, others do not.

Real agents, a real broker and a controller of its own configuration; the Slurm is emulated, and so are the nodes: their
watts go with the frequency that their agents set.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.broker_site import BrokerSite, blocks, broker_site
from wattqueue.live.assemble import assemble
from wattqueue.live.config import load_config
from wattqueue.live.consent_tags import CONSENT
from wattqueue.live.controller import Controller

TOP_HZ = 2.6e9
NODES = ("n1", "n2", "n3", "n4")
MACHINE = f"""
name = "m"
[[partitions]]
name = "p1"
nodes = 4
idle_w = 100.0
max_w = 300.0
frequencies_hz = [{TOP_HZ}, {TOP_HZ / 2}]
dvfs_alpha = 1.0
"""
SETTINGS = """
machine = "machine.toml"
policy = "dr-running"
cap = "1200 W"
mode = "control"
targets = "targets.csv"
period_s = 1.0
[consent]
every_s = 0.2
[limits]
hold_s = 12.0
silence_s = 4.0
"""
TARGET_W = 1000
"""Four nodes draw 4 * 280 W at full speed, and 170 W each where they are slowed."""


@dataclass
class Place:
    """Four busy nodes: those of ``slow`` belong to a job that consents, those of ``fast`` to one that does not."""

    site: BrokerSite
    slurm: FakeSlurm = field(default_factory=lambda: FakeSlurm({"p1": list(NODES)}, 800))
    controller: Controller | None = None
    slow: FakeJob = field(init=False)
    fast: FakeJob = field(init=False)

    def __post_init__(self) -> None:
        folder = self.site.folder
        broker = blocks("toml")[4].replace('"broker"', f'"localhost"\nport = {self.site.port}')
        # Licences follow what is measured; what jobs may draw beyond them is accepted here.
        tracked = '[telemetry]\ntrack_running = true\naccepted_overshoot = "50%"\n'
        broker = broker.replace("[telemetry]\n", tracked, 1)
        broker = broker.replace('"password"', '"controller.password"').replace('"ca.crt"', '"broker.crt"')
        (folder / "machine.toml").write_text(MACHINE)
        (folder / "live.toml").write_text(SETTINGS + broker)
        for node in NODES:
            self.site.start_agent(node)
        self.slurm.now_s = time.time()
        self.start()
        jobs = [self.slurm.submit(2, 1e6, watts=400, limit_s=1e6, comment=text) for text in (CONSENT, "")]
        self.until("both jobs run, measured", lambda: all(job.state == "RUNNING" for job in jobs) and self.measured())
        self.slow, self.fast = jobs

    def start(self) -> None:
        """Start a controller on what is stored and what the cluster shows."""
        self.controller = assemble(load_config(self.site.folder / "live.toml"), self.slurm, time.time)

    def leave(self) -> None:
        """End the controller, which does nothing about its jobs and nodes."""
        assert self.controller is not None
        self.controller.telemetry.close()
        self.controller.run_dir.release()
        self.controller.at_end()
        self.controller = None

    def until(self, what: str, there: Callable[[], bool], every_s: float = 0.3) -> float:
        """Run rounds until something is so; return the seconds. A node of the other job is never slowed."""

        def look() -> bool:
            if self.controller is not None:
                self.slurm.step(time.time() - self.slurm.now_s)
                assert self.controller.round() is not None
            assert all(self.site.trees[node].hertz() == TOP_HZ for node in self.others())
            return there()

        return wait_for(what, look, step_s=every_s)

    def others(self) -> tuple[str, ...]:
        """Nodes of the job that does not consent."""
        return self.fast.held_nodes if hasattr(self, "fast") else ()

    def measured(self) -> bool:
        """Whether every node is measured by its agent."""
        report = self.controller.last if self.controller is not None else None
        return report is not None and [*report.plan.jobs.label[report.plan.counted]] == ["measured"] * 2

    def meter_w(self) -> float:
        """What the nodes draw."""
        return sum(sum(tree.power_w()) + 60.0 for tree in self.site.trees.values())

    def target(self) -> None:
        """State a target that is in force."""
        now_s = time.time()
        part = self.site.folder / "targets.part"
        part.write_text(
            f"start_s,end_s,limit,unit,notice_s,correlation_id\n{now_s - 1},{now_s + 900},{TARGET_W},W,3600,g\n"
        )
        part.rename(self.site.folder / "targets.csv")

    def slowed(self) -> bool:
        """Whether the nodes of the consenting job run at the lower frequency."""
        return all(self.site.trees[node].hertz() == TOP_HZ / 2 for node in self.slow.held_nodes)

    def at_full_speed(self) -> bool:
        """Whether all nodes run at the highest frequency."""
        return all(tree.hertz() == TOP_HZ for tree in self.site.trees.values())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with broker_site(tmp_path, NODES, top_hz=TOP_HZ) as site:
        here = Place(site)
        yield here
        if here.controller is not None:
            here.leave()


def test_a_target_slows_the_nodes_of_consenting_jobs_until_it_is_over(place: Place) -> None:
    place.target()
    place.until("the target", lambda: place.meter_w() <= TARGET_W)
    assert place.slowed()

    # The next controller finds in its state which nodes are slowed, and goes on asking for it.
    place.leave()
    place.start()
    begin_s = time.time()
    place.until("more than a hold", lambda: time.time() - begin_s > 15.0)
    assert place.slowed()

    # Without a controller limits expire, and agents restore what they found. It is slowed again by the next one.
    place.leave()
    place.until("the agents restore it", place.at_full_speed)
    place.start()
    place.until("the target once more", lambda: place.meter_w() <= TARGET_W)

    (place.site.folder / "targets.csv").unlink()
    place.until("full speed", place.at_full_speed)
    assert {job.state for job in (place.slow, place.fast)} == {"RUNNING"}


@pytest.mark.slow
def test_how_long_it_takes_from_a_target_to_the_measured_drop(place: Place) -> None:
    """Prints the times of 100 targets (docs/guide/demand-response-live.md), with a round a second.

    A target comes at any time between two rounds.
    """
    found, random_ = [], random.Random(5)
    for _ in range(100):
        begin_s = time.monotonic()
        place.target()
        time.sleep(random_.uniform(0.0, 1.0))
        place.until("the target", lambda: place.meter_w() <= TARGET_W, 1.0)
        found.append(time.monotonic() - begin_s)
        (place.site.folder / "targets.csv").unlink()
        place.until("full speed", place.at_full_speed, 1.0)
    p50, p99 = np.quantile(found, [0.5, 0.99])
    sys.stderr.write(
        f"\n{len(found)} targets through agents: median {p50:.1f} s, p99 {p99:.1f} s, longest {max(found):.1f} s\n"
    )
    assert len(found) == 100
