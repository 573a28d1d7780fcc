"""E-PAS over agents against the real Slurm and a real mosquitto: the budget holds while agents and broker are killed.

Powercap trees stand in for the nodes' processors: their power follows their limits at once. Everything else is real:
Slurm and its jobs, agents with their keepers, the broker with TLS and access lists, the controller.

``WATTQUEUE_EPAS_S`` sets the duration of the slow test (3 minutes by default).
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import kept, lab_machine, make_controller
from tests.live.site import Site
from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.broker_site import BrokerSite, broker_site
from wattqueue.live.agents import AgentLink
from wattqueue.live.controller import Controller
from wattqueue.live.features.node_limits import NodeLimits, measured_by_agents
from wattqueue.live.planner import Rules
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.model.signals import Cap
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.policy.policy import load_policy
from wattqueue_agent.broker import Connection

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-3")]
NODES = [f"n{i}" for i in range(1, 9)]
OTHER_W, PACKAGE_W, IDLE_W = 60.0, 120.0, 20.0
"""Watts of a node beside its two packages, the most of a package, and of one without a job: 100 to 300 W a node."""
CAP_W = 1400.0
HOLD_S = 15.0
QUIET_S = 6.0
"""How long a job draws little after its start; then it takes what its limit lets it have."""
Fault = tuple[float, Callable[["Run"], None]]


@dataclass
class Disturbed:
    """The connection of a link: what is sent goes out late, some of it twice, and not in the order of its numbers."""

    connection: Connection
    random: random.Random
    arrived: Any = None
    sent: int = 0

    def __post_init__(self) -> None:
        self.arrived = self.connection.arrived

    @property
    def problem(self) -> str:
        return self.connection.problem

    def send(self, topic: str, text: bytes, *, retain_s: int = 0) -> None:
        self.sent += 1
        late_s = self.random.choice((0.0, 0.0, 0.3, 0.8))
        for delay_s, kept_s in ((late_s, retain_s), *([(late_s + 2.5, 0)] if self.random.random() < 0.3 else [])):
            timer = threading.Timer(delay_s, self.connection.send, (topic, text), {"retain_s": kept_s})
            timer.daemon = True
            timer.start()

    def close(self) -> None:
        self.connection.close()


@dataclass
class Run:
    """Agents on all nodes of the lab, a controller with E-PAS, and what the trees drew."""

    lab: Site
    broker: BrokerSite
    controller: Controller
    samples: list[tuple[float, float]] = field(default_factory=list)
    """Time, and the true watts of all nodes at that moment."""
    later: list[Fault] = field(default_factory=list)
    started_s: dict[str, float] = field(default_factory=dict)
    faults: int = 0
    longest_s: float = 0.0
    """Longest time between two rounds."""
    most_w: float = 0.0
    """Greatest limit of a node that was in force."""
    _end: threading.Event = field(default_factory=threading.Event)

    def sample(self) -> None:
        """Take the true power every 0.1 s, until the end."""
        while not self._end.wait(0.1):
            self.samples.append((time.monotonic(), self.power_w()))

    def power_w(self) -> float:
        """Watts of all nodes now."""
        return sum(OTHER_W + sum(tree.power_w()) for tree in self.broker.trees.values())

    def round(self) -> None:
        """Run one round; then load the nodes by the jobs that Slurm runs there."""
        self.controller.round()
        report = self.controller.last
        assert report is not None
        now_s, busy = time.monotonic(), dict[str, float]()
        for job in report.snapshot.jobs:
            if job.active:
                begun_s = self.started_s.setdefault(job.key.name, now_s)
                busy |= dict.fromkeys(job.node_names, 35.0 if now_s - begun_s < QUIET_S else 150.0)
        for name, tree in self.broker.trees.items():
            tree.demand_w = [busy.get(name, IDLE_W)] * 2
        self.most_w = max(self.most_w, *(node.wanted_w for node in self.limits.nodes.values()))

    @property
    def limits(self) -> Any:
        return kept(self.controller, NodeLimits)

    def start_agent(self, name: str) -> None:
        self.broker.start_agent(name, ("low = 60.0", "low = 25.0"), ("high = 150.0", f"high = {PACKAGE_W}"))

    def kill(self, name: str, away_s: float) -> None:
        """Kill an agent or the broker with -9, and start it again after so long."""
        self.broker.kill(name)
        self.faults += 1
        begin = self.broker.start_broker if name == "broker" else lambda: self.start_agent(name)
        self.later.append((time.monotonic() + away_s, lambda _: begin()))

    def hang(self, name: str, seconds: float) -> None:
        """Stop an agent, and let it go on after so long."""
        child = self.broker.children[name]
        child.send_signal(signal.SIGSTOP)
        self.faults += 1
        self.later.append((time.monotonic() + seconds, lambda _: child.send_signal(signal.SIGCONT)))

    def drive(self, seconds: float, faults: Sequence[Fault]) -> None:
        """Run rounds for so long, and let each fault happen at its time."""
        begin = time.monotonic()
        self.later += [(begin + at_s, fault) for at_s, fault in faults]
        while (now_s := time.monotonic()) < begin + seconds:
            due = [fault for at_s, fault in self.later if at_s <= now_s]
            self.later = [one for one in self.later if one[0] > now_s]
            for fault in due:
                fault(self)
            self.round()
            self.longest_s = max(self.longest_s, time.monotonic() - now_s)
            time.sleep(max(0.0, 0.5 - (time.monotonic() - now_s)))

    def end(self) -> None:
        self._end.set()
        self.controller.telemetry.close()


@pytest.fixture
def run(site: Site, tmp_path: Path) -> Iterator[Run]:
    """Agents that are up and limited by a controller that has run some rounds."""
    with broker_site(tmp_path, NODES, limit_w=PACKAGE_W, period_s=0.5) as broker:
        for tree in broker.trees.values():
            tree.demand_w = [IDLE_W, IDLE_W]
        connection = broker.connect("controller", "state/+")
        link = AgentLink(Disturbed(connection, random.Random(5)), OTHER_W)  # type: ignore[arg-type]
        policy = load_policy("pas", ledger="measured", controls=[RaplRedistribution(measure=measured_by_agents)])
        controller = make_controller(
            SlurmCluster(site.lab.commands), tmp_path, time.time,
            cap=Cap.constant(CAP_W), machine=lab_machine(), policy=policy, sources=(link,),
            rules=Rules(mode="control", write_priority=False, track_running=True, warm_up_s=3.0),
        )  # fmt: skip
        here = Run(site, broker, controller)
        here.limits.hold_s = HOLD_S
        for name in NODES:
            here.start_agent(name)

        # A whole job first: all kernels are compiled then. A controller that compiles for longer than limits hold loses
        # them, as one that is away does.
        first = site.lab.submit("-N1", "-t", "10", "--wrap=sleep 3")

        def limited() -> bool:
            here.round()
            if site.lab.states().get(first) != "COMPLETED":
                return False
            return bool(here.limits.figures()["limited_nodes"] == len(NODES)) and here.limits.possible_w <= CAP_W + 1e-3

        wait_for("limits on all nodes", limited, step_s=0.2)
        threading.Thread(target=here.sample, daemon=True).start()
        try:
            yield here
        finally:
            here.end()


def check(run: Run, seconds: float, faults: Sequence[Fault], record: Callable[[str, object], None]) -> None:
    """Keep every node wanted by jobs for so long, with faults; no sample of true power is above the cap.

    Jobs are admitted by what they draw at first, which is far less than later: without limits they would draw 2,400 W.
    """
    jobs = [run.lab.lab.submit("-N1", "-t", "10", f"--wrap=sleep {seconds / 2:.0f}") for _ in range(16)]
    run.drive(seconds, faults)
    watts = [watts for _, watts in run.samples]
    begin_s = run.samples[0][0]
    seconds_w: dict[int, list[float]] = {}
    for at_s, power_w in run.samples:
        seconds_w.setdefault(int(at_s - begin_s), []).append(power_w)
    means = [sum(one) / len(one) for one in seconds_w.values()]
    states = run.limits.link.states
    kinds = ("message older than the one before", "resumed at start", "expired limits", "restored at start")
    counts = {kind: sum(state.counts.get(kind, 0) for state in states.values()) for kind in kinds}
    started = sum(state in ("RUNNING", "COMPLETING", "COMPLETED") for state in run.lab.lab.states().values())
    figures = {
        "samples": len(watts), "most_w": round(max(watts), 1), "most_of_a_second_w": round(max(means), 1),
        "mean_w_of_the_second_half": round(sum(means[len(means) // 2 :]) / len(means[len(means) // 2 :]), 1),
        "cap_w": CAP_W, "longest_round_s": round(run.longest_s, 1),
        "faults": run.faults, "messages": run.limits.link.connection.sent, "jobs_started": started,
        "greatest_limit_w": round(run.most_w, 1), "raises_waited": run.limits.figures()["raises_waited"], **counts,
    }  # fmt: skip
    for name, value in figures.items():
        record(name, value)
    sys.stderr.write(f"{figures}\n")
    assert max(watts) <= CAP_W, f"at every moment at which it was looked at, and so in every second: {figures}"
    assert len(means) > 0.8 * seconds, "it was looked at all the time"
    assert started > 3, "more than the budget admits at their maxima"
    assert run.most_w > CAP_W / len(NODES) + 20.0, "watts moved to where they were used"
    assert counts["message older than the one before"] > 0, "messages did come out of order"
    assert counts["resumed at start"] + counts["restored at start"] > 0, "agents went on with what the killed ones held"
    run.lab.lab.run(["scancel", *jobs])


def test_the_budget_holds_while_agents_and_the_broker_are_killed(
    run: Run, record_property: Callable[[str, object], None]
) -> None:
    """One agent is away for longer than its limit holds: its keeper restores it, and the others have made room."""
    faults: list[Fault] = [
        (10.0, lambda here: here.kill("n2", 1.0)),
        (13.0, lambda here: here.kill("n6", HOLD_S + 8.0)),
        (18.0, lambda here: here.kill("broker", 2.0)),
        (26.0, lambda here: here.hang("n3", 3.0)),
        (30.0, lambda here: here.kill("n1", 1.0)),
    ]
    check(run, 45.0, faults, record_property)


@pytest.mark.slow
def test_the_budget_holds_under_random_faults(run: Run, record_property: Callable[[str, object], None]) -> None:
    """A fault each 4 s on average; one long absence at a time, since two would leave no room below the cap."""
    seconds, draw = float(os.environ.get("WATTQUEUE_EPAS_S", "180")), random.Random(3)
    faults: list[Fault] = []
    at_s, long_s = 8.0, 0.0
    while at_s < seconds - 10.0:
        name, away_s = draw.choice([*NODES, "broker"]), draw.uniform(0.3, 2.0)
        if name != "broker" and at_s > long_s and draw.random() < 0.3:
            away_s, long_s = HOLD_S + 5.0, at_s + HOLD_S + 25.0

        def fault(here: Run, name: str = name, away_s: float = away_s) -> None:
            child = here.broker.children[name]
            if child.poll() is None:  # it may be away still
                here.hang(name, 2.0) if name != "broker" and away_s < 0.8 else here.kill(name, away_s)

        faults.append((at_s, fault))
        at_s += draw.uniform(2.0, 6.0)
    check(run, seconds, faults, record_property)
